package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"hash/maphash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// everyFileLimit is the number of files up to which each question looks at each
// of them (1 to 2 µs); beyond it that happens at most once in sweepEvery, and
// in between only the folders are looked at.
const (
	everyFileLimit = 2500
	sweepEvery     = time.Second
)

// digester keeps the contract digest of a manifest folder.
type digester struct {
	now    func() time.Time
	rounds rounds
	seed   maphash.Seed
	dir    string
	tree   *tree
	seen   sight
	buffer []byte // between uses
}

// sight is what a look at the files found.
type sight struct {
	digest     string           // "" when there are no files or one cannot be read
	generation uint64           // moves when a file or a folder does
	files      map[string]stamp // whose changes move it, by their paths as the tree has them
}

// tree is what the digest was made of.
type tree struct {
	files    []file // in the digest's order
	folders  []file
	walked   time.Time
	unstable bool // something changed shortly before, so stamps prove nothing yet
}

type file struct {
	path  string // relative, with slashes
	stamp stamp
	sum   uint64 // of the content, for files that changed shortly before
}

// look compares the files of dir with those that were looked at before, and
// reads them again if one moved.
func (d *digester) look(dir string) sight {
	d.rounds.do(func() { d.refresh(dir) })
	d.rounds.working.Lock()
	defer d.rounds.working.Unlock()
	return d.seen
}

func (d *digester) refresh(dir string) {
	if d.dir != dir {
		d.dir, d.tree = dir, nil
	}
	now := d.now()
	if d.tree != nil && !d.tree.unstable && d.tree.intact(dir, now) {
		return
	}
	t := walk(dir, now)
	if d.tree != nil && d.tree.sameFiles(t) && d.sameContent(dir, d.tree, t) {
		if !slices.Equal(d.tree.folders, t.folders) {
			d.seen.generation++ // the same files may be reached by another way
		}
		d.tree = t
		return
	}
	digest, err := d.hash(dir, t)
	if err != nil {
		t = nil // the next question may find it readable
	}
	d.tree = t
	d.seen = sight{digest: digest, generation: d.seen.generation + 1, files: t.stamps()}
}

// intact compares stamps without listing folders again.
func (t *tree) intact(dir string, now time.Time) bool {
	if moved(t.folders, func(path string) (stamp, bool) { return linkStamp(dir + "/" + path) }) {
		return false
	}
	// What was not there has no stamp that could differ.
	if len(t.folders) == 0 && isFolder(filepath.Join(dir, promptFolder)) {
		return false
	}
	known := len(t.files) > 0 && t.files[0].path == pyprojectFile
	if len(t.files) <= everyFileLimit || now.Sub(t.walked) > sweepEvery {
		t.walked = now
		stampOf, done := stampsBelow(dir)
		defer done()
		if moved(t.files, stampOf) {
			return false
		}
		if known {
			return true
		}
	}
	return known == isManifest(dir)
}

// moved reports whether one of the files has not the stamp that it had.
func moved(files []file, stampOf func(path string) (stamp, bool)) bool {
	return slices.ContainsFunc(files, func(f file) bool {
		s, ok := stampOf(f.path)
		return !ok || s != f.stamp
	})
}

// stamps by path; of a tree that could not be read there are none.
func (t *tree) stamps() map[string]stamp {
	if t == nil {
		return nil
	}
	stamps := make(map[string]stamp, len(t.files))
	for _, f := range t.files {
		stamps[f.path] = f.stamp
	}
	return stamps
}

func (t *tree) sameFiles(other *tree) bool {
	return slices.EqualFunc(t.files, other.files, func(a, b file) bool { return a.path == b.path && a.stamp == b.stamp })
}

// sameContent looks into the files whose stamps prove nothing, and carries what
// is known of them over to the newer tree.
func (d *digester) sameContent(dir string, old, now *tree) bool {
	for i, f := range old.files {
		if f.sum == 0 {
			continue
		}
		sum, err := d.copy(io.Discard, dir, f.path, true)
		if err != nil || sum != f.sum {
			return false
		}
		if f.stamp.recent(now.walked) {
			now.files[i].sum = f.sum
		}
	}
	return true
}

func (d *digester) hash(dir string, t *tree) (string, error) {
	if len(t.files) == 0 {
		return "", nil
	}
	h := sha256.New()
	for i := range t.files {
		f := &t.files[i]
		h.Write([]byte(f.path + "\x00"))
		sum, err := d.copy(h, dir, f.path, f.stamp.recent(t.walked))
		if err != nil {
			return "", err
		}
		f.sum = sum
		h.Write([]byte{0})
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

// copy feeds a file to w and, when asked, returns a sum of its content that is
// never 0.
func (d *digester) copy(w io.Writer, dir, path string, wanted bool) (sum uint64, err error) {
	f, err := os.Open(filepath.Join(dir, path))
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	var content maphash.Hash
	content.SetSeed(d.seed)
	if wanted {
		w = io.MultiWriter(w, &content)
	}
	if d.buffer == nil {
		d.buffer = make([]byte, 64<<10)
	}
	// The bare Reader keeps io from choosing a buffer of its own.
	if _, err := io.CopyBuffer(w, struct{ io.Reader }{f}, d.buffer); err != nil || !wanted {
		return 0, err
	}
	return content.Sum64() | 1, nil
}

// walk lists pyproject.toml and every regular file below workflow_api, hidden
// ones and links to files too; linked folders are not entered. The order is
// that of path components, so b/x comes before b-a.
func walk(dir string, now time.Time) *tree {
	t := &tree{walked: now}
	t.add(dir, pyprojectFile)
	if isFolder(filepath.Join(dir, promptFolder)) {
		t.enter(dir, promptFolder)
	}
	return t
}

func (t *tree) add(dir, path string) {
	s, ok := stampOf(dir + "/" + path)
	if !ok || !s.regular() {
		return
	}
	t.unstable = t.unstable || s.recent(t.walked)
	t.files = append(t.files, file{path: path, stamp: s})
}

func (t *tree) enter(dir, path string) {
	s, ok := linkStamp(dir + "/" + path)
	if !ok {
		return
	}
	t.unstable = t.unstable || s.recent(t.walked)
	t.folders = append(t.folders, file{path: path, stamp: s})
	entries, err := os.ReadDir(filepath.Join(dir, path))
	if err != nil {
		// It has no files then, as in the reference's digest; but the next
		// question may find them.
		t.unstable = true
		return
	}
	for _, e := range entries {
		switch below := path + "/" + e.Name(); {
		case e.IsDir():
			t.enter(dir, below)
		case e.Type().IsRegular() || e.Type()&fs.ModeSymlink != 0:
			t.add(dir, below)
		}
	}
}
