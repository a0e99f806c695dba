package routes

import (
	"strconv"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// shape renders runs, slots and items as the reference shows them, with a few
// members of ours beside its own.
type shape struct{ rewriter }

func (c *call) shape() shape { return shape{rewriter{c.urls, c.direct}} }

// run writes a run as the member name, or as an element when name is "".
func (s shape) run(t *text, name string, r *sidecar.Run) {
	s.openRun(t, name, r)
	t.close('}')
}

func (s shape) openRun(t *text, name string, r *sidecar.Run) {
	begin(t, name)
	t.str("run_id", string(r.ID))
	t.str("session_id", string(r.Session))
	t.str("workflow", r.Workflow)
	t.str("contract", r.Contract)
	t.str("status", string(r.Status))
	t.raw("inputs", orObject(r.Inputs))
	t.str("createdAt", sidecar.FormatTime(r.CreatedAt))
	t.str("updatedAt", sidecar.FormatTime(r.UpdatedAt))
	t.optStr("prompt_id", string(r.PromptID))
	t.optRaw("raw_result", s.rewrite(r.Result))
	t.optStr("error", r.Error)
	t.optStr("phase", string(r.Phase))
	t.optStr("outcome", string(r.Outcome))
	t.int("revision", r.Revision)
	t.optStr("title", r.Title)
	if r.Pinned {
		t.bool("pinned", true)
	}
	provenance(t, r)
	waits(t, r)
}

// provenance says what was run: the manifest, and the graph as built from it.
func provenance(t *text, r *sidecar.Run) {
	t.optStr("manifest_revision", r.ManifestRevision)
	t.optStr("prompt_digest", r.PromptDigest)
}

func (s shape) slot(t *text, r *sidecar.Run, slot *sidecar.Slot) {
	t.open('{')
	t.str("slot_id", string(slot.ID))
	t.str("run_id", string(r.ID))
	names(t, r.Workflow, r.Contract)
	t.str("outputName", slot.Name)
	t.str("type", slot.Type)
	t.str("status", string(slot.Status))
	t.str("createdAt", sidecar.FormatTime(slot.CreatedAt))
	t.str("updatedAt", sidecar.FormatTime(slot.UpdatedAt))
	t.optStr("promptId", string(slot.PromptID))
	t.optInt("width", slot.Width)
	t.optInt("height", slot.Height)
	t.optStr("error", slot.Error)
	t.optRaw("rawResult", s.rewrite(slot.Result))
	t.close('}')
}

func (s shape) item(t *text, item *sidecar.Item) {
	t.open('{')
	t.str("id", string(item.ID))
	t.str("run_id", string(item.Run))
	names(t, item.Workflow, item.Contract)
	t.str("status", string(item.Status))
	t.str("type", item.Type)
	t.raw("inputs", orObject(item.Inputs))
	t.str("createdAt", sidecar.FormatTime(item.CreatedAt))
	t.optStr("slotId", string(item.Slot))
	t.optStr("promptId", string(item.PromptID))
	t.optStr("outputName", item.Output)
	t.optStr("filename", item.Filename)
	if item.URL != "" {
		t.str("url", s.public(item.URL))
	}
	t.optInt("width", item.Width)
	t.optInt("height", item.Height)
	t.optRaw("artifact", s.rewrite(item.Artifact))
	t.optRaw("rawResult", s.rewrite(item.Result))
	t.optStr("error", item.Error)
	t.close('}')
}

// slots and items write those of a run as members.
func (s shape) slots(t *text, r *sidecar.Run) {
	t.key("output_slots")
	t.open('[')
	for i := range r.Slots {
		s.slot(t, r, &r.Slots[i])
	}
	t.close(']')
}

func (s shape) items(t *text, r *sidecar.Run) {
	t.key("gallery_items")
	t.open('[')
	for i := range r.Items {
		s.item(t, &r.Items[i])
	}
	t.close(']')
}

// receipt writes what a run looked like when it was accepted.
func (s shape) receipt(t *text, r *sidecar.Run) {
	began := r.AsAccepted()
	t.open('{')
	t.str("status", string(began.Status))
	t.str("run_id", string(began.ID))
	t.orNull("prompt_id", string(began.PromptID))
	t.raw("issues", orList(began.Issues))
	s.slots(t, began)
	s.items(t, began)
	t.optStr("phase", string(began.Phase))
	t.int("revision", began.Revision)
	provenance(t, began)
	waits(t, began)
	t.optRaw("environment_ref", began.EnvironmentRef)
	t.close('}')
}

func begin(t *text, name string) {
	if name != "" {
		t.key(name)
	}
	t.open('{')
}

func names(t *text, workflow, contract string) {
	t.str("contract", workflow+" / "+contract)
	t.str("contractWorkflow", workflow)
	t.str("contractName", contract)
}

func orObject(raw []byte) []byte {
	if len(raw) == 0 || string(raw) == "null" {
		return []byte("{}")
	}
	return raw
}

func orList(raw []byte) []byte {
	if len(raw) == 0 || string(raw) == "null" {
		return []byte("[]")
	}
	return raw
}

// nodeRun writes one execution of a node.
func nodeRun(t *text, n *sidecar.NodeRun) {
	t.open('{')
	t.str("node", string(n.Node))
	t.raw("attempt", strconv.AppendInt(nil, int64(n.Attempt), 10))
	t.optStr("class_type", n.Class)
	t.optStr("title", n.Title)
	t.optStr("parent", string(n.Parent))
	if n.Cached {
		t.bool("cached", true)
	}
	t.optStr("startedAt", sidecar.FormatTime(n.StartedAt))
	t.optStr("finishedAt", sidecar.FormatTime(n.FinishedAt))
	t.optStr("error", n.Error)
	t.optInt("files", n.Files)
	if n.Bytes > 0 {
		t.int("bytes", n.Bytes)
	}
	t.close('}')
}
