package manifest

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

// checkedGraph is which nodes a graph's file had when it had that stamp.
type checkedGraph struct {
	stamp stamp
	at    time.Time
	nodes map[string]bool
}

// Diagnose looks into every graph that a contract names, reading those again
// that changed, and lists all faults: those of the snapshot, graphs that cannot
// be used, bindings to nodes that a graph lacks, and defaults that no run can
// use.
func (s *Snapshot) Diagnose() []Fault {
	faults := append([]Fault(nil), s.Faults...)
	k := s.catalog
	k.graphsMu.Lock()
	defer k.graphsMu.Unlock()
	seen := map[string]checkedGraph{}
	for _, c := range s.Contracts() {
		if c.Fault != nil {
			continue
		}
		faults = append(faults, c.doubts...)
		graph, err := s.checked(c, seen)
		var fault *Fault
		if errors.As(err, &fault) {
			faults = append(faults, *fault)
			continue
		}
		faults = append(faults, unboundNodes(c, graph.nodes)...)
	}
	k.graphs = seen
	return faults
}

// checked reads a graph's file, unless it is known to be as it was: contracts
// of a workflow share theirs. One that cannot be used is read each time.
func (s *Snapshot) checked(c *Contract, seen map[string]checkedGraph) (checkedGraph, error) {
	if graph, ok := seen[c.PromptFile]; ok {
		return graph, nil
	}
	now := s.catalog.now()
	st, there := stampOf(filepath.Join(s.catalog.Environment().Manifest, c.PromptFile))
	old, ok := s.catalog.graphs[c.PromptFile]
	if ok && there && old.stamp == st && !st.recent(old.at) {
		seen[c.PromptFile] = old
		return old, nil
	}
	graph, _, err := s.Graph(c)
	if err != nil {
		return checkedGraph{}, err
	}
	fresh := checkedGraph{stamp: st, at: now, nodes: map[string]bool{}}
	for _, n := range graph.nodes {
		fresh.nodes[n.id] = true
	}
	seen[c.PromptFile] = fresh
	return fresh, nil
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
