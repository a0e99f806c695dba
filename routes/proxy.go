package routes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/protocol"
)

// RoleProxy is the role of a worker: it computes for other sidecars.
const RoleProxy = "proxy"

// ProxyTable lists the routes between two sidecars: those of a worker, and the
// one where a front door hears of runs.
func ProxyTable() []Route { return append(workerTable(), callbackTable()...) }

// workerTable is all that a worker serves, beside liveness.
func workerTable() []Route {
	return []Route{
		{Method: "GET", Path: "/proxy/health", Name: "proxy_health", Summary: "Tell how the worker and its ComfyUI are", open: true, handle: behindToken((*call).proxyHealth)},
		{Method: "POST", Path: "/proxy/runs", Name: "proxy_run", Summary: "Run a graph, with the files that come along", open: true, handle: behindToken((*call).proxyRun)},
		{Method: "GET", Path: "/proxy/runs/{prompt_id}", Name: "proxy_show_run", Summary: "Tell how a run is, and what it made", open: true, handle: behindToken((*call).proxyShowRun)},
		{Method: "POST", Path: "/proxy/runs/{prompt_id}/cancel", Name: "proxy_cancel_run", Summary: "Cancel a run", open: true, handle: behindToken((*call).proxyCancelRun)},
		{Method: "GET", Path: "/proxy/runs/{prompt_id}/preview", Name: "proxy_preview", Summary: "Show the newest picture of a run in the making", open: true, handle: behindToken((*call).proxyPreview)},
		{Method: "GET", Path: "/proxy/artifacts/{artifact_id}", Name: "proxy_artifact", Summary: "Fetch a file that a run made", open: true, handle: behindToken((*call).proxyArtifact)},
		{Method: "GET", Path: "/proxy/events", Name: "proxy_events", Summary: "Stream what happens to all runs as server-sent events", open: true, stream: true, handle: behindToken((*call).proxyEvents)},
	}
}

// routesOf are those that a server in a role mounts.
func routesOf(role string) []Route {
	if role != RoleProxy {
		return append(table(), callbackTable()...)
	}
	routes := workerTable()
	for _, r := range table() {
		if r.Path == "/livez" || r.Path == "/readyz" {
			routes = append(routes, r)
		}
	}
	return routes
}

// workerSession owns the runs of other sidecars. No visitor's scope is spelled
// like it.
var workerSession = sidecar.Session{ID: "worker", Scope: "worker/runs"}

// behindToken asks for the worker's token.
func behindToken(handle handler) handler {
	return func(c *call) error {
		if !protocol.Bears(c.r.Header.Get(protocol.Authorization), c.opts.ProxyToken) {
			return &fault{
				code: sidecar.CodeForbidden, message: "Proxy token is invalid.",
				hint: "Send the worker's --proxy-token as 'Authorization: Bearer TOKEN'.",
			}
		}
		protocol.TellAbilities(c.w.Header(), c.studio.Head())
		return handle(c)
	}
}

func (c *call) proxyHealth() error {
	snap := c.studio.Catalog().Snapshot()
	ref, err := snap.Ref(c.r.Context()).MarshalJSON()
	if err != nil {
		return err
	}
	state := c.studio.Health(c.r.Context())
	doc := protocol.Health{
		OK: true, Role: RoleProxy, Environment: snap.Environment, EnvironmentRef: ref, Version: c.opts.Version,
		Comfy: protocol.Comfy{Available: state.Available, Version: state.Version, Error: state.Error, Hint: state.Doubt},
	}
	if c.direct {
		doc.ComfyURL = c.opts.ComfyURL
	}
	return c.document(http.StatusOK, doc)
}

// document answers with a value of the protocol.
func (c *call) document(status int, doc any) error {
	body, err := protocol.Encode(doc)
	if err != nil {
		return err
	}
	c.json(status, body)
	return nil
}

func (c *call) proxyRun() error {
	req, err := c.readSubmission()
	if err != nil {
		return err
	}
	req.Prompt = sidecar.PromptID(c.r.Header.Get(protocol.PromptHeader))
	run, err := c.studio.LaunchPrompt(c.r.Context(), req)
	if err != nil {
		return err
	}
	doc, err := protocol.Describe(run)
	if err != nil {
		return err
	}
	if !run.Accepted && run.Status == sidecar.StatusError {
		doc.Status, doc.PromptID, doc.Phase = "", "", ""
		return c.document(runStatus(run), c.forCaller(doc))
	}
	return c.document(http.StatusOK, protocol.Run{
		Status: protocol.StatusSubmitted, PromptID: run.Prompt, Phase: run.Phase, QueuePosition: c.place(run),
		Warnings: doc.Warnings, EnvironmentRef: run.EnvironmentRef,
	})
}

// forCaller leaves out what only a caller on this machine may see.
func (c *call) forCaller(doc protocol.Run) protocol.Run {
	if !c.direct {
		doc.ComfyURL = ""
	}
	return doc
}

// place is how many runs or prompts come before one that waits.
func (c *call) place(run *sidecar.Run) *int {
	if place, waits := c.studio.QueuePlace(run); waits {
		return &place
	}
	if live, followed := c.studio.Live(run.ID); followed && live.Position >= 0 {
		return &live.Position
	}
	return nil
}

func (c *call) proxiedRun() (*sidecar.Run, error) {
	id := sidecar.RunOfPrompt(sidecar.PromptID(c.path("prompt_id")))
	run, err := c.studio.Lookup(c.r.Context(), workerSession.Scope, id)
	return run, unknownProxyRun(err)
}

// unknownProxyRun says of an unknown run what the reference does.
func unknownProxyRun(err error) error {
	var refusal *sidecar.Error
	if errors.As(err, &refusal) && refusal.Code == sidecar.CodeNotFound {
		return &fault{
			code: sidecar.CodeNotFound, message: "Unknown proxy run.",
			hint: "A run is named by the prompt_id that its submission was answered with.", cause: err,
		}
	}
	return err
}

func (c *call) proxyShowRun() error {
	run, err := c.proxiedRun()
	if err != nil {
		return err
	}
	return c.describeRun(run)
}

func (c *call) describeRun(run *sidecar.Run) error {
	doc, err := protocol.Describe(run)
	if err != nil {
		return err
	}
	if !run.Status.Terminal() {
		doc.QueuePosition = c.place(run)
	}
	return c.document(http.StatusOK, c.forCaller(doc))
}

func (c *call) proxyCancelRun() error {
	id := sidecar.RunOfPrompt(sidecar.PromptID(c.path("prompt_id")))
	run, err := c.studio.Cancel(c.r.Context(), workerSession.Scope, id)
	var refusal *sidecar.Error
	if errors.As(err, &refusal) && refusal.Code == sidecar.CodeNotCancellable {
		return &fault{code: refusal.Code, message: refusal.Message, hint: "Ask for the run to see how it ended.", cause: err}
	}
	if err != nil {
		return unknownProxyRun(err)
	}
	return c.describeRun(run)
}

func (c *call) proxyPreview() error {
	return c.showPreview(workerSession.Scope, sidecar.RunOfPrompt(sidecar.PromptID(c.path("prompt_id"))))
}

func (c *call) proxyEvents() error { return c.stream(visitor{Session: workerSession}, "") }

func (c *call) proxyArtifact() error {
	artifact, err := c.proxiedArtifact(c.path("artifact_id"))
	if err != nil {
		return err
	}
	if artifact.Ref != "" {
		return c.viewArtifact(artifact.Ref)
	}
	asked := map[string][]string{}
	for _, name := range askedHeaders {
		if values := c.r.Header.Values(name); len(values) > 0 {
			asked[http.CanonicalHeaderKey(name)] = values
		}
	}
	return c.showFetched(protocol.QueryOf(artifact, c.r.Method, asked))
}

// proxiedArtifact finds the artifact of an id in the run that it belongs to.
func (c *call) proxiedArtifact(id string) (protocol.Artifact, error) {
	for run := range protocol.RunsOfArtifact(id) {
		if a, found, err := c.artifactOf(run, id); err != nil || found {
			return a, err
		}
	}
	return protocol.Artifact{}, &fault{
		code: sidecar.CodeNotFound, message: "Unknown proxy artifact.",
		hint: "Use the url of an artifact of a completed run as it is.",
	}
}

// artifactOf is the artifact of an id, if it is the run's.
func (c *call) artifactOf(id sidecar.RunID, artifact string) (a protocol.Artifact, found bool, err error) {
	run, err := c.studio.Lookup(c.r.Context(), workerSession.Scope, id)
	var refusal *sidecar.Error
	switch {
	case errors.As(err, &refusal) && refusal.Code == sidecar.CodeNotFound:
		return a, false, nil
	case err != nil || run.Status != sidecar.StatusCompleted:
		return a, false, err
	}
	outputs, err := protocol.OutputsOf(run)
	if err != nil {
		return a, false, err
	}
	for _, out := range outputs {
		for _, a := range out.Artifacts {
			if a.ID == artifact {
				return a, true, nil
			}
		}
	}
	return a, false, nil
}

// showFetched passes a file of the backend on.
func (c *call) showFetched(ask sidecar.FileQuery) error {
	ctx, stop := context.WithCancel(c.r.Context())
	defer stop()
	content, err := c.studio.Executor().Fetch(ctx, ask)
	if err != nil {
		return c.fetchFault(err)
	}
	err = c.showContent(ask, content)
	if closing := content.Body.Close(); closing != nil {
		c.log.Debug("close a backend's file", "err", closing, "request_id", c.id)
	}
	return err
}

// payloadDepth bounds the nesting of a submission: a graph may be deep.
const payloadDepth = 512

// decodeSubmission reads the payload of a submission.
func decodeSubmission(fields manifest.Values) (sidecar.PromptRequest, error) {
	req := sidecar.PromptRequest{Session: workerSession}
	prompt, _ := fields.Get("prompt")
	if len(prompt) == 0 || prompt[0] != '{' {
		return req, badRequest("Proxy run payload must include a prompt object.", "Send the graph in ComfyUI's API format as 'prompt'.")
	}
	// Of a graph without nodes its ComfyUI may say why it takes none.
	nodes, err := manifest.ParseObject(prompt, manifest.Limits{Depth: payloadDepth})
	if err == nil && len(nodes) > 0 {
		req.Graph, _, err = manifest.ParseGraph(prompt)
	}
	if err != nil {
		return req, &fault{code: sidecar.CodeBadRequest, message: err.Error(), hint: "Send the graph in ComfyUI's API format as 'prompt'.", cause: err}
	}
	if req.Outputs, err = outputsOf(fields); err != nil {
		return req, err
	}
	if req.Limit, err = secondsOf(fields, "timeout_seconds"); err != nil {
		return req, err
	}
	if _, err = secondsOf(fields, "poll_interval_seconds"); err != nil {
		return req, err
	}
	if req.Callback, err = callbackOf(fields); err != nil {
		return req, err
	}
	req.Token = looseText(fields, "cache_token")
	return req, nil
}

// outputsOf reads the declared outputs; what is no object is left out, as by
// the reference.
func outputsOf(fields manifest.Values) ([]manifest.Output, error) {
	raw, ok := fields.Get("outputs")
	if !ok {
		return nil, nil
	}
	var list []json.RawMessage
	if string(raw) == "null" || json.Unmarshal(raw, &list) != nil {
		return nil, badRequest("Proxy run payload outputs must be a list.", `Send [{"name": …, "type": …, "node_id": …}].`)
	}
	var outputs []manifest.Output
	for i, one := range list {
		if one[0] != '{' {
			continue
		}
		var out manifest.Output
		if err := json.Unmarshal(one, &out); err != nil {
			return nil, &fault{
				code: sidecar.CodeBadRequest, message: fmt.Sprintf("Output %d of the proxy run payload is incomplete.", i+1),
				hint: "Give each output a name, a type and a node_id.", cause: err,
			}
		}
		outputs = append(outputs, out)
	}
	return outputs, nil
}

// callbackOf reads whom to tell of the run; nil when nobody is named.
func callbackOf(fields manifest.Values) (*sidecar.Callback, error) {
	raw, _ := fields.Get("callback")
	if len(raw) == 0 || raw[0] != '{' {
		return nil, nil
	}
	members, err := manifest.ParseObject(raw, manifest.Limits{Depth: payloadDepth})
	if err != nil {
		return nil, badRequest("Proxy callback payload cannot be read.", "Send run_id, url and token as texts.")
	}
	callback := &sidecar.Callback{Run: strictText(members, "run_id"), URL: strictText(members, "url"), Token: looseText(members, "token")}
	for _, needed := range []struct{ name, value string }{{"run_id", callback.Run}, {"url", callback.URL}} {
		if needed.value == "" {
			return nil, badRequest("Proxy callback payload is missing a "+needed.name+".", "Send run_id and url as texts, or no callback.")
		}
	}
	u, err := url.Parse(callback.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, badRequest("Proxy callback url is no http address.", "Start the front door with --callback-url http://HOST:PORT.")
	}
	return callback, nil
}

func strictText(fields manifest.Values, name string) string {
	raw, ok := fields.Get(name)
	if !ok || !strings.HasPrefix(string(raw), `"`) {
		return ""
	}
	return unquote(raw)
}
