package manifest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// diagnosis is what was found in a snapshot's graphs while the digest's files
// were of that generation.
type diagnosis struct {
	generation uint64
	beside     []file // graphs that the digest does not cover, or not as they were read
	faults     []Fault
}

// Diagnose looks into every graph that a contract names, reading those again
// that changed, and lists all faults: those of the snapshot, graphs that cannot
// be used, bindings to nodes that a graph lacks, and defaults that no run can
// use. Of more than 2,500 files it may be a second late, as the digest. The
// list is shared and not to be changed.
func (s *Snapshot) Diagnose() []Fault {
	return s.diagnose(s.catalog.look())
}

// Examine is Ref and Diagnose in one look at the files.
func (s *Snapshot) Examine(ctx context.Context) (Ref, []Fault) {
	seen := s.catalog.look()
	faults := s.diagnose(seen)
	return s.ref(ctx, seen.digest), faults
}

func (s *Snapshot) diagnose(seen sight) []Fault {
	if d := s.diagnosed.Load(); d != nil && d.generation == seen.generation && s.still(d.beside) {
		return d.faults
	}
	d := &diagnosis{generation: seen.generation, faults: slices.Clone(s.Faults)}
	paths, settled := map[string]bool{}, true
	for _, c := range s.Contracts() {
		if c.Fault != nil {
			continue
		}
		paths[s.graphPath(c)] = true
		d.faults = append(d.faults, c.doubts...)
		graph, err := s.known(c, false)
		var fault *Fault
		if errors.As(err, &fault) {
			d.faults = append(d.faults, *fault)
		} else {
			d.faults = append(d.faults, unboundNodes(c, graph.nodes)...)
		}
		if of, covered := seen.files[c.PromptFile]; !covered || of != graph.stamp {
			d.beside = append(d.beside, file{path: c.PromptFile, stamp: graph.stamp})
		}
		var reading *readFault
		if errors.As(err, &reading) && (!reading.missing || graph.stamp != stamp{}) {
			settled = false
		}
	}
	s.catalog.graphs.only(paths)
	if settled {
		s.diagnosed.Store(d)
	}
	return d.faults
}

// still tells whether files are as they were. One that changed shortly before
// proves nothing.
func (s *Snapshot) still(files []file) bool {
	dir, now := s.catalog.Environment().Manifest, s.catalog.now()
	return !slices.ContainsFunc(files, func(f file) bool {
		st, there := graphStamp(dir, f.path)
		if !there {
			_, err := os.Lstat(dir + "/" + f.path) // a link to nothing has no stamp either
			return st != f.stamp || !errors.Is(err, fs.ErrNotExist)
		}
		return st != f.stamp || st.recent(now)
	})
}

func unboundNodes(c *Contract, nodes map[string]bool) []Fault {
	var faults []Fault
	missing := func(kind, name, node string) {
		if !nodes[node] {
			faults = append(faults, Fault{
				File: c.PromptFile, Key: node, Workflow: c.Workflow, Contract: c.Name,
				Message: fmt.Sprintf("Contract %s '%s' references missing workflow node '%s'.", kind, name, node),
				Hint:    "Save the contract again in ComfyGit Manager.",
			})
		}
	}
	for _, in := range c.Inputs {
		missing("input", in.Name, in.Node())
	}
	for _, out := range c.Outputs {
		missing("output", out.Name, out.NodeID)
	}
	return faults
}
