package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// place is where the files stand that a Store has open. SQLite goes on writing
// to a file that was removed or replaced: what is acknowledged then would be
// lost with the process.
type place struct {
	path  string // as the user named it
	files []placed
}

type placed struct {
	path string
	info os.FileInfo
}

// realPath follows links, as SQLite does: the log stands beside the file that
// they lead to. A file that is not there yet is looked for by its folder.
func realPath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if folder, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(folder, filepath.Base(path))
	}
	return path
}

// walPath is the log of a database.
func walPath(path string) string { return realPath(path) + "-wal" }

// lostFile refuses to begin anew where a log tells that there was a file: its
// changes would be gone for good.
func lostFile(path string, logged bool) error {
	if !logged {
		return nil
	}
	return refusal(path, "it is gone, and its log "+walPath(path)+" is still there",
		"Put the file back beside its log, or restore a backup; move the log away to begin anew.", nil)
}

// checkNames refuses a file with several names: what was not moved into it yet
// stands beside one of them, and two servers would not know of each other.
func checkNames(path string) error {
	names, err := nameCount(path)
	if err != nil {
		return unreadable(path, err)
	}
	if names > 1 {
		return refusal(path, fmt.Sprintf("it has %d names (hard links)", names),
			"Remove the others. For a copy use: studio-sidecar backup", nil)
	}
	return nil
}

// placeOf notes the files of a database that is open and was written to.
func placeOf(path string) (*place, error) {
	p := &place{path: path}
	real := realPath(path)
	for _, name := range []string{path, real + "-wal", real + "-shm"} {
		info, err := os.Stat(name)
		if err != nil {
			return nil, refusal(path, name+" is not where it was made", "Start again.", err)
		}
		p.files = append(p.files, placed{name, info})
	}
	return p, nil
}

// check refuses when one of the files is not in its place any more. It costs
// some microseconds. Where an open file cannot be removed it does nothing.
func (p *place) check() error {
	if p == nil || runtime.GOOS == "windows" {
		return nil
	}
	for i, file := range p.files {
		info, err := os.Stat(file.path)
		if err == nil && os.SameFile(info, file.info) {
			continue
		}
		hint := "Nothing is kept until it is back. Put it back, or stop, restore a backup, and start again."
		if i > 0 { // what the log held is moved into the file
			hint = "Nothing is kept until it is back. Put it back, or stop and start again."
		}
		return &sidecar.Error{
			Code:    sidecar.CodeStorage,
			Message: fmt.Sprintf("state database %s: %s", p.path, misplaced(file.path, err)),
			Hint:    hint,
			Err:     errors.Join(errMisplaced, err),
		}
	}
	return nil
}

// unknown makes of a file that is not in its place the reason why nobody can
// say whether a change that was just written will be found again: only the next
// start can.
func unknown(err error) error {
	var told *sidecar.Error
	if !errors.As(err, &told) {
		return err
	}
	return &sidecar.Error{
		Code:    told.Code,
		Message: told.Message + ", so the last change may or may not be there",
		Hint:    "Put it back, or restore a backup, and start again; nothing is written until then.",
		Err:     errors.Join(told.Err, sidecar.ErrLasting),
	}
}

// errMisplaced means that the files that are open are not those that the next
// start would find.
var errMisplaced = errors.New("a file of the state database is not in its place")

func misplaced(path string, err error) string {
	switch {
	case err == nil:
		return "another file stands in the place of " + path
	case errors.Is(err, os.ErrNotExist):
		return path + " was removed"
	}
	return path + " cannot be looked at"
}

// logMisplaced reports whether the log alone is gone: what it holds can still
// be moved into the file.
func (p *place) logMisplaced() bool {
	if p == nil {
		return false
	}
	info, err := os.Stat(p.files[0].path)
	return err == nil && os.SameFile(info, p.files[0].info)
}
