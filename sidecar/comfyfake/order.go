package comfyfake

import "slices"

// plan is what is left to execute: each node with the nodes it still waits
// for.
type plan struct {
	r     *run
	order []string // in which nodes were met
	waits map[string][]string
}

// plan walks from the outputs to all that is not known yet.
func (r *run) plan() *plan {
	pl := &plan{r: r, waits: map[string][]string{}}
	for _, id := range r.it.outputs {
		pl.add(id)
	}
	return pl
}

func (pl *plan) add(id string) {
	if _, known := pl.r.values[id]; known || pl.waits[id] != nil {
		return
	}
	pl.waits[id] = []string{}
	for _, from := range pl.r.eager(id) {
		if _, known := pl.r.values[from]; !known {
			pl.waits[id] = append(pl.waits[id], from)
			pl.add(from)
		}
	}
	pl.order = append(pl.order, id)
}

// eager lists what a node needs before it may start: all links but lazy ones.
func (r *run) eager(id string) []string {
	class := r.p.s.class(r.it.prompt.object(id).text("class_type"))
	if class.lazy == nil {
		return upstream(r.it.prompt, id, nil)
	}
	return upstream(r.it.prompt, id, class.required)
}

// next picks a ready node as the real scheduler does: an output node first,
// so that something can be shown, then one that an output waits for, then the
// first met. It is empty when nothing is left.
func (pl *plan) next() string {
	var ready []string
	for _, id := range pl.order {
		if len(pl.waits[id]) == 0 {
			ready = append(ready, id)
		}
	}
	if i := slices.IndexFunc(ready, pl.shows); i >= 0 {
		return ready[i]
	}
	for _, id := range ready {
		if pl.feedsOutput(id) {
			return id
		}
	}
	if len(ready) > 0 {
		return ready[0]
	}
	return ""
}

func (pl *plan) shows(id string) bool {
	return pl.r.p.s.class(pl.r.it.prompt.object(id).text("class_type")).outputNode
}

func (pl *plan) feedsOutput(id string) bool {
	return slices.ContainsFunc(pl.order, func(to string) bool {
		return pl.shows(to) && slices.Contains(pl.waits[to], id)
	})
}

// await puts a node back until more nodes are known.
func (pl *plan) await(id string, more []string) {
	for _, from := range more {
		pl.waits[id] = append(pl.waits[id], from)
		pl.add(from)
	}
}

func (pl *plan) done(id string) {
	pl.order = slices.DeleteFunc(pl.order, func(have string) bool { return have == id })
	for to, waits := range pl.waits {
		pl.waits[to] = slices.DeleteFunc(waits, func(from string) bool { return from == id })
	}
}
