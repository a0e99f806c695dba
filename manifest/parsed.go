package manifest

import "sync"

// maxParsed bounds the text of the graphs that are kept parsed, in bytes. What
// runs again and again is a few graphs of some kilobytes.
const maxParsed = 8 << 20

// parsedGraphs keeps graphs whose files are as they were.
type parsedGraphs struct {
	mu     sync.RWMutex
	graphs map[string]parsedGraph // by path; guarded by mu
	size   int64                  // of their files; guarded by mu
}

// parsedGraph is a graph as its file was when it had that stamp.
type parsedGraph struct {
	stamp    stamp
	graph    Graph
	warnings []Warning
}

func (p *parsedGraphs) at(path string, st stamp) (parsedGraph, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	known, ok := p.graphs[path]
	return known, ok && known.stamp == st
}

// keep replaces what is known of a file. Others make room for it.
func (p *parsedGraphs) keep(path string, g parsedGraph) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(path)
	if g.stamp.size > maxParsed {
		return
	}
	for other := range p.graphs {
		if p.size+g.stamp.size <= maxParsed {
			break
		}
		p.drop(other)
	}
	if p.graphs == nil {
		p.graphs = map[string]parsedGraph{}
	}
	p.graphs[path] = g
	p.size += g.stamp.size
}

func (p *parsedGraphs) drop(path string) {
	if known, ok := p.graphs[path]; ok {
		p.size -= known.stamp.size
		delete(p.graphs, path)
	}
}
