// Package upload receives files into a folder. What stands in the folder under
// a name is always whole: a file is written under a hidden name, synced, and
// moved to its own when its last byte has come. A file that breaks off leaves
// nothing behind, and one whose process died is removed at the next Open.
package upload

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/gabriel-vasile/mimetype"
)

const (
	// bufferSize is how much is read at once: larger steps are no faster.
	bufferSize = 1 << 20
	// headSize is how much of a file is looked at to tell its type.
	headSize = 3072
	// partialAge is after how long a partial file is nobody's any more, where
	// no lock tells whether somebody writes it.
	partialAge = 24 * time.Hour

	partialPrefix = ".studio-upload-"
	partialSuffix = ".part"
)

// ErrTooLarge is returned for a file that is larger than allowed.
var ErrTooLarge = errors.New("the file is too large")

// Folder is a folder that files are received into. Its methods may be called
// from many goroutines; several processes may share a folder, each with names
// of its own.
type Folder struct {
	root    *os.Root
	buffers sync.Pool // of *[bufferSize]byte
}

// Received describes a file that came in whole.
type Received struct {
	Size   int64
	SHA256 string // 64 hex digits
	// Type is told by the bytes; empty when they tell no more than that they
	// are text, or nothing.
	Type string
}

// Open opens the folder at dir, makes it if need be, and removes what dead
// processes left unfinished. A folder that cannot be written to is an error.
func Open(dir string) (*Folder, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make upload folder: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open upload folder: %w", err)
	}
	f := &Folder{root: root, buffers: sync.Pool{New: func() any { return new([bufferSize]byte) }}}
	if err := errors.Join(f.sweep(), f.tryWriting()); err != nil {
		return nil, errors.Join(fmt.Errorf("open upload folder: %w", err), root.Close())
	}
	return f, nil
}

// Close releases the folder. Files that Open returned stay usable.
func (f *Folder) Close() error { return f.root.Close() }

func (f *Folder) tryWriting() error {
	file, err := f.create()
	if err != nil {
		return err
	}
	return errors.Join(file.Close(), f.root.Remove(file.name))
}

// partial is a file that is being received.
type partial struct {
	*os.File
	name string
}

func (f *Folder) create() (*partial, error) {
	name := partialPrefix + rand.Text() + partialSuffix
	file, err := f.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	// Without locks, sweep goes by age.
	_, err = tryLock(file)
	if err != nil {
		return nil, errors.Join(err, file.Close(), f.root.Remove(name))
	}
	return &partial{file, name}, nil
}

// Pending is a file that came in whole and is on the disk, but does not have
// its name yet. Exactly one of Place and Discard ends it.
type Pending struct {
	Received
	folder *Folder
	file   *partial
}

// Receive writes src to the disk, at most limit bytes of it; more are
// ErrTooLarge. When it fails, nothing is left.
func (f *Folder) Receive(src io.Reader, limit int64) (*Pending, error) {
	file, err := f.create()
	if err != nil {
		return nil, fmt.Errorf("receive upload: %w", err)
	}
	p := &Pending{folder: f, file: file}
	if err := p.fill(src, limit); err != nil {
		return nil, fmt.Errorf("receive upload: %w", errors.Join(err, p.Discard()))
	}
	return p, nil
}

func (p *Pending) fill(src io.Reader, limit int64) error {
	buffer := p.folder.buffers.Get().(*[bufferSize]byte)
	defer p.folder.buffers.Put(buffer)
	in := &intake{file: p.file, sum: sha256.New()}
	// One byte more than allowed tells that there is more.
	size, err := io.CopyBuffer(in, io.LimitReader(src, limit+1), buffer[:])
	switch {
	case err != nil:
		return err
	case size > limit:
		return ErrTooLarge
	}
	p.Received = Received{Size: size, SHA256: hex.EncodeToString(in.sum.Sum(nil)), Type: typeOf(in.head)}
	return p.file.Sync()
}

// intake writes a file and looks at it on the way.
type intake struct {
	file io.Writer
	sum  hash.Hash
	head []byte
}

func (in *intake) Write(b []byte) (int, error) {
	if room := headSize - len(in.head); room > 0 {
		in.head = append(in.head, b[:min(room, len(b))]...)
	}
	in.sum.Write(b) // a hash returns no error
	return in.file.Write(b)
}

// typeOf names the type of a file by its first bytes, where they tell.
func typeOf(head []byte) string {
	kind := mimetype.Detect(head)
	if kind.Is("text/plain") || kind.Is("application/octet-stream") {
		return ""
	}
	name, _, _ := strings.Cut(kind.String(), ";")
	return name
}

// Place gives the file its name, in place of what stands there, and returns
// when that survives a power cut.
func (p *Pending) Place(name string) error {
	if !plain(name) {
		return errors.Join(fmt.Errorf("name upload %q: %w", name, fs.ErrInvalid), p.Discard())
	}
	root := p.folder.root
	if err := errors.Join(p.file.Close(), root.Rename(p.file.name, name)); err != nil {
		return errors.Join(fmt.Errorf("name upload %q: %w", name, err), p.folder.discard(p.file.name))
	}
	if err := p.folder.syncNames(); err != nil {
		return fmt.Errorf("name upload %q: %w", name, err)
	}
	return nil
}

// Discard removes the file.
func (p *Pending) Discard() error {
	return errors.Join(p.file.Close(), p.folder.discard(p.file.name))
}

func (f *Folder) discard(name string) error {
	if err := f.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Open opens the file of a name; the caller closes it. The error is
// fs.ErrNotExist when it is no plain name of a regular file in the folder.
func (f *Folder) Open(name string) (*os.File, error) {
	if !plain(name) {
		return nil, fmt.Errorf("open upload %q: %w", name, fs.ErrNotExist)
	}
	info, err := f.root.Lstat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, fmt.Errorf("open upload %q: %w", name, err)
	}
	return f.root.Open(name)
}

// Size is how large the file of a name is; fs.ErrNotExist as with Open.
func (f *Folder) Size(name string) (int64, error) {
	file, err := f.Open(name)
	if err != nil {
		return 0, err
	}
	info, err := file.Stat()
	if err := errors.Join(err, file.Close()); err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Touch makes a file look used now, to others that share the folder.
func (f *Folder) Touch(name string, now time.Time) error {
	if !plain(name) {
		return fmt.Errorf("touch upload %q: %w", name, fs.ErrNotExist)
	}
	return f.root.Chtimes(name, now, now)
}

// Remove deletes a file. One that is gone already is no error.
func (f *Folder) Remove(name string) error {
	if !plain(name) {
		return fmt.Errorf("remove upload %q: %w", name, fs.ErrInvalid)
	}
	if err := f.discard(name); err != nil {
		return fmt.Errorf("remove upload: %w", err)
	}
	return nil
}

// Found is a file of the folder.
type Found struct {
	Name    string
	ModTime time.Time
}

// List lists the regular files whose names begin with prefix.
func (f *Folder) List(prefix string) ([]Found, error) {
	entries, err := fs.ReadDir(f.root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("list uploads: %w", err)
	}
	var found []Found
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), prefix) || !entry.Type().IsRegular() {
			continue
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list uploads: %w", err)
		}
		found = append(found, Found{entry.Name(), info.ModTime()})
	}
	return found, nil
}

// sweep removes partial files that nobody writes. The kernel knows who is
// dead: it freed their locks.
func (f *Folder) sweep() error {
	partials, err := f.List(partialPrefix)
	if err != nil {
		return err
	}
	for _, p := range partials {
		if !strings.HasSuffix(p.Name, partialSuffix) {
			continue
		}
		if err := f.sweepOne(p); err != nil {
			return err
		}
	}
	return nil
}

func (f *Folder) sweepOne(p Found) error {
	file, err := f.root.OpenFile(p.Name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	state, err := tryLock(file)
	err = errors.Join(err, file.Close())
	if err != nil || state == lockHeld || state == lockUnknown && time.Since(p.ModTime) < partialAge {
		return err
	}
	return f.discard(p.Name)
}

// lockState is what trying to lock a file told.
type lockState int

const (
	lockUnknown lockState = iota // there are no locks here
	lockTaken
	lockHeld // by another
)

// plain accepts a visible name of a file right in the folder.
func plain(name string) bool {
	return name != "" && name[0] != '.' && len(name) <= maxName && !strings.ContainsAny(name, "/\\:\x00")
}
