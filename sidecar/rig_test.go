package sidecar_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/artifact"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfy"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	anna = sidecar.SessionID("anna")
	bert = sidecar.SessionID("bert")
)

// rig is a Studio on a real store and a fake ComfyUI, all in one bubble: time
// passes only when everybody waits.
type rig struct {
	testing.TB
	fake  *comfyfake.Server
	net   *network
	store *flaky
	env   manifest.Environment
	opts  sidecar.Options

	studio *sidecar.Studio
	exec   *comfy.Executor
	stop   func()       // ends the studio's life
	deaf   atomic.Bool  // news of prompts do not come in
	stall  atomic.Int32 // a stall
	lag    atomic.Int64 // of news, in nanoseconds
	blind  atomic.Bool  // looks know nothing of what was handed over before
	given  atomic.Int64 // how long the latest job may take, in nanoseconds
	alone  atomic.Bool  // no socket is opened
	copies *artifact.Dir
}

// setup shapes a rig.
type setup struct {
	fake   comfyfake.Options
	window int
	limit  time.Duration
	lost   sidecar.LostPolicy
}

// bubble runs test in a rig. Whatever was started must end with it.
func bubble(t *testing.T, s setup, test func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { inRig(t, s, test) })
}

func inRig(t testing.TB, s setup, test func(*rig)) {
	if s.fake.StepDelay == 0 {
		s.fake.StepDelay = 100 * time.Millisecond
	}
	l, dial := comfyfake.Pipe()
	r := &rig{TB: t, fake: comfyfake.New(s.fake), net: &network{dial: dial}, env: environment(t)}
	served := make(chan error, 1)
	go func() { served <- r.fake.Serve(l) }()
	store, err := sqlite.Open(context.Background(), sqlite.Options{Ephemeral: true})
	must(t, err)
	r.store = &flaky{Store: store}
	r.opts = sidecar.Options{Store: r.store, Window: s.window, RunLimit: s.limit, Lost: s.lost}
	r.start()
	defer func() {
		r.stop()
		must(t, store.Close())
		must(t, r.fake.Close())
		must(t, <-served)
	}()
	test(r)
	r.askedForLittle()
}

// askedForLittle: ComfyUI's history was never asked for as a whole. It may be
// hundreds of megabytes.
func (r *rig) askedForLittle() {
	r.Helper()
	for _, req := range r.fake.Requests() {
		if path := strings.TrimPrefix(req.Path, "/api"); req.Method == http.MethodGet && strings.Trim(path, "/") == "history" && !strings.Contains(req.Query, "max_items=") {
			r.Errorf("ComfyUI was asked for %s?%s", req.Path, req.Query)
		}
	}
}

// start begins a life of the studio; a new catalog and executor know nothing
// of the last one.
func (r *rig) start() {
	r.exec = comfy.New(comfy.Options{URL: "http://comfy:8188", DialContext: r.net.connect, Artifacts: r.copies})
	r.opts.Catalog, r.opts.Executor = manifest.Open(r.env), choosy{r.exec, &r.deaf, &r.stall, &r.lag, &r.blind, &r.given, &r.alone}
	r.studio = sidecar.New(r.opts)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.studio.Run(ctx) }()
	exec := r.exec
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			r.Errorf("run: %v", err)
		}
		exec.Close()
	})
}

// withoutSocket begins a life without a socket. Where days pass, to look after one is
// nearly all that happens.
func (r *rig) withoutSocket() {
	r.Helper()
	r.alone.Store(true)
	r.restart()
}

// restart ends the studio in whatever it does and begins anew on the same
// store.
func (r *rig) restart() {
	r.Helper()
	began := time.Now()
	r.stop()
	if took := time.Since(began); took > time.Second {
		r.Errorf("it took %v to stop", took)
	}
	r.start()
}

// flows are the workflows of the environment: a graph, and the node of its
// declared output.
var flows = []struct{ name, node, kind, inputs, graph string }{
	{"picture", "2", "image", seedInput, save(`["1",0]`)},
	{"batch", "2", "image", "", strings.Replace(save(`["1",0]`), `"batch_size":1`, `"batch_size":5`, 1)},
	{"temp", "2", "image", seedInput, strings.Replace(save(`["1",0]`), `"SaveImage","inputs":{"filename_prefix":"t",`, `"PreviewImage","inputs":{`, 1)},
	{"text", "2", "string", "", `{"1":{"class_type":"PrimitiveString","inputs":{"value":"hello"}},"2":{"class_type":"PreviewAny","inputs":{"source":["1",0]}}}`},
	{"slow", "2", "image", seedInput, save(`["3",0]`, `"3":{"class_type":"TrialSlow","inputs":{"image":["1",0],"steps":20}}`)},
	{"deaf", "2", "image", seedInput, save(`["3",0]`, `"3":{"class_type":"TrialDeaf","inputs":{"image":["1",0],"steps":20}}`)},
	{"broken", "2", "image", seedInput, save(`["3",0]`, `"3":{"class_type":"TrialError","inputs":{"image":["1",0],"message":"it broke"}}`)},
	{"touched", "4", "image", seedInput, half},
	{"untouched", "2", "image", seedInput, half},
	{"wide", "2", "image", `{ name = "width", type = "integer", node_id = "1", required = false, api_field_key = "width", default = 16 }`, save(`["1",0]`)},
	{"inner", "1", "image", seedInput, save(`["1",0]`)},
	{"refused", "4", "image", "", `{"4":{"class_type":"SaveImage","inputs":{"filename_prefix":"u"}}}`},
}

const seedInput = `{ name = "seed", type = "integer", node_id = "1", required = false, api_field_key = "color", default = 255 }`

// half has an output node that validates and one that does not.
var half = save(`["1",0]`, `"4":{"class_type":"SaveImage","inputs":{"filename_prefix":"u"}}`)

func save(images string, more ...string) string {
	nodes := append([]string{
		`"1":{"class_type":"EmptyImage","inputs":{"width":16,"height":8,"batch_size":1,"color":255}}`,
		`"2":{"class_type":"SaveImage","inputs":{"filename_prefix":"t","images":` + images + `}}`,
	}, more...)
	return "{" + strings.Join(nodes, ",") + "}"
}

func environment(t testing.TB) manifest.Environment {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "demo")
	must(t, os.MkdirAll(filepath.Join(dir, ".cec", "workflow_api"), 0o755))
	text := "[project]\nname = \"demo\"\n[tool.comfygit]\nschema_version = 1\n"
	for _, f := range flows {
		text += fmt.Sprintf("[tool.comfygit.workflows.%[1]s.execution_contract]\nversion = 1\napi_prompt_file = \"workflow_api/%[1]s.json\"\n"+
			"[tool.comfygit.workflows.%[1]s.execution_contract.contracts.default]\ninputs = [%[2]s]\n"+
			"outputs = [ { name = \"out\", type = \"%[3]s\", node_id = \"%[4]s\" } ]\n", f.name, f.inputs, f.kind, f.node)
		must(t, os.WriteFile(filepath.Join(dir, ".cec", "workflow_api", f.name+".json"), []byte(f.graph), 0o644))
	}
	must(t, os.WriteFile(filepath.Join(dir, ".cec", "pyproject.toml"), []byte(text), 0o644))
	env, err := manifest.Locate(dir)
	must(t, err)
	return env
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// request asks for a run with an input that no other run has.
func (r *rig) request(who sidecar.SessionID, flow string, seed int) sidecar.LaunchRequest {
	values := manifest.Values{{Name: "seed", Value: json.RawMessage(fmt.Sprint(seed))}}
	if flow == "batch" || flow == "text" || flow == "refused" {
		values = nil
	}
	return sidecar.LaunchRequest{
		Session: sidecar.Session{ID: who, Scope: sidecar.Scope(who)}, Workflow: flow, Contract: "default", Values: values,
	}
}

func (r *rig) launch(who sidecar.SessionID, flow string, seed int) *sidecar.Run {
	r.Helper()
	run, err := r.studio.Launch(context.Background(), r.request(who, flow, seed))
	must(r, err)
	return run
}

// launching launches in the background; the run is known by its creation.
func (r *rig) launching(who sidecar.SessionID, flow string, seed int) (sidecar.RunID, <-chan *sidecar.Run) {
	r.Helper()
	known := map[sidecar.RunID]bool{}
	for _, run := range r.runs(who) {
		known[run.ID] = true
	}
	answered := make(chan *sidecar.Run, 1)
	studio, req := r.studio, r.request(who, flow, seed)
	go func() {
		run, err := studio.Launch(context.Background(), req)
		if err != nil {
			r.Error(err)
		}
		answered <- run
	}()
	var id sidecar.RunID
	r.until("the run is stored", func() bool {
		for _, run := range r.runs(who) {
			if !known[run.ID] {
				id = run.ID
			}
		}
		return id != ""
	})
	return id, answered
}

func (r *rig) runs(who sidecar.SessionID) []*sidecar.Run {
	r.Helper()
	page, err := r.studio.Runs(context.Background(), sidecar.RunFilter{Scope: sidecar.Scope(who)})
	must(r, err)
	return page.Runs
}

func (r *rig) read(id sidecar.RunID) *sidecar.Run {
	r.Helper()
	run, err := r.store.Store.Run(context.Background(), id)
	must(r, err)
	return run
}

func (r *rig) cancel(run *sidecar.Run) *sidecar.Run {
	r.Helper()
	got, err := r.studio.Cancel(context.Background(), run.Scope, run.ID)
	must(r, err)
	return got
}

// until waits for a condition; the bubble's time costs nothing.
func (r *rig) until(what string, met func() bool) {
	r.Helper()
	deadline := time.Now().Add(5 * time.Minute)
	for {
		changed := r.store.Changed()
		if met() {
			return
		}
		if time.Now().After(deadline) {
			r.Fatalf("it did not happen: %s", what)
		}
		tick := time.NewTimer(20 * time.Millisecond)
		select {
		case <-changed:
		case <-tick.C:
		}
		tick.Stop()
	}
}

func (r *rig) pass(d time.Duration) { <-time.After(d) }

func (r *rig) inPhase(id sidecar.RunID, phase sidecar.Phase) *sidecar.Run {
	r.Helper()
	deadline := time.NewTimer(5 * time.Minute)
	defer deadline.Stop()
	for {
		changed := r.store.Changed() // with each phase
		run := r.read(id)
		if run.Phase == phase {
			return run
		}
		select {
		case <-changed:
		case <-deadline.C:
			r.Fatalf("the run is %s, and does not become %s", run.Phase, phase)
		}
	}
}

func (r *rig) finished(id sidecar.RunID) *sidecar.Run {
	r.Helper()
	return r.inPhase(id, sidecar.PhaseFinished)
}

// end is all that a test compares of a run that has ended.
type end struct {
	Status  sidecar.Status
	Outcome sidecar.Outcome
	Code    string
	Slots   []sidecar.SlotStatus
	Items   []sidecar.ItemStatus
}

func endOf(run *sidecar.Run) end {
	e := end{Status: run.Status, Outcome: run.Outcome, Code: run.Code}
	for _, s := range run.Slots {
		e.Slots = append(e.Slots, s.Status)
	}
	for _, i := range run.Items {
		e.Items = append(e.Items, i.Status)
	}
	return e
}

func slots(list ...sidecar.SlotStatus) []sidecar.SlotStatus { return list }
func items(list ...sidecar.ItemStatus) []sidecar.ItemStatus { return list }

// The ends of a run with one output.
func completed() end {
	return end{Status: sidecar.StatusCompleted, Outcome: sidecar.OutcomeCompleted, Slots: slots(sidecar.SlotDone), Items: items(sidecar.ItemDone)}
}

func cancelled() end {
	return end{Status: sidecar.StatusCancelled, Outcome: sidecar.OutcomeCancelled, Slots: slots(sidecar.SlotCancelled)}
}

func errored(outcome sidecar.Outcome, code sidecar.Code) end {
	return end{Status: sidecar.StatusError, Outcome: outcome, Code: string(code), Slots: slots(sidecar.SlotError), Items: items(sidecar.ItemError)}
}

// refusal is the end of a run that ComfyUI never accepted.
func refusal(outcome sidecar.Outcome, code sidecar.Code) end {
	e := errored(outcome, code)
	e.Slots = nil
	return e
}

// executed is how often ComfyUI began each prompt of a run: the one that it was
// given, or any that names it.
func (r *rig) executed(run *sidecar.Run) comfyfake.Count {
	return r.fake.Submissions().ByPrompt[string(run.Prompt)]
}

// comfyRestarts takes ComfyUI away for a moment; it knows of no prompt then.
func (r *rig) comfyRestarts() {
	r.Helper()
	r.net.setDown(true)
	must(r, r.fake.Restart())
	r.pass(time.Second)
	r.net.setDown(false)
}

// posts counts requests.
func (r *rig) posts(method, path string) int {
	n := 0
	for _, req := range r.fake.Requests() {
		if req.Method == method && strings.TrimPrefix(req.Path, "/api") == path {
			n++
		}
	}
	return n
}

// history lists the types of a run's events, in order, and holds them to
// invariants: revisions without gap, and the last values the run's own.
func (r *rig) history(run *sidecar.Run) []sidecar.EventType {
	r.Helper()
	records, err := r.studio.Events(context.Background(), run.Scope, run.ID, 0, 0)
	must(r, err)
	var types []sidecar.EventType
	for _, rec := range records {
		types = append(types, rec.Type)
	}
	return types
}

// once holds a fault to one method and route, for one request.
func once(kind comfyfake.Kind, method, route string) comfyfake.Fault {
	return comfyfake.Fault{Kind: kind, Method: method, Route: route, Times: 1}
}

func onPrompt(kind comfyfake.Kind) comfyfake.Fault { return once(kind, http.MethodPost, "/prompt") }

// ask speaks to ComfyUI as somebody else would.
func (r *rig) ask(method, path, body string) {
	r.Helper()
	client := &http.Client{Transport: &http.Transport{DialContext: r.net.dial, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(context.Background(), method, "http://comfy:8188"+path, strings.NewReader(body))
	must(r, err)
	resp, err := client.Do(req)
	must(r, err)
	must(r, resp.Body.Close())
}

func jsonHas(doc json.RawMessage, key string) bool {
	var members map[string]json.RawMessage
	return json.Unmarshal(doc, &members) == nil && members[key] != nil
}
