package watch

import (
	"cmp"
	"crypto/sha256"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/comfygit-ai/studio-sidecar/manifest"
)

// state is what was seen at one look.
type state struct {
	snapshot  *manifest.Snapshot
	digest    string
	contracts map[Contract]declared
	graphs    map[string]graph // by path
}

// declared is all that a contract depends on.
type declared struct {
	text  string
	graph [sha256.Size]byte
}

// graph is a graph's file when it was last read.
type graph struct {
	stat os.FileInfo
	read time.Time
	sum  [sha256.Size]byte
}

// rest is how old a file must have been when it was read for its size and time
// to prove that it is the same.
const rest = 2 * time.Second

// look reads what is new since before.
func look(c *manifest.Catalog, before state) state {
	now := state{snapshot: c.Snapshot(), graphs: map[string]graph{}, contracts: map[Contract]declared{}}
	now.digest = now.snapshot.Digest()
	if before.snapshot == now.snapshot && before.digest == now.digest {
		return before
	}
	dir := c.Environment().Manifest
	for _, k := range now.snapshot.Contracts() {
		d := declared{text: string(k.JSON()) + k.PromptFile}
		if k.Fault != nil {
			d.text += k.Fault.Where() + k.Fault.Message
		}
		if k.PromptFile != "" {
			path := filepath.Join(dir, k.PromptFile)
			if _, ok := now.graphs[path]; !ok {
				now.graphs[path] = readGraph(path, before.graphs[path])
			}
			d.graph = now.graphs[path].sum
		}
		now.contracts[Contract{k.Workflow, k.Name}] = d
	}
	return now
}

func readGraph(path string, old graph) graph {
	st, err := os.Stat(path)
	if err != nil || !st.Mode().IsRegular() {
		return graph{}
	}
	if old.stat != nil && os.SameFile(old.stat, st) && old.stat.Size() == st.Size() && old.stat.ModTime().Equal(st.ModTime()) &&
		st.ModTime().Before(old.read.Add(-rest)) {
		return old
	}
	read := time.Now()
	text, err := os.ReadFile(path)
	if err != nil {
		return graph{}
	}
	return graph{stat: st, read: read, sum: sha256.Sum256(text)}
}

// compare tells what changed; ok is false when nothing did.
func compare(before, now state) (c Change, ok bool) {
	c = Change{
		Added: []Contract{}, Removed: []Contract{}, Changed: []Contract{},
		Digest: now.digest, Faults: append([]manifest.Fault{}, now.snapshot.Faults...),
	}
	if before.snapshot == now.snapshot && before.digest == now.digest {
		return c, false
	}
	for name, d := range now.contracts {
		switch was, known := before.contracts[name]; {
		case !known:
			c.Added = append(c.Added, name)
		case was != d:
			c.Changed = append(c.Changed, name)
		}
	}
	for name := range maps.Keys(before.contracts) {
		if _, still := now.contracts[name]; !still {
			c.Removed = append(c.Removed, name)
		}
	}
	for _, names := range [][]Contract{c.Added, c.Removed, c.Changed} {
		slices.SortFunc(names, func(a, b Contract) int {
			return cmp.Or(cmp.Compare(a.Workflow, b.Workflow), cmp.Compare(a.Contract, b.Contract))
		})
	}
	differs := len(c.Added)+len(c.Removed)+len(c.Changed) > 0
	return c, differs || before.digest != now.digest || !slices.Equal(before.snapshot.Faults, now.snapshot.Faults)
}
