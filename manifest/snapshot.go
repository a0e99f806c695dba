package manifest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
)

// Snapshot is a manifest at one moment. Its contracts never change; Digest, Ref
// and Build look at the files as they are when called.
type Snapshot struct {
	Environment string
	Revision    string  // manifest_revision: hex sha256 of the parsed pyproject.toml
	Faults      []Fault // what is broken, in the file and in single contracts

	content *content // nil when there never was a good file
	broken  *Fault   // why the present file is not used
	catalog *Catalog
	json    func() []byte

	diagnosed atomic.Pointer[diagnosis]
}

// Contracts lists the contracts in the order of the file, broken ones too.
func (s *Snapshot) Contracts() []*Contract {
	if s.content == nil {
		return nil
	}
	return s.content.contracts
}

// Contract finds a contract by the names of workflow and contract, in any
// Unicode normal form. The error is *UnknownError, or the contract's own *Fault
// beside the contract, or the manifest's.
func (s *Snapshot) Contract(workflow, name string) (*Contract, error) {
	if err := s.Usable(); err != nil {
		return nil, err
	}
	w := s.content.find(workflow)
	if w == nil || !w.declares {
		return nil, &UnknownError{Workflow: workflow, Tracked: w != nil}
	}
	c := w.find(name)
	if c == nil {
		return nil, &UnknownError{Workflow: workflow, Contract: name}
	}
	if c.Fault != nil {
		return c, c.Fault
	}
	return c, nil
}

// Match splits "workflow/contract" where either may hold slashes. The longest
// workflow that declares the rest wins, else the longest that is known; ok is
// false when no workflow fits.
func (s *Snapshot) Match(path string) (workflow, contract string, ok bool) {
	if s.content == nil {
		return "", "", false
	}
	for end := strings.LastIndexByte(path, '/'); end > 0; end = strings.LastIndexByte(path[:end], '/') {
		w := s.content.find(path[:end])
		if w == nil {
			continue
		}
		if w.find(path[end+1:]) != nil {
			return path[:end], path[end+1:], true
		}
		if !ok {
			workflow, contract, ok = path[:end], path[end+1:], true
		}
	}
	return workflow, contract, ok
}

// Usable is nil, or the *Fault that leaves nothing to serve.
func (s *Snapshot) Usable() error {
	if s.content == nil {
		return s.broken
	}
	return nil
}

// Digest is the contract digest of the files as they are now, "sha256:" and 64
// hexadecimal digits, or "" when there are none or one cannot be read. The files
// are read again only when one of them changed.
func (s *Snapshot) Digest() string {
	return s.catalog.Digest()
}

// Ref is the environment's environment_ref now. Git is asked, for at most 2 s,
// when something changed.
func (s *Snapshot) Ref(ctx context.Context) Ref {
	return s.ref(ctx, s.Digest())
}

func (s *Snapshot) ref(ctx context.Context, digest string) Ref {
	commit, dirty := s.catalog.git.state(ctx, s.catalog.Environment().Manifest, digest)
	return Ref{Environment: s.Environment, CecCommit: commit, CecDirty: dirty, ContractDigest: digest}
}

// JSON is the list of contracts as clients see it, rendered once. Broken
// contracts are left out.
func (s *Snapshot) JSON() []byte {
	if s.content == nil {
		return s.render()
	}
	return s.json()
}

func (s *Snapshot) render() []byte {
	var good []*Contract
	for _, c := range s.Contracts() {
		if c.Fault == nil {
			good = append(good, c)
		}
	}
	return marshalled(Values{
		{"environment", appendQuoted(nil, s.Environment)},
		{"contracts", jsonList(len(good), func(i int) json.RawMessage { return good[i].JSON() })},
	})
}

// Build binds values to the contract's graph as its file is now. The error is, or
// wraps, a *Fault that says what is wrong with the file.
func (s *Snapshot) Build(c *Contract, values Values) (Built, error) {
	graph, warnings, err := s.Graph(c)
	if err != nil {
		return Built{}, err
	}
	built := c.Bind(graph, values)
	built.Warnings = warnings
	return built, nil
}

// Graph is the contract's graph as its file is now, which is read again when it
// changed. The error is a *Fault, or wraps one.
func (s *Snapshot) Graph(c *Contract) (Graph, []Warning, error) {
	g, err := s.known(c, true)
	return g.graph, g.warnings, err
}

// known is what is remembered of the contract's graph, whole or only its nodes,
// if the file is as it was, else what is read now. Of what is read for its
// nodes no more is kept: it would take the room of what runs. Beside an error
// it has the file's stamp alone.
func (s *Snapshot) known(c *Contract, whole bool) (knownGraph, error) {
	if c.Fault != nil {
		return knownGraph{}, c.Fault
	}
	path, now := s.graphPath(c), s.catalog.now()
	st, there := graphStamp(s.catalog.Environment().Manifest, c.PromptFile)
	// Where a link leads is looked at each time: it may lead out of the folder.
	if g, ok := s.catalog.graphs.at(path, st); ok && (g.whole || !whole) && !st.linked {
		return g, nil
	}
	text, err := readPrompt(s.catalog.Environment().Manifest, c)
	if err != nil {
		return knownGraph{stamp: st}, err
	}
	graph, warnings, err := ParseGraph(text)
	if err != nil {
		return knownGraph{stamp: st}, promptFault(c, err)
	}
	g := knownGraph{stamp: st, nodes: graph.ids()}
	if whole {
		g.whole, g.graph, g.warnings = true, graph, warnings
	}
	if there && !st.recent(now) {
		s.catalog.graphs.keep(path, g)
	}
	return g, nil
}

// graphPath is as declared: what is refused by its name is not found under
// another.
func (s *Snapshot) graphPath(c *Contract) string {
	return s.catalog.Environment().Manifest + "/" + c.PromptFile
}

func promptFault(c *Contract, err error) *Fault {
	f := &Fault{File: c.PromptFile, Workflow: c.Workflow, Contract: c.Name, Message: err.Error(), Hint: exportHint}
	var shape *shapeError
	if errors.As(err, &shape) {
		f.Line, f.Key, f.Hint, f.Message = shape.line, shape.key, shape.hint, shape.about(c.PromptFile)
	}
	return f
}

// readFault is a *Fault that came of reading a file.
type readFault struct {
	*Fault
	missing bool // else it may pass while the file stays as it is
}

// Unwrap is the *Fault.
func (f *readFault) Unwrap() error { return f.Fault }

// readPrompt reads a graph's file, which has to lie below the manifest's folder
// once links are followed. The error is a *Fault, or wraps one.
func readPrompt(dir string, c *Contract) ([]byte, error) {
	fault := func(message, hint string) *Fault {
		return &Fault{File: c.PromptFile, Workflow: c.Workflow, Contract: c.Name, Message: message, Hint: hint}
	}
	if c.PromptFile == "" {
		f := fault(fmt.Sprintf("Workflow '%s' contract does not declare a captured API prompt file. Re-save the contract in ComfyGit Manager.", c.Workflow), "")
		f.File, f.Key = pyprojectFile, "api_prompt_file"
		return nil, f
	}
	if !local(c.PromptFile) {
		return nil, fault("Contract API prompt path must be relative to the manifest: "+c.PromptFile, "Keep the graph in workflow_api.")
	}
	text, err := readBelow(dir, filepath.Clean(c.PromptFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		missing := fmt.Sprintf("Workflow '%s' contract API prompt file is missing: %s. Re-save the contract in ComfyGit Manager.", c.Workflow, c.PromptFile)
		return nil, &readFault{Fault: fault(missing, ""), missing: true}
	case err != nil:
		return nil, &readFault{Fault: fault(fmt.Sprintf("Workflow '%s' contract API prompt file %s cannot be read: %v", c.Workflow, c.PromptFile, cause(err)), "Store the graph as a file of its own below the manifest's folder.")}
	}
	return text, nil
}

// local refuses what leaves the folder by name, also where that leads back in.
func local(path string) bool {
	for _, part := range strings.Split(filepath.ToSlash(path), "/") {
		if part == ".." {
			return false
		}
	}
	return filepath.IsLocal(path)
}

func readBelow(dir, path string) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	// Looked at before opening: to open a pipe would wait for its writer.
	switch st, err := root.Stat(path); {
	case err != nil:
		return nil, err
	case st.IsDir():
		return nil, errors.New("it is a folder")
	case !st.Mode().IsRegular():
		return nil, errors.New("it is no regular file")
	case st.Size() > maxFile:
		return nil, fmt.Errorf("it is larger than %d MiB", maxFile>>20)
	}
	return root.ReadFile(path)
}
