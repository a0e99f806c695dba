package comfyfake

import (
	"net/http"
	"slices"
	"strconv"
)

// history keeps finished runs in insertion order; a re-used id keeps its old
// place. Its owner guards it.
type history struct {
	limit   int
	order   []string
	entries map[string]*record
}

// record is one finished run.
type record struct {
	it       *item
	outputs  *object
	meta     *object
	status   string // success or error
	done     bool
	messages []any // [type, data] pairs
}

func (rec *record) statusObject() *object {
	return obj("status_str", rec.status, "completed", rec.done, "messages", rec.messages)
}

func (rec *record) object() *object {
	return obj("prompt", rec.it.list(), "outputs", rec.outputs, "status", rec.statusObject(), "meta", rec.meta)
}

func (h *history) add(rec *record) {
	if h.entries == nil {
		h.entries = map[string]*record{}
	}
	if len(h.order) > h.limit {
		delete(h.entries, h.order[0])
		h.order = h.order[1:]
	}
	if _, ok := h.entries[rec.it.id]; !ok {
		h.order = append(h.order, rec.it.id)
	}
	h.entries[rec.it.id] = rec
}

func (h *history) remove(id string) bool {
	if _, ok := h.entries[id]; !ok {
		return false
	}
	delete(h.entries, id)
	h.order = slices.DeleteFunc(h.order, func(have string) bool { return have == id })
	return true
}

func (h *history) clear() { h.order, h.entries = nil, nil }

// page picks ids as GET /history does: without offset the last n.
func (h *history) page(n, offset int, bounded bool) []string {
	if offset < 0 && bounded {
		offset = len(h.order) - n
	}
	offset = max(offset, 0)
	end := len(h.order)
	if bounded {
		end = min(end, offset+n)
	}
	if offset >= end {
		return nil
	}
	return h.order[offset:end]
}

// remember stores the record, at once or after the lag a fault asks for.
func (p *process) remember(rec *record) {
	store := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.past.add(rec)
	}
	lag := p.s.faults.lag(HistoryLag)
	if lag <= 0 {
		store()
		return
	}
	p.spawn(func() {
		if sleep(p.ctx, lag) == nil {
			store()
		}
	})
}

func (p *process) handleHistoryEntry(w http.ResponseWriter, _ *http.Request, id string) {
	p.mu.Lock()
	answer := obj()
	if rec := p.past.entries[id]; rec != nil {
		answer.set(id, rec.object())
	}
	p.mu.Unlock()
	writeJSON(w, http.StatusOK, answer)
}

func (p *process) handleHistory(w http.ResponseWriter, r *http.Request, _ string) {
	q := r.URL.Query()
	n, offset, bounded := 0, -1, q.Has("max_items")
	var err error
	if bounded {
		n, err = strconv.Atoi(q.Get("max_items"))
	}
	if err == nil && q.Has("offset") {
		offset, err = strconv.Atoi(q.Get("offset"))
	}
	if err != nil {
		writeTrouble(w)
		return
	}
	p.mu.Lock()
	answer := obj()
	for _, id := range p.past.page(n, offset, bounded) {
		answer.set(id, p.past.entries[id].object())
	}
	p.mu.Unlock()
	writeJSON(w, http.StatusOK, answer)
}

func (p *process) handleChangeHistory(w http.ResponseWriter, r *http.Request, _ string) {
	p.change(w, r, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.past.clear()
	}, func(id string) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.past.remove(id)
	})
}

func (p *process) millis() int64 { return p.s.opts.Now().UnixMilli() }
