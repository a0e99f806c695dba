package manifest

import "sync"

// maxParsed bounds the text of the graphs that are kept parsed, in bytes. What
// runs again and again is a few graphs of some kilobytes.
const maxParsed = 8 << 20

// graphMemory keeps what graphs' files held while they are as they were: which
// nodes of each, and whole graphs while there is room.
type graphMemory struct {
	mu    sync.RWMutex
	known map[string]knownGraph // by path; guarded by mu
	size  int64                 // of the files whose graphs are kept whole; guarded by mu
}

// knownGraph is a graph as its file was when it had that stamp.
type knownGraph struct {
	stamp    stamp
	nodes    map[string]bool
	whole    bool // graph and warnings are kept
	graph    Graph
	warnings []Warning
}

func (m *graphMemory) at(path string, st stamp) (knownGraph, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	known, ok := m.known[path]
	return known, ok && known.stamp == st
}

// keep replaces what is known of a file. A whole graph takes the room of others.
func (m *graphMemory) keep(path string, g knownGraph) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shed(path)
	if g.whole && g.stamp.size > maxParsed {
		g = g.nodesOnly()
	}
	if g.whole {
		m.size += g.stamp.size
		for other := range m.known {
			if m.size <= maxParsed {
				break
			}
			m.shed(other)
		}
	}
	if m.known == nil {
		m.known = map[string]knownGraph{}
	}
	m.known[path] = g
}

// only forgets all other files.
func (m *graphMemory) only(paths map[string]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for path := range m.known {
		if !paths[path] {
			m.shed(path)
			delete(m.known, path)
		}
	}
}

// shed leaves the nodes of a graph that was kept whole.
func (m *graphMemory) shed(path string) {
	if g := m.known[path]; g.whole {
		m.size -= g.stamp.size
		m.known[path] = g.nodesOnly()
	}
}

func (g knownGraph) nodesOnly() knownGraph { return knownGraph{stamp: g.stamp, nodes: g.nodes} }
