package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/text/unicode/norm"
)

// maxFile bounds the size of a manifest or graph that is read.
const maxFile = 64 << 20

// Catalog gives snapshots of one environment's manifest. It needs no closing.
type Catalog struct {
	now      func() time.Time
	env      atomic.Pointer[Environment]
	current  atomic.Pointer[Snapshot]
	digester digester
	git      repository
	loads    rounds
	last     reading // what current was made of; touched by one load at a time
	graphs   graphMemory
}

// reading is one look at pyproject.toml.
type reading struct {
	stamp stamp
	there bool
	at    time.Time
	text  []byte
	err   error
}

// Open makes a catalog. Nothing is read before the first Snapshot.
func Open(env Environment) *Catalog { return openAt(env, time.Now) }

func openAt(env Environment, now func() time.Time) *Catalog {
	c := &Catalog{
		now:      now,
		digester: digester{now: now, seed: maphash.MakeSeed()},
		git:      repository{now: now},
	}
	c.env.Store(&env)
	return c
}

// Environment is the environment that was opened. Its manifest folder moves
// between the two layouts when the file appears in the other place.
func (c *Catalog) Environment() Environment { return *c.env.Load() }

// Snapshot gives the manifest as it is now: the file's stamp is compared, and
// the file is loaded again if it changed. While it is broken or missing, the
// last good contracts stay and Faults says what is wrong. Callers that wait at
// the same time share one load.
func (c *Catalog) Snapshot() *Snapshot {
	c.loads.do(c.refresh)
	return c.current.Load()
}

// Digest is Snapshot().Digest() without reading what the files declare.
func (c *Catalog) Digest() string { return c.look().digest }

func (c *Catalog) look() sight {
	env, _, _ := c.settleLayout()
	return c.digester.look(env.Manifest)
}

func (c *Catalog) refresh() {
	old, now := c.last, c.now()
	env, st, there := c.settleLayout()
	path := filepath.Join(env.Manifest, pyprojectFile)
	current := c.current.Load()
	// What could not be read may be readable now, though its stamp is the same.
	known := old.err == nil || !there
	if current != nil && known && st == old.stamp && there == old.there && !st.recent(old.at) {
		return
	}
	next := reading{stamp: st, there: there, at: now}
	next.text, next.err = readLimited(path)
	c.last = next
	if current != nil && next.err == nil && old.err == nil && bytes.Equal(next.text, old.text) {
		return
	}
	loaded := c.load(next, current)
	if current != nil && next.err != nil && old.err != nil && slices.Equal(loaded.Faults, current.Faults) {
		return // broken as it was
	}
	c.current.Store(loaded)
}

// settleLayout looks where the manifest is: an environment may be opened before
// it has one. It also returns the stamp of pyproject.toml.
func (c *Catalog) settleLayout() (env Environment, st stamp, there bool) {
	env = c.Environment()
	if st, there = stampOf(filepath.Join(env.Manifest, pyprojectFile)); there && st.regular() {
		return env, st, there
	}
	if folder := manifestFolder(env.Dir); folder != env.Manifest {
		env.Manifest = folder
		c.env.Store(&env)
		st, there = stampOf(filepath.Join(folder, pyprojectFile))
	}
	return env, st, there
}

func readLimited(path string) ([]byte, error) {
	st, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular():
		return nil, fmt.Errorf("it is no regular file")
	case st.Size() > maxFile:
		return nil, fmt.Errorf("it is larger than %d MiB", maxFile>>20)
	}
	return os.ReadFile(path)
}

// load makes the next snapshot; a file that cannot be used leaves the contracts
// of the one before.
func (c *Catalog) load(r reading, before *Snapshot) *Snapshot {
	next := &Snapshot{Environment: c.Environment().Name, catalog: c}
	file, fault := parse(r)
	switch {
	case fault == nil:
		next.content = newContent(file)
	case before != nil && before.content != nil:
		next.content = before.content
	}
	if fault != nil {
		next.broken = fault
		next.Faults = append(next.Faults, *fault)
	}
	if next.content != nil {
		next.Revision = next.content.revision
		next.Faults = append(next.Faults, next.content.faults...)
		next.json = sync.OnceValue(next.render)
	}
	return next
}

func parse(r reading) (*pyproject, *Fault) {
	switch {
	case errors.Is(r.err, fs.ErrNotExist):
		return nil, &Fault{File: pyprojectFile, Message: "pyproject.toml is missing", Hint: "Restore it, or name the right environment."}
	case r.err != nil:
		return nil, &Fault{File: pyprojectFile, Message: "pyproject.toml cannot be read: " + cause(r.err).Error()}
	}
	file, err := parsePyproject(string(r.text))
	var fault *Fault
	if errors.As(err, &fault) {
		return nil, fault
	}
	return file, nil
}

// cause drops the path from a file error.
func cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// content is what a good file declares.
type content struct {
	revision  string
	contracts []*Contract
	workflows map[string]*workflow // by name as written, and in NFC where that is free
	faults    []Fault
}

type workflow struct {
	name      string
	declares  bool // it has an execution contract
	contracts map[string]*Contract
}

func newContent(file *pyproject) *content {
	c := &content{revision: hexDigest(spellTOML(nil, file.root)), workflows: map[string]*workflow{}}
	all := file.workflows()
	for _, d := range all {
		w := &workflow{name: d.name, declares: d.has, contracts: map[string]*Contract{}}
		for _, k := range d.contracts {
			w.contracts[k.Name] = k
			c.contracts = append(c.contracts, k)
			k.rendered = k.JSON()
			if k.Fault != nil {
				c.faults = append(c.faults, *k.Fault)
			}
		}
		c.workflows[d.name] = w
	}
	for _, d := range all {
		if same := norm.NFC.String(d.name); c.workflows[same] == nil {
			c.workflows[same] = c.workflows[d.name]
		}
	}
	return c
}

// find takes names in any normal form; as written wins.
func (c *content) find(name string) *workflow {
	if w := c.workflows[name]; w != nil {
		return w
	}
	return c.workflows[norm.NFC.String(name)]
}

func (w *workflow) find(name string) *Contract {
	if c := w.contracts[name]; c != nil {
		return c
	}
	for _, c := range w.contracts {
		if norm.NFC.String(c.Name) == norm.NFC.String(name) {
			return c
		}
	}
	return nil
}
