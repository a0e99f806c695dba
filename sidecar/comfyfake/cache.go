package comfyfake

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
)

// cacheEntry is what a node made last time.
type cacheEntry struct {
	node   string
	values []any
	ui     *object
}

// lookUp signs all nodes and takes over what the last prompt left. It returns
// the ids of all hits, outputs included.
func (r *run) lookUp() []string {
	r.p.mu.Lock()
	if r.p.dropCache {
		r.p.cache, r.p.dropCache = map[string]*cacheEntry{}, false
	}
	r.p.mu.Unlock()
	for _, id := range r.it.prompt.keys {
		r.sign(id)
	}
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	hits := []string{}
	for _, id := range r.it.prompt.keys {
		e := r.p.cache[r.signs[id]]
		if e == nil {
			continue
		}
		hits = append(hits, id)
		r.values[id] = e.values
		if e.ui != nil {
			r.show(id, e.node, e.ui)
		}
	}
	return hits
}

// replay reports a cached output node.
func (r *run) replay(id string) {
	var output any
	if ui := r.ui.object(id); ui != nil {
		output = ui
	}
	r.own("executed", obj("node", id, "display_node", id, "output", output, "prompt_id", r.it.id))
	r.mark(id, 1, 1, "finished")
}

func (p *process) store(sign string, e *cacheEntry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cache[sign] = e
}

// prune keeps only what the last prompt's nodes made; the caller holds mu.
func (p *process) prune(r *run) {
	keep := map[string]*cacheEntry{}
	for id, sign := range r.signs {
		if e := p.cache[sign]; e != nil && !r.p.s.class(r.it.prompt.object(id).text("class_type")).never {
			keep[sign] = e
		}
	}
	p.cache = keep
}

func (p *process) handleFree(w http.ResponseWriter, r *http.Request, _ string) {
	body, ok := readObject(r)
	if !ok {
		writeTrouble(w)
		return
	}
	if truthy(body.at["free_memory"]) {
		p.mu.Lock()
		p.dropCache = true
		p.mu.Unlock()
	}
	w.WriteHeader(http.StatusOK)
}

func shortHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:16])
}
