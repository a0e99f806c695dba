package comfy

import (
	"context"
	"net/http"
	"net/url"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// dropped are the declared outputs that ComfyUI does not execute, though their
// nodes are output nodes: they failed to validate. The answer to the prompt
// tells that; where it was lost, the stored prompt's list of outputs does.
func (e *Executor) dropped(ctx context.Context, job sidecar.Job) ([]manifest.Output, error) {
	if len(job.Outputs) == 0 {
		return nil, nil
	}
	item, err := e.stored(ctx, job)
	if err != nil || item == nil || item.outputs == nil {
		return nil, err
	}
	executes := map[string]bool{}
	for _, id := range items(item.outputs) {
		executes[text(id)] = true
	}
	nodes := nodesOf(job.Graph)
	var dropped []manifest.Output
	for _, out := range job.Outputs {
		node, ok := nodes[sidecar.NodeID(out.NodeID)]
		if !ok || executes[out.NodeID] {
			continue
		}
		shows, err := e.isOutput(ctx, node.Class)
		if err != nil {
			return nil, err
		}
		if shows {
			dropped = append(dropped, out)
		}
	}
	return dropped, nil
}

// stored is the prompt as ComfyUI keeps it; nil when it is nowhere just now.
func (e *Executor) stored(ctx context.Context, job sidecar.Job) (*entry, error) {
	id := e.jobs.actual(job.Prompt)
	if item, err := e.recorded(ctx, id); item != nil || err != nil {
		return item, err
	}
	q, err := e.queue(ctx)
	if err != nil {
		return nil, err
	}
	for _, item := range q.entries() {
		if item.prompt() == id {
			return &item, nil
		}
	}
	return e.recorded(ctx, id)
}

func (e *Executor) recorded(ctx context.Context, id sidecar.PromptID) (*entry, error) {
	records, a, err := e.records(ctx, "/history/"+url.PathEscape(string(id)))
	if err != nil || records[string(id)] == nil {
		return nil, err
	}
	rec, err := recordOf(records[string(id)])
	if err != nil {
		return nil, e.http.unusable(a, err)
	}
	return &rec.prompt, nil
}

// isOutput asks whether nodes of a class are output nodes: only those are
// executed for their own sake.
func (e *Executor) isOutput(ctx context.Context, class string) (bool, error) {
	a, err := e.http.call(ctx, exchange{method: http.MethodGet, path: "/object_info/" + url.PathEscape(class)})
	if err != nil {
		return false, e.http.unreachable(err)
	}
	var doc map[string]struct {
		Output bool `json:"output_node"`
	}
	if err := a.object(&doc); err != nil {
		return false, e.http.unusable(a, err)
	}
	return doc[class].Output, nil
}
