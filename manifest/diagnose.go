package manifest

import (
	"errors"
	"fmt"
	"path/filepath"
)

// checkedGraph is what was found in a graph's file when it had that stamp.
type checkedGraph struct {
	stamp    stamp
	fault    *Fault
	nodes    map[string]bool
	warnings []Warning
}

// Diagnose looks into every graph that a contract names, reading those again
// that changed, and lists all faults: those of the snapshot, graphs that cannot
// be used, and bindings to nodes that a graph lacks.
func (s *Snapshot) Diagnose() []Fault {
	faults := append([]Fault(nil), s.Faults...)
	for _, c := range s.Contracts() {
		if c.Fault != nil {
			continue
		}
		checked := s.checked(c)
		if checked.fault != nil {
			f := *checked.fault
			f.Workflow, f.Contract = c.Workflow, c.Name
			faults = append(faults, f)
			continue
		}
		faults = append(faults, unboundNodes(c, checked.nodes)...)
	}
	return faults
}

// checked keeps one answer per file: contracts of a workflow share their graph.
func (s *Snapshot) checked(c *Contract) checkedGraph {
	k := s.catalog
	k.graphsMu.Lock()
	defer k.graphsMu.Unlock()
	st, there := stampOf(filepath.Join(k.Environment().Manifest, c.PromptFile))
	key := c.Workflow + "\x00" + c.PromptFile
	if old, ok := k.graphs[key]; ok && there && old.stamp == st {
		return old
	}
	checked := checkedGraph{stamp: st}
	graph, warnings, err := s.Graph(c)
	if err != nil {
		errors.As(err, &checked.fault)
	}
	checked.warnings, checked.nodes = warnings, map[string]bool{}
	for _, n := range graph.nodes {
		checked.nodes[n.id] = true
	}
	k.graphs[key] = checked
	return checked
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
