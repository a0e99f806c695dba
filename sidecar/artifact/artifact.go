// Package artifact keeps copies of files that runs made, on our own disk, for
// as long as the gallery names them. A copy is named by a reference of the
// form "GROUP/NAME", the group being the prompt that made it. What stands
// under a reference is always whole: a file is received elsewhere and moved
// in when its last byte has come.
package artifact

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gabriel-vasile/mimetype"
)

const (
	// partials is where files are received. Its name has a dot in front, so
	// that no reference can name it.
	partials = ".partial"
	// partialAge is after how long a partial file is nobody's any more.
	partialAge = 24 * time.Hour
	// headSize is how much of a file is looked at to tell its type.
	headSize = 3072
)

// Dir is a folder of artifacts. Its methods may be called from many
// goroutines; one process at a time may add to a folder.
type Dir struct {
	path string
	mu   sync.Mutex // held while a file gets its name

	looking sync.Mutex
	roots   []*os.Root // guarded by looking; the last one is used
}

// Copy describes an artifact that was added.
type Copy struct {
	// Ref is the reference to ask for it by.
	Ref string
	// ContentType is told by the bytes alone: application/octet-stream when
	// they tell nothing.
	ContentType string
	Size        int64
}

// Open opens the folder at dir, makes it if need be, and removes what copies
// of earlier lives left unfinished.
func Open(dir string) (*Dir, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make artifact folder: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open artifact folder: %w", err)
	}
	d := &Dir{path: dir, roots: []*os.Root{root}}
	if err := d.sweep(); err != nil {
		return nil, errors.Join(fmt.Errorf("clear unfinished copies: %w", err), root.Close())
	}
	return d, nil
}

// Close releases the folder. Files that Open returned stay usable.
func (d *Dir) Close() error {
	d.looking.Lock()
	defer d.looking.Unlock()
	var errs []error
	for _, root := range d.roots {
		errs = append(errs, root.Close())
	}
	return errors.Join(errs...)
}

// folder is what stands under the path now, where the next start will look. One
// that was removed or replaced meanwhile would take copies along that nobody
// finds again.
func (d *Dir) folder() *os.Root {
	d.looking.Lock()
	defer d.looking.Unlock()
	open := d.roots[len(d.roots)-1]
	mine, err := open.Stat(".")
	if err != nil {
		return open // it is closed, or cannot be used: whoever uses it is told
	}
	there, err := os.Stat(d.path)
	if err == nil && os.SameFile(mine, there) {
		return open
	}
	if os.MkdirAll(filepath.Join(d.path, partials), 0o755) != nil {
		return open
	}
	if root, err := os.OpenRoot(d.path); err == nil {
		d.roots = append(d.roots, root)
		return root
	}
	return open
}

func (d *Dir) sweep() error {
	if err := d.folder().MkdirAll(partials, 0o755); err != nil {
		return err
	}
	entries, err := fs.ReadDir(d.folder().FS(), partials)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || time.Since(info.ModTime()) < partialAge {
			continue
		}
		if err := d.folder().Remove(path.Join(partials, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// Add copies src to its end and files it under group and name, both cleaned.
// A name that is taken gets digits of chance. When src fails, nothing is added.
func (d *Dir) Add(group, name string, src io.Reader) (Copy, error) {
	return d.AddNamed(group, name, "artifact", src)
}

// AddNamed is Add for a file that may have no name: it is then called stem, with
// the extension of its kind.
func (d *Dir) AddNamed(group, name, stem string, src io.Reader) (Copy, error) {
	head := make([]byte, headSize)
	n, err := io.ReadFull(src, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return Copy{}, fmt.Errorf("copy %q: %w", name, err)
	}
	head = head[:n]
	partial := path.Join(partials, rand.Text())
	size, err := d.receive(partial, io.MultiReader(bytes.NewReader(head), src))
	if err != nil {
		return Copy{}, fmt.Errorf("copy %q: %w", name, errors.Join(err, d.discard(partial)))
	}
	kind := mimetype.Detect(head)
	ref, err := d.place(partial, CleanGroup(group), CleanName(name, stem+extension(kind)))
	if err != nil {
		return Copy{}, fmt.Errorf("file %q: %w", name, errors.Join(err, d.discard(partial)))
	}
	return Copy{Ref: ref, ContentType: kind.String(), Size: size}, nil
}

func extension(kind *mimetype.MIME) string {
	if ext := kind.Extension(); ext != "" {
		return ext
	}
	return ".bin"
}

// receive writes src to disk. The file is synced: ComfyUI forgets its temp
// files, and a power cut must not take the only copy.
func (d *Dir) receive(partial string, src io.Reader) (int64, error) {
	f, err := d.folder().OpenFile(partial, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return 0, err
	}
	size, err := io.Copy(f, src)
	if err == nil {
		err = f.Sync()
	}
	return size, errors.Join(err, f.Close())
}

func (d *Dir) discard(partial string) error {
	if err := d.folder().Remove(partial); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// place moves a whole file to its name, and returns when that survives a power
// cut.
func (d *Dir) place(partial, group, name string) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.makeGroup(group); err != nil {
		return "", err
	}
	ext := path.Ext(name)
	stem := strings.TrimSuffix(name, ext)
	for {
		ref := path.Join(group, name)
		_, err := d.folder().Lstat(ref)
		if errors.Is(err, fs.ErrNotExist) {
			if err := d.folder().Rename(partial, ref); err != nil {
				return "", err
			}
			if err := d.syncNames(group); err != nil {
				return "", errors.Join(err, d.folder().Remove(ref))
			}
			return ref, nil
		}
		if err != nil {
			return "", err
		}
		name = stem + "_" + chance() + ext
	}
}

// chance is eight hexadecimal digits.
func chance() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

func (d *Dir) makeGroup(group string) error {
	err := d.folder().Mkdir(group, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return d.syncNames(".")
}

// Open opens the artifact that ref names; the caller closes it. The error is
// fs.ErrNotExist for a reference that names no file, leaves the folder, or
// could not come from Add.
func (d *Dir) Open(ref string) (*os.File, error) {
	if !valid(ref) {
		return nil, fmt.Errorf("open artifact %q: %w", ref, fs.ErrNotExist)
	}
	f, err := d.folder().Open(ref)
	if err != nil {
		return nil, fmt.Errorf("open artifact: %w", err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("open artifact %q: %w", ref, fs.ErrNotExist)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Remove deletes an artifact, and its group when it was the last one there.
// One that is gone already is no error.
func (d *Dir) Remove(ref string) error {
	if !valid(ref) {
		return fmt.Errorf("remove artifact %q: %w", ref, fs.ErrInvalid)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.folder().Remove(ref); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove artifact: %w", err)
	}
	group := path.Dir(ref)
	left, err := fs.ReadDir(d.folder().FS(), group)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove artifact: %w", err)
	}
	if len(left) > 0 {
		return nil
	}
	if err := d.folder().Remove(group); err != nil {
		return fmt.Errorf("remove artifact folder: %w", err)
	}
	return nil
}

// valid accepts what Add could have returned: two plain names, neither hidden.
func valid(ref string) bool {
	group, name, ok := strings.Cut(ref, "/")
	return ok && fs.ValidPath(ref) && !strings.ContainsAny(ref, "\\\x00") && !strings.Contains(name, "/") &&
		!strings.HasPrefix(group, ".") && !strings.HasPrefix(name, ".")
}
