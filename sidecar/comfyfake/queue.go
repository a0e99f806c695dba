package comfyfake

import (
	"net/http"
	"slices"
)

func (p *process) execInfo() *object {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.pending)
	if p.running != nil {
		n++
	}
	return obj("exec_info", obj("queue_remaining", n))
}

// enqueue puts the item in line and wakes the worker. On errSameItem it is in
// line nevertheless.
func (p *process) enqueue(it *item) error {
	p.mu.Lock()
	var err error
	p.pending, err = push(p.pending, it)
	p.s.book.queued(it)
	p.mu.Unlock()
	if err == nil {
		p.hub.status()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.working {
		p.working = p.spawnLocked(p.work)
	}
	return err
}

// work runs items until none is left.
func (p *process) work() {
	for {
		r := p.next()
		if r == nil {
			return
		}
		p.hub.status()
		p.execute(r)
	}
}

func (p *process) next() *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || len(p.pending) == 0 {
		p.working = false
		return nil
	}
	var it *item
	it, p.pending = pop(p.pending)
	p.running = newRun(p, it)
	return p.running
}

func (p *process) handleQueue(w http.ResponseWriter, _ *http.Request, _ string) {
	p.mu.Lock()
	running, pending := []any{}, []any{}
	if p.running != nil {
		running = append(running, p.running.it.list())
	}
	for _, it := range p.pending {
		pending = append(pending, it.list())
	}
	p.mu.Unlock()
	writeJSON(w, http.StatusOK, obj("queue_running", running, "queue_pending", pending))
}

func (p *process) handleChangeQueue(w http.ResponseWriter, r *http.Request, _ string) {
	p.change(w, r, p.clearQueue, func(id string) bool { return p.removePending(id) })
}

// change reads {"clear":bool,"delete":[ids]}, the body of POST /queue and
// POST /history; a text in place of the list names its letters, as in Python.
func (p *process) change(w http.ResponseWriter, r *http.Request, clearAll func(), remove func(string) bool) {
	body, ok := readObject(r)
	if !ok {
		writeTrouble(w)
		return
	}
	if truthy(body.at["clear"]) {
		clearAll()
	}
	if body.has("delete") {
		switch ids := body.at["delete"].(type) {
		case []any:
			for _, id := range ids {
				if text, ok := id.(string); ok {
					remove(text)
				}
			}
		case string, *object:
		default:
			writeTrouble(w)
			return
		}
	}
	w.WriteHeader(http.StatusOK)
}

func (p *process) clearQueue() {
	p.mu.Lock()
	p.pending = nil
	p.mu.Unlock()
	p.hub.status()
}

// removePending removes the first pending item of that id. The only one goes
// by clearing the queue, which is told once more.
func (p *process) removePending(id string) bool {
	p.mu.Lock()
	i := slices.IndexFunc(p.pending, func(it *item) bool { return it.id == id })
	alone := len(p.pending) == 1
	if i >= 0 {
		p.pending = slices.Delete(p.pending, i, i+1)
		heapify(p.pending)
	}
	p.mu.Unlock()
	if i >= 0 {
		p.hub.status()
	}
	if i >= 0 && alone {
		p.hub.status()
	}
	return i >= 0
}

func (p *process) handleInterrupt(w http.ResponseWriter, r *http.Request, _ string) {
	v, err := parseBody(r)
	if err != nil {
		v = obj()
	}
	body, ok := v.(*object)
	if !ok {
		writeTrouble(w)
		return
	}
	id := body.at["prompt_id"]
	if p.s.faults.active(OldInterrupt) || !truthy(id) {
		p.interruptRun(nil)
	} else {
		p.interruptRun(id)
	}
	w.WriteHeader(http.StatusOK)
}

// interruptRun raises the flag if id is nil or names the running prompt.
func (p *process) interruptRun(id any) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if id != nil && (p.running == nil || p.running.it.id != id) {
		return false
	}
	if !p.s.faults.spend(IgnoreInterrupt) {
		p.interrupt.raise()
	}
	return true
}

// runningNode is the node that the client's own run is at, if one is.
func (p *process) runningNode(sid string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == nil || p.running.to.none || p.running.to.odd || p.running.to.id != sid {
		return ""
	}
	return p.running.node
}
