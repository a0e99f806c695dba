package comfyfake

import (
	"errors"
	"slices"
	"strings"
)

// run is one execution of an item.
type run struct {
	p         *process
	it        *item
	to        target
	node      string // what executes now; guarded by process.mu
	forgotten bool   // guarded by process.mu

	signs    map[string]string
	values   map[string][]any // outputs of finished nodes
	progress *object          // all nodes that are not pending
	executed []string
	ui       *object // UI outputs by node
	meta     *object
	messages []any
	ran      bool
}

func newRun(p *process, it *item) *run {
	return &run{p: p, it: it, to: it.client(), signs: map[string]string{}, values: map[string][]any{}, progress: obj(), ui: obj(), meta: obj()}
}

var (
	errInterrupted = errors.New("interrupted")
	errGone        = errors.New("the process has ended")
)

// execute runs the item to its end and files it.
func (p *process) execute(r *run) {
	p.interrupt.clear()
	p.s.book.executed(r.it)
	err := r.perform()
	if errors.Is(err, errGone) || p.ctx.Err() != nil {
		return
	}
	p.finish(r, err == nil)
}

// perform sends everything from execution_start to the final message.
func (r *run) perform() error {
	r.tell("execution_start", obj("prompt_id", r.it.id), false)
	hits := r.lookUp()
	r.tell("execution_cached", obj("nodes", hits, "prompt_id", r.it.id), false)
	for _, id := range r.it.outputs {
		if slices.Contains(hits, id) {
			r.replay(id)
		}
	}
	left := r.plan()
	for id := left.next(); id != ""; id = left.next() {
		r.ran = true
		more, err := r.step(id)
		if err != nil {
			return err
		}
		if len(more) > 0 {
			left.await(id, more)
			continue
		}
		left.done(id)
	}
	if !r.ran {
		if err := r.hold(true); err != nil {
			return err
		}
	}
	r.tell("execution_success", obj("prompt_id", r.it.id), false)
	return nil
}

// tell sends a message that history keeps; others see it only if it is said
// to everybody.
func (r *run) tell(event string, data *object, broadcast bool) {
	data.set("timestamp", r.p.millis())
	r.messages = append(r.messages, []any{event, data})
	if !r.to.none || broadcast {
		r.emit(event, data)
	}
}

func (r *run) emit(event string, data *object) {
	r.p.mu.Lock()
	gone := r.forgotten
	r.p.mu.Unlock()
	if !gone {
		r.p.hub.send(event, data, r.to)
	}
}

// own sends a message only if the run has a client.
func (r *run) own(event string, data *object) {
	if !r.to.none {
		r.emit(event, data)
	}
}

// step executes one node whose inputs are ready. A lazy node may name nodes
// that it wants first; it is executed again after them.
func (r *run) step(id string) ([]string, error) {
	class := r.p.s.class(r.it.prompt.object(id).text("class_type"))
	r.mark(id, 0.0, 1.0, "running")
	r.enter(id)
	r.own("executing", obj("node", id, "display_node", id, "prompt_id", r.it.id))
	c := r.call(id, class)
	if more := r.wanted(id, c); len(more) > 0 {
		return more, nil
	}
	out, err := c.perform()
	if err != nil {
		return nil, r.fail(id, c, err)
	}
	r.values[id] = out.values
	if out.ui != nil {
		r.show(id, id, out.ui)
		r.own("executed", obj("node", id, "display_node", id, "output", out.ui, "prompt_id", r.it.id))
	}
	r.p.store(r.signs[id], &cacheEntry{node: id, values: out.values, ui: out.ui})
	r.executed = append(r.executed, id)
	r.mark(id, r.max(id), r.max(id), "finished")
	return nil, nil
}

// wanted lists the nodes behind lazy inputs that the node asks for and that
// are not known yet.
func (r *run) wanted(id string, c *call) []string {
	if c.class.lazy == nil {
		return nil
	}
	var list []string
	for _, name := range c.class.lazy(c) {
		from, _, ok := link(r.it.prompt.object(id).object("inputs").at[name])
		if _, known := r.values[from]; ok && !known {
			list = append(list, from)
		}
	}
	return list
}

// blocked reports a node that a blocker reached, if the blocker has something
// to say; the run goes on, and history keeps nothing of it.
func (r *run) blocked(id string, b blocker) {
	if b.message == "" {
		return
	}
	r.own("execution_error", obj("prompt_id", r.it.id, "node_id", id, "node_type", r.it.prompt.object(id).text("class_type"),
		"executed", r.doneNodes(), "exception_message", "Execution Blocked: "+b.message, "exception_type", "ExecutionBlocked",
		"traceback", []any{}, "current_inputs", []any{}, "current_outputs", []any{}))
}

func (r *run) enter(id string) {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	r.node = id
}

// show files a node's UI output; origin is the node that made it.
func (r *run) show(id, origin string, ui *object) {
	r.ui.set(id, ui)
	r.meta.set(id, obj("node_id", origin, "display_node", origin, "parent_node", nil, "real_node_id", origin))
}

// mark updates the progress of a node and sends the whole state.
func (r *run) mark(id string, value, limit any, state string) {
	outer, parent := id, any(nil)
	if of, _, inner := strings.Cut(id, "."); inner { // a node that another expanded into
		outer, parent = of, of
	}
	r.progress.set(id, obj("value", value, "max", limit, "state", state, "node_id", id, "prompt_id", r.it.id,
		"display_node_id", outer, "parent_node_id", parent, "real_node_id", outer))
	r.emit("progress_state", obj("prompt_id", r.it.id, "nodes", r.progress))
}

func (r *run) max(id string) any {
	return r.progress.object(id).at["max"]
}

// fail reports a node that did not finish.
func (r *run) fail(id string, c *call, err error) error {
	class := r.it.prompt.object(id).text("class_type")
	if errors.Is(err, errInterrupted) {
		r.p.interrupt.clear()
		r.tell("execution_interrupted", obj("prompt_id", r.it.id, "node_id", id, "node_type", class, "executed", r.doneNodes()), true)
		return err
	}
	if errors.Is(err, errGone) {
		return err
	}
	kind, frames := "RuntimeError", []string(nil)
	if f, ok := errors.AsType[*nodeError](err); ok {
		kind, frames = f.kind, f.frames
	}
	r.tell("execution_error", obj("prompt_id", r.it.id, "node_id", id, "node_type", class, "executed", r.doneNodes(),
		"exception_message", err.Error()+"\n", "exception_type", kind,
		"traceback", r.traceback(c.class, frames),
		"current_inputs", c.printed(), "current_outputs", slices.Clone(r.it.prompt.keys)), false)
	return err
}

func (r *run) doneNodes() []string { return append([]string{}, r.executed...) }

// finish files the run: history first, then the last messages.
func (p *process) finish(r *run, good bool) {
	rec := &record{it: stripped(r.it), outputs: r.ui, meta: r.meta, status: "success", done: good, messages: r.messages}
	if !good {
		rec.status = "error"
	}
	p.mu.Lock()
	gone := r.forgotten
	p.mu.Unlock()
	if !gone {
		p.remember(rec)
	}
	p.mu.Lock()
	if p.running == r {
		p.running = nil
	}
	p.prune(r)
	p.mu.Unlock()
	p.hub.status()
	r.own("executing", obj("node", nil, "prompt_id", r.it.id))
	p.s.opts.Log.Info("run ended", "prompt", r.it.id, "status", rec.status)
}

// stripped is the item without the keys history never shows.
func stripped(it *item) *item {
	extra, ok := it.extra.(*object)
	if !ok {
		return it
	}
	c := *it
	clean := extra.clone()
	clean.drop("auth_token_comfy_org")
	clean.drop("api_key_comfy_org")
	c.extra = clean
	return &c
}

// hold waits while the gate is shut. An interrupt ends the wait, unless the
// node does not look.
func (r *run) hold(deaf bool) error {
	shut := r.p.s.gate.wait()
	if shut == nil {
		return nil
	}
	interrupt := r.p.interrupt.wait()
	if deaf {
		interrupt = nil
	}
	select {
	case <-shut:
		return nil
	case <-interrupt:
		return errInterrupted
	case <-r.p.ctx.Done():
		return errGone
	}
}

// check is the look at the interrupt flag that nodes take.
func (r *run) check() error {
	if r.p.ctx.Err() != nil {
		return errGone
	}
	if r.p.interrupt.raised() {
		return errInterrupted
	}
	return nil
}

// upstream lists the nodes that id's inputs link to, in input order, without
// the lazy ones among specs.
func upstream(prompt *object, id string, specs []input) []string {
	node := prompt.object(id)
	if node == nil || node.object("inputs") == nil {
		return nil
	}
	var list []string
	for _, name := range node.object("inputs").keys {
		if slices.ContainsFunc(specs, func(in input) bool { return in.name == name && in.lazy() }) {
			continue
		}
		if from, _, ok := link(node.object("inputs").at[name]); ok && prompt.has(from) {
			list = append(list, from)
		}
	}
	return list
}

// link reads ["id", slot].
func link(v any) (from string, slot int, ok bool) {
	list, isList := v.([]any)
	if !isList || len(list) != 2 {
		return "", 0, false
	}
	from, ok = list[0].(string)
	n, isInt := intOf(list[1])
	return from, int(n), ok && isInt
}

// sign is the content of a node and all it depends on, free of node ids.
func (r *run) sign(id string) string {
	if s, ok := r.signs[id]; ok {
		return s
	}
	r.signs[id] = "ring " + id // what a node in a dropped cycle keeps
	node := r.it.prompt.object(id)
	var b strings.Builder
	b.WriteString(node.text("class_type"))
	inputs := node.object("inputs")
	if inputs == nil {
		return r.signs[id]
	}
	names := slices.Sorted(slices.Values(inputs.keys))
	for _, name := range names {
		b.WriteString("|" + name + "=")
		if from, slot, ok := link(inputs.at[name]); ok && r.it.prompt.has(from) {
			b.WriteString("(" + r.sign(from) + ")" + numberText(slot))
		} else {
			b.WriteString(dumps(inputs.at[name]))
		}
	}
	b.WriteString(r.p.s.class(node.text("class_type")).print(r, inputs))
	r.signs[id] = shortHash(b.String())
	return r.signs[id]
}
