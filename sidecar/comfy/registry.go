package comfy

import (
	"container/list"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// registryLimit bounds how many prompts are remembered; those untouched for
// longest go first. Many more than a ComfyUI is ever given at once.
const registryLimit = 1024

// registry remembers the prompts that this executor submitted or was asked
// about. News of others is not ours to tell.
type registry struct {
	mu      sync.Mutex
	entries map[sidecar.PromptID]*list.Element // of *tracked, also under renamed ids
	order   list.List                          // the latest touched at the back
}

// tracked is what is remembered of a prompt.
type tracked struct {
	prompt sidecar.PromptID   // the id that callers know it by
	actual sidecar.PromptID   // the id that ComfyUI knows it by
	keys   []sidecar.PromptID // all ids that it is found under
	nodes  map[sidecar.NodeID]sidecar.NodeRef
	place  sidecar.Place
	seen   time.Time // when place was looked at
	ended  time.Time // when the socket told of the end
}

func of(el *list.Element) *tracked {
	t, _ := el.Value.(*tracked) // nothing else is put in
	return t
}

// remember notes the job's prompt and its nodes, unless it is known.
func (r *registry) remember(job sidecar.Job) {
	if r.touch(job.Prompt) != nil {
		return
	}
	t := &tracked{prompt: job.Prompt, actual: job.Prompt, keys: []sidecar.PromptID{job.Prompt}, nodes: nodesOf(job.Graph)}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entries == nil {
		r.entries = map[sidecar.PromptID]*list.Element{}
	}
	if r.entries[job.Prompt] != nil {
		return
	}
	r.entries[job.Prompt] = r.order.PushBack(t)
	for r.order.Len() > registryLimit {
		for _, key := range of(r.order.Front()).keys {
			delete(r.entries, key)
		}
		r.order.Remove(r.order.Front())
	}
}

// rename notes that ComfyUI keeps the prompt under another id.
func (r *registry) rename(prompt, actual sidecar.PromptID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	el := r.entries[prompt]
	if el == nil || prompt == actual || r.entries[actual] != nil {
		return
	}
	t := of(el)
	t.actual = actual
	t.keys = append(t.keys, actual)
	r.entries[actual] = el
}

// adopt notes that the prompt is known to everybody by another id from now on.
func (r *registry) adopt(prompt, actual sidecar.PromptID) {
	r.rename(prompt, actual)
	r.mu.Lock()
	defer r.mu.Unlock()
	if el := r.entries[actual]; el != nil {
		of(el).prompt = actual
	}
}

// actual is the id under which ComfyUI keeps the prompt, as far as is known.
func (r *registry) actual(prompt sidecar.PromptID) sidecar.PromptID {
	if t := r.touch(prompt); t != nil {
		return t.actual
	}
	return prompt
}

// find looks a prompt up by either of its ids, without touching it.
func (r *registry) find(id sidecar.PromptID) (tracked, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	el := r.entries[id]
	if el == nil {
		return tracked{}, false
	}
	return *of(el), true
}

func (r *registry) touch(id sidecar.PromptID) *tracked {
	r.mu.Lock()
	defer r.mu.Unlock()
	el := r.entries[id]
	if el == nil {
		return nil
	}
	r.order.MoveToBack(el)
	t := *of(el)
	return &t
}

// moved notes where a prompt was seen. It returns when it was last seen
// elsewhere: the queue has moved since then. Zero: it has not, or nobody knows.
func (r *registry) moved(id sidecar.PromptID, place sidecar.Place, now time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	el := r.entries[id]
	if el == nil {
		return time.Time{}
	}
	t := of(el)
	before := t.seen
	if t.place == place {
		before = time.Time{}
	}
	t.place, t.seen = place, now
	return before
}

// ending notes that the socket told of the prompt's end.
func (r *registry) ending(id sidecar.PromptID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if el := r.entries[id]; el != nil {
		of(el).ended = time.Now()
	}
}

// nodesOf reads the nodes of a graph in API format.
func nodesOf(graph json.RawMessage) map[sidecar.NodeID]sidecar.NodeRef {
	nodes := map[sidecar.NodeID]sidecar.NodeRef{}
	all, ok := fieldsOf(graph)
	if !ok && decode(graph, &all) != nil {
		return nodes // ComfyUI will say what is wrong with it
	}
	for id, raw := range all {
		if fields, err := manifest.ParseObject(raw, manifest.Limits{Depth: plainDepth}); err == nil {
			raw, _ = fields.Without("inputs").MarshalJSON() // never fails
		}
		var node struct {
			Class loose `json:"class_type"`
			Meta  struct {
				Title loose `json:"title"`
			} `json:"_meta"`
		}
		if json.Unmarshal(raw, &node) != nil {
			continue
		}
		ref := sidecar.NodeRef{ID: sidecar.NodeID(id), Class: string(node.Class), Title: string(node.Meta.Title)}
		ref.Parent = subgraphOf(ref.ID)
		nodes[ref.ID] = ref
	}
	return nodes
}

// subgraphOf is the node that a flattened subgraph's node belongs to: "7" for
// "7:3", "7:3" for "7:3:1".
func subgraphOf(id sidecar.NodeID) sidecar.NodeID {
	if i := strings.LastIndexByte(string(id), ':'); i > 0 {
		return id[:i]
	}
	return ""
}

// node is the reference of a node of the prompt. One that ComfyUI expanded out
// of another is known by its parent alone.
func (t *tracked) node(id, parent sidecar.NodeID) sidecar.NodeRef {
	if ref, ok := t.nodes[id]; ok {
		return ref
	}
	if parent == "" || parent == id {
		parent = subgraphOf(id)
	}
	return sidecar.NodeRef{ID: id, Parent: parent}
}
