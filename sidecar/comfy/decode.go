package comfy

import (
	"encoding/binary"
	"encoding/json"
	"maps"
	"slices"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// decoder turns the messages of one connection into news. Messages about
// prompts that are not ours, of unknown kinds, or that make no sense are
// passed over: ComfyUI broadcasts much, and custom nodes send what they like.
type decoder struct {
	e      *Executor
	epoch  int
	report func(sidecar.News)
	runs   map[sidecar.PromptID]*following
	latest sidecar.PromptID // whose node began last: owner of nameless previews
}

// following is what was heard of one prompt over this connection.
type following struct {
	tracked
	current sidecar.NodeID
	over    map[sidecar.NodeID]bool // finished or cached
	states  bool                    // progress_state tells when nodes finish
}

func newDecoder(e *Executor, epoch int, report func(sidecar.News)) *decoder {
	return &decoder{e: e, epoch: epoch, report: report, runs: map[sidecar.PromptID]*following{}}
}

// event is the data of the messages that concern one prompt.
type event struct {
	Prompt    loose           `json:"prompt_id"`
	Node      json.RawMessage `json:"node"`
	Display   loose           `json:"display_node"`
	Nodes     json.RawMessage `json:"nodes"`
	Value     amount          `json:"value"`
	Max       amount          `json:"max"`
	NodeID    loose           `json:"node_id"`
	Text      loose           `json:"exception_message"`
	Exception loose           `json:"exception_type"`
}

func (v event) node() sidecar.NodeID { return sidecar.NodeID(text(v.Node)) }

// handlers are the kinds of messages that concern one prompt.
var handlers = map[string]func(*decoder, *following, event){
	"execution_start":       (*decoder).started,
	"execution_cached":      (*decoder).cached,
	"executing":             (*decoder).executing,
	"executed":              (*decoder).executed,
	"progress":              (*decoder).progress,
	"progress_state":        (*decoder).state,
	"execution_success":     (*decoder).ended,
	"execution_interrupted": (*decoder).ended,
	"execution_error":       (*decoder).failed,
}

func (d *decoder) text(data []byte) {
	var m struct {
		Type loose           `json:"type"`
		Data json.RawMessage `json:"data"`
	}
	if !isObject(data) || decode(data, &m) != nil || !isObject(m.Data) {
		return
	}
	if m.Type == "status" {
		d.status(m.Data)
		return
	}
	handle := handlers[string(m.Type)]
	var v event
	if handle == nil || json.Unmarshal(m.Data, &v) != nil {
		return
	}
	if f := d.follow(sidecar.PromptID(v.Prompt)); f != nil {
		handle(d, f, v)
	}
}

func (d *decoder) status(data json.RawMessage) {
	var s struct {
		Status struct {
			Info struct {
				Remaining *amount `json:"queue_remaining"`
			} `json:"exec_info"`
		} `json:"status"`
	}
	if json.Unmarshal(data, &s) != nil || s.Status.Info.Remaining == nil {
		return
	}
	n := int(*s.Status.Info.Remaining)
	d.e.link.setQueue(n)
	d.report(sidecar.News{Kind: sidecar.NewsQueue, Epoch: d.epoch, Remaining: n})
}

// follow is what is known of one of our prompts; nil for those of others.
func (d *decoder) follow(id sidecar.PromptID) *following {
	if f := d.runs[id]; f != nil {
		return f
	}
	t, ours := d.e.jobs.find(id)
	if id == "" || !ours {
		return nil
	}
	if len(d.runs) >= registryLimit {
		clear(d.runs) // of prompts whose end was never heard
	}
	f := &following{tracked: t, over: map[sidecar.NodeID]bool{}}
	d.runs[id] = f
	return f
}

func (d *decoder) tell(f *following, n sidecar.News) {
	n.Prompt, n.Epoch = f.prompt, d.epoch
	d.report(n)
}

func (d *decoder) started(f *following, _ event) {
	d.tell(f, sidecar.News{Kind: sidecar.NewsStarted})
}

func (d *decoder) cached(f *following, v event) {
	var refs []sidecar.NodeRef
	for _, raw := range items(v.Nodes) {
		if id := sidecar.NodeID(text(raw)); id != "" {
			f.over[id] = true
			refs = append(refs, f.node(id, ""))
		}
	}
	if len(refs) > 0 {
		d.tell(f, sidecar.News{Kind: sidecar.NewsCached, Nodes: refs})
	}
}

// executing tells which node begins; null says that history has the prompt.
// ComfyUIs without progress_state run one node after the other and never say
// when one ends.
func (d *decoder) executing(f *following, v event) {
	id := v.node()
	if id == "" {
		if string(v.Node) == "null" {
			d.ended(f, v)
		}
		return
	}
	if !f.states && f.current != "" && f.current != id {
		d.done(f, f.node(f.current, ""))
	}
	f.current, d.latest = id, sidecar.PromptID(v.Prompt)
	d.tell(f, sidecar.News{Kind: sidecar.NewsNode, Node: f.node(id, sidecar.NodeID(v.Display))})
}

func (d *decoder) executed(f *following, v event) {
	if id := v.node(); id != "" {
		d.done(f, f.node(id, sidecar.NodeID(v.Display)))
	}
}

// done tells once that a node is over.
func (d *decoder) done(f *following, ref sidecar.NodeRef) {
	if f.over[ref.ID] {
		return
	}
	f.over[ref.ID] = true
	d.tell(f, sidecar.News{Kind: sidecar.NewsNodeDone, Node: ref})
}

func (d *decoder) progress(f *following, v event) {
	id := v.node()
	if id == "" {
		id = f.current
	}
	d.tell(f, sidecar.News{Kind: sidecar.NewsProgress, Progress: f.progress(f.node(id, ""), v.Value, v.Max)})
}

func (f *following) progress(node sidecar.NodeRef, value, limit amount) sidecar.Progress {
	p := sidecar.Progress{Node: node, Value: float64(value), Max: float64(limit), Total: len(f.nodes)}
	for id := range f.over {
		if _, ours := f.nodes[id]; ours {
			p.Done++
		}
	}
	return p
}

// nodeState is one node of a progress_state.
type nodeState struct {
	Value   amount `json:"value"`
	Max     amount `json:"max"`
	State   loose  `json:"state"`
	Display loose  `json:"display_node_id"`
	Parent  loose  `json:"parent_node_id"`
}

func (n nodeState) parent() sidecar.NodeID {
	return sidecar.NodeID(first(string(n.Parent), string(n.Display)))
}

// state tells of the nodes that finished since the last one, and how far the
// node is that runs: of several the one that began last.
func (d *decoder) state(f *following, v event) {
	f.states = true
	nodes := members(v.Nodes)
	var running sidecar.NodeID
	states := map[sidecar.NodeID]nodeState{}
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		var n nodeState
		if json.Unmarshal(nodes[name], &n) != nil {
			continue
		}
		id := sidecar.NodeID(name)
		states[id] = n
		switch n.State {
		case "finished", "error":
			d.done(f, f.node(id, n.parent()))
		case "running":
			if running == "" || id == f.current {
				running = id
			}
		}
	}
	if running == "" {
		return
	}
	n := states[running]
	d.tell(f, sidecar.News{Kind: sidecar.NewsProgress, Progress: f.progress(f.node(running, n.parent()), n.Value, n.Max)})
}

func (d *decoder) ended(f *following, v event) {
	id := sidecar.PromptID(v.Prompt)
	delete(d.runs, id)
	if d.latest == id {
		d.latest = ""
	}
	d.e.jobs.ending(id)
	d.tell(f, sidecar.News{Kind: sidecar.NewsEnding})
}

// failed tells which node broke. One that blocks a branch does not end the run.
func (d *decoder) failed(f *following, v event) {
	if v.NodeID != "" {
		ref := f.node(sidecar.NodeID(v.NodeID), "")
		ref.Error = first(string(v.Text), string(v.Exception), "failed")
		d.done(f, ref)
	}
	if v.Exception != blocked {
		d.ended(f, v)
	}
}

// Kinds of binary messages: big-endian u32, then what the kind says.
const (
	framePreview      = 1 // u32 picture type, picture
	framePreviewNamed = 4 // u32 length, JSON, picture
)

func (d *decoder) binary(data []byte) {
	kind, data, ok := cutUint32(data)
	if !ok {
		return
	}
	n, data, ok := cutUint32(data)
	if !ok {
		return
	}
	switch kind {
	case framePreview:
		d.nameless(n, data)
	case framePreviewNamed:
		if uint64(n) <= uint64(len(data)) {
			d.named(data[:n], data[n:])
		}
	}
}

func cutUint32(data []byte) (uint32, []byte, bool) {
	if len(data) < 4 {
		return 0, nil, false
	}
	return binary.BigEndian.Uint32(data), data[4:], true
}

// nameless previews name no prompt: they belong to the node that began last.
func (d *decoder) nameless(kind uint32, picture []byte) {
	f := d.runs[d.latest]
	types := map[uint32]string{1: "image/jpeg", 2: "image/png"}
	if f == nil || types[kind] == "" {
		return
	}
	d.preview(f, f.node(f.current, ""), types[kind], picture)
}

func (d *decoder) named(meta, picture []byte) {
	var m struct {
		Prompt  loose `json:"prompt_id"`
		Node    loose `json:"node_id"`
		Display loose `json:"display_node_id"`
		Parent  loose `json:"parent_node_id"`
		Type    loose `json:"image_type"`
	}
	if !isObject(meta) || json.Unmarshal(meta, &m) != nil || m.Type != "image/jpeg" && m.Type != "image/png" {
		return
	}
	if f := d.follow(sidecar.PromptID(m.Prompt)); f != nil {
		parent := sidecar.NodeID(first(string(m.Parent), string(m.Display)))
		d.preview(f, f.node(sidecar.NodeID(m.Node), parent), string(m.Type), picture)
	}
}

func (d *decoder) preview(f *following, node sidecar.NodeRef, kind string, picture []byte) {
	if len(picture) == 0 {
		return
	}
	d.tell(f, sidecar.News{Kind: sidecar.NewsPreview, Node: node, Preview: sidecar.Preview{Type: kind, Data: picture}})
}
