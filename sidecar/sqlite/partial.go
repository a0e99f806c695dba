package sqlite

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
)

const (
	// partialSuffix and partialLetters random letters are what the folder of a
	// copy that is being made has behind the copy's name.
	partialSuffix  = ".partial-"
	partialLetters = 8
	partialCopy    = "copy.db"
	partialLock    = "copy.lock"
)

// partial is a folder beside the name of a copy, in which it is made. It has a
// lock, which the kernel frees when its holder dies.
type partial struct {
	folder string
	lock   *fileLock // nil on a file system without locks
}

func newPartial(to string) (*partial, error) {
	for {
		folder := to + partialSuffix + rand.Text()[:partialLetters]
		if err := os.Mkdir(folder, 0o700); err != nil {
			return nil, err
		}
		lock, err := tryLock(filepath.Join(folder, partialLock))
		switch {
		case err == nil, isThere(filepath.Join(folder, partialLock)) && !errors.Is(err, errHeld):
			return &partial{folder, lock}, nil
		case !errors.Is(err, errHeld) && !errors.Is(err, os.ErrNotExist):
			return nil, errors.Join(err, removeEmpty(folder))
		}
		// Somebody who sweeps took the folder before it was locked.
	}
}

func (p *partial) copy() string { return filepath.Join(p.folder, partialCopy) }

// remove removes what may be in the folder, the lock last, and the folder, unless
// somebody else put something there.
func (p *partial) remove() error {
	errs := []error{removeCopy(p.copy())}
	if p.lock == nil {
		errs = append(errs, removeIfThere(filepath.Join(p.folder, partialLock)))
	} else {
		errs = append(errs, removeLocked(p.lock.file))
	}
	return errors.Join(append(errs, removeEmpty(p.folder))...)
}

// removeCopy removes a copy that is not whole, with what SQLite leaves beside it
// when it is killed.
func removeCopy(path string) error {
	var errs []error
	for _, suffix := range []string{"", "-journal", "-wal", "-shm"} {
		errs = append(errs, removeIfThere(path+suffix))
	}
	return errors.Join(errs...)
}

// removeEmpty removes a folder in which nothing is.
func removeEmpty(folder string) error {
	entries, err := os.ReadDir(folder)
	if len(entries) > 0 || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return errors.Join(err, removeIfThere(folder))
}

// sweepPartials removes what those left who died while they made a copy of this
// name.
func sweepPartials(to string) error {
	entries, err := os.ReadDir(filepath.Dir(to))
	if err != nil {
		return nil // who makes a copy there is told of it
	}
	var errs []error
	for _, entry := range entries {
		letters, ours := strings.CutPrefix(entry.Name(), filepath.Base(to)+partialSuffix)
		if ours && entry.IsDir() && len(letters) == partialLetters {
			errs = append(errs, sweepPartial(filepath.Join(filepath.Dir(to), entry.Name())))
		}
	}
	return errors.Join(errs...)
}

func sweepPartial(folder string) error {
	// Not created here: a folder without a lock file is just being made, or its
	// maker died then.
	file, err := os.OpenFile(filepath.Join(folder, partialLock), os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return removeEmpty(folder)
	}
	if err != nil {
		return err
	}
	if lockFile(file) != nil {
		return file.Close() // its maker lives, or nobody can tell
	}
	return (&partial{folder, &fileLock{file: file}}).remove()
}
