package comfy

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// record is one entry of history.
type record struct {
	prompt          entry
	outputs, status json.RawMessage
}

func recordOf(raw json.RawMessage) (record, error) {
	found, ok := fieldsOf(raw)
	if !ok {
		if err := json.Unmarshal(raw, &found); err != nil {
			return record{}, err
		}
	}
	return record{entryOf(found["prompt"]), found["outputs"], found["status"]}, nil
}

// ending is what a record's status says.
type ending struct {
	word     string
	messages []message
}

type message struct {
	kind string
	data json.RawMessage
}

// problem is the data of an execution_error.
type problem struct {
	NodeID    loose `json:"node_id"`
	NodeType  loose `json:"node_type"`
	Text      loose `json:"exception_message"`
	Message   loose `json:"message"`
	Exception loose `json:"exception_type"`
}

// blocked marks an error that stops a branch, not the run.
const blocked = "ExecutionBlocked"

// sightingOf reads a record. Status word and messages are both needed: an
// interrupted run says "error", and a cycle found at run time says "success"
// beside an execution_error. A record without a status is one that ended well.
func sightingOf(id sidecar.PromptID, raw json.RawMessage) (sidecar.Sighting, error) {
	rec, err := recordOf(raw)
	if err != nil {
		return sidecar.Sighting{}, fmt.Errorf("record of prompt %s: %w", id, err)
	}
	end := rec.ending()
	if end.has("execution_interrupted") {
		return sidecar.Sighting{Place: sidecar.PlaceStopped}, nil
	}
	trouble, failed := end.trouble()
	word := strings.ToLower(end.word)
	if failed || word == "error" || word == "failed" {
		return sidecar.Sighting{Place: sidecar.PlaceFailed, Failure: rec.failure(id, end, trouble)}, nil
	}
	outputs := members(rec.outputs)
	if outputs == nil {
		outputs = map[string]json.RawMessage{}
	}
	return sidecar.Sighting{Place: sidecar.PlaceDone, Outputs: outputs, AllCached: rec.allCached(end)}, nil
}

func (r record) ending() ending {
	status := members(r.status)
	end := ending{word: text(status["status_str"])}
	for _, raw := range items(status["messages"]) {
		if pair := items(raw); len(pair) >= 2 {
			end.messages = append(end.messages, message{kind: text(pair[0]), data: pair[1]})
		}
	}
	return end
}

func (e ending) has(kind string) bool {
	for _, m := range e.messages {
		if m.kind == kind {
			return true
		}
	}
	return false
}

// trouble is the first error that ended the run.
func (e ending) trouble() (problem, bool) {
	for _, m := range e.messages {
		var p problem
		if m.kind != "execution_error" || !isObject(m.data) || json.Unmarshal(m.data, &p) != nil || p.Exception == blocked {
			continue
		}
		return p, true
	}
	return problem{}, false
}

// failure speaks as the reference does.
func (r record) failure(id sidecar.PromptID, end ending, p problem) *sidecar.Failure {
	message := p.sentence()
	if message == "" {
		message = first(end.word, "ComfyUI execution failed")
	}
	hint := executionHint(string(p.Exception))
	if p == (problem{}) {
		hint = "ComfyUI gave no reason; see its log."
	}
	return &sidecar.Failure{
		Code: string(sidecar.CodeExecution), Message: message, Hint: hint, Outcome: sidecar.OutcomeFailed,
		Detail: r.detail(id, message),
	}
}

func (p problem) sentence() string {
	if p == (problem{}) {
		return ""
	}
	what := strings.TrimSpace(first(string(p.Text), string(p.Message)))
	what = first(what, string(p.Exception), "ComfyUI execution failed")
	switch {
	case p.NodeType != "" && p.NodeID != "":
		return fmt.Sprintf("%s node %s failed: %s", p.NodeType, p.NodeID, what)
	case p.NodeType != "":
		return fmt.Sprintf("%s failed: %s", p.NodeType, what)
	}
	return what
}

// detail is {"prompt_id", "message", "status", "outputs"}, the last two as
// ComfyUI wrote them.
func (r record) detail(id sidecar.PromptID, message string) json.RawMessage {
	out := append([]byte(`{"prompt_id":`), quote(string(id))...)
	out = append(append(out, `,"message":`...), quote(message)...)
	if isObject(r.status) {
		out = append(append(out, `,"status":`...), r.status...)
	}
	if isObject(r.outputs) {
		out = append(append(out, `,"outputs":`...), r.outputs...)
	}
	return append(out, '}')
}

// allCached reports whether no output had to be computed: then nothing before
// it was either.
func (r record) allCached(end ending) bool {
	outputs := items(r.prompt.outputs)
	cached := end.cached()
	for _, out := range outputs {
		if !cached[text(out)] {
			return false
		}
	}
	return len(outputs) > 0
}

func (e ending) cached() map[string]bool {
	cached := map[string]bool{}
	for _, m := range e.messages {
		if m.kind != "execution_cached" {
			continue
		}
		for _, id := range items(members(m.data)["nodes"]) {
			cached[text(id)] = true
		}
	}
	return cached
}
