package routes_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/routes"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/artifact"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfy"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
	"github.com/comfygit-ai/studio-sidecar/sidecar/upload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a whole sidecar beside a fake ComfyUI, answering on loopback.
type rig struct {
	t         testing.TB
	fake      *comfyfake.Server
	exec      *scripted
	store     *sqlite.Store
	studio    *sidecar.Studio
	artifacts string
	uploads   string // folder of what clients sent, which ComfyUI does not see
	env       string
	handler   *routes.Server
	server    *httptest.Server
	log       *lockedBuffer
	trimmed   atomic.Bool // the store says that events are gone
	mute      atomic.Bool // the store keeps no answers of commands
}

const comfyURL = "http://comfy.invalid:8188"

// start makes a rig; change may adapt the options.
func start(t testing.TB, change ...func(*routes.Options)) *rig {
	t.Helper()
	return setup{name: "demo"}.start(t, change...)
}

// setup says how a rig differs from others.
type setup struct {
	name string // of the environment
	deaf bool   // the studio hears no news but the test's
	db   string // the state database; empty: one that nobody keeps

	limits   sidecar.Limits
	patience time.Duration // with what cannot be written
}

func (s setup) start(t testing.TB, change ...func(*routes.Options)) *rig {
	t.Helper()
	r := &rig{t: t, env: environment(t, s.name), artifacts: t.TempDir(), log: &lockedBuffer{}}
	log := slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	copies, err := artifact.Open(r.artifacts)
	must(t, err)
	t.Cleanup(func() { must(t, copies.Close()) })
	r.startComfy(copies)
	r.exec.deaf = s.deaf
	r.store, err = sqlite.Open(t.Context(), sqlite.Options{Path: s.db, Ephemeral: s.db == "", Logger: log})
	must(t, err)
	t.Cleanup(func() { must(t, r.store.Close()) })
	env, err := manifest.Locate(r.env)
	must(t, err)
	r.uploads = filepath.Join(r.env, "uploads")
	folder, err := upload.Open(r.uploads)
	must(t, err)
	t.Cleanup(func() { must(t, folder.Close()) })
	r.studio = sidecar.New(sidecar.Options{Catalog: manifest.Open(env), Store: &trimming{r.store, &r.trimmed, &r.mute}, Executor: r.exec, Uploads: folder, Limits: s.limits, Patience: s.patience, Log: log})
	r.runStudio()
	o := routes.Options{
		Studio: r.studio, Artifacts: copies, ComfyURL: comfyURL, Loopback: true, Version: "1.2.3", Log: log, State: "local",
	}
	for _, c := range change {
		c(&o)
	}
	r.handler, err = routes.New(o)
	must(t, err)
	r.server = httptest.NewUnstartedServer(nil)
	r.server.Config = routes.HTTPServer(r.handler, log)
	r.server.Start()
	r.server.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	t.Cleanup(func() {
		r.server.CloseClientConnections()
		r.server.Close()
	})
	return r
}

func (r *rig) startComfy(copies *artifact.Dir) {
	l, dial := comfyfake.Pipe()
	r.fake = comfyfake.New(comfyfake.Options{Previews: true})
	done := make(chan error, 1)
	go func() { done <- r.fake.Serve(l) }()
	r.t.Cleanup(func() {
		must(r.t, r.fake.Close())
		must(r.t, <-done)
	})
	r.exec = &scripted{Executor: comfy.New(comfy.Options{URL: comfyURL, DialContext: dial, Artifacts: copies})}
	if closer, ok := r.exec.Executor.(io.Closer); ok {
		r.t.Cleanup(func() { must(r.t, closer.Close()) })
	}
}

func (r *rig) runStudio() {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.studio.Run(ctx) }()
	r.t.Cleanup(func() {
		stop()
		must(r.t, <-done)
	})
}

// trimming is a real store that can be told to have lost its events.
type trimming struct {
	*sqlite.Store
	trimmed, mute *atomic.Bool
}

func (s *trimming) AnswerCommand(ctx context.Context, c *sidecar.Command) (*sidecar.Command, error) {
	if s.mute.Load() {
		return nil, sidecar.ErrNotFound
	}
	return s.Store.AnswerCommand(ctx, c)
}

func (s *trimming) Events(ctx context.Context, scope sidecar.Scope, run sidecar.RunID, after sidecar.Seq, limit int) ([]sidecar.Record, error) {
	if s.trimmed.Load() {
		return nil, sidecar.ErrTrimmed
	}
	return s.Store.Events(ctx, scope, run, after, limit)
}

// scripted is a real executor with single calls replaced.
type scripted struct {
	sidecar.Executor
	fetch   func(context.Context, sidecar.FileQuery) (*sidecar.Content, error)
	results func(sidecar.Job) []sidecar.Result
	deaf    bool
	report  atomic.Pointer[func(sidecar.News)] // tells the studio news
}

func (s *scripted) Watch(ctx context.Context, report func(sidecar.News)) error {
	s.report.Store(&report)
	if s.deaf {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.Executor.Watch(ctx, report)
}

func (s *scripted) Results(ctx context.Context, job sidecar.Job, seen sidecar.Sighting) ([]sidecar.Result, error) {
	if s.results != nil {
		return s.results(job), nil
	}
	return s.Executor.Results(ctx, job, seen)
}

func (s *scripted) Fetch(ctx context.Context, q sidecar.FileQuery) (*sidecar.Content, error) {
	if s.fetch != nil {
		return s.fetch(ctx, q)
	}
	return s.Executor.Fetch(ctx, q)
}

const pyproject = `[project]
name = "demo"
[tool.comfygit]
schema_version = 1
[tool.comfygit.workflows.solid.execution_contract]
version = 1
default_contract = "default"
api_prompt_file = "workflow_api/solid.json"
[tool.comfygit.workflows.solid.execution_contract.contracts.default]
display_name = "Solid colour"
inputs = [
  { name = "width", type = "integer", node_id = "1", required = true, api_field_key = "width", default = 64, min = 16, max = 4096 },
  { name = "seed", type = "integer", node_id = "1", required = false, api_field_key = "color", default = 255 },
]
outputs = [ { name = "image", type = "image", node_id = "2" } ]
[tool.comfygit.workflows.solid.execution_contract.contracts.preview]
inputs = []
outputs = [ { name = "image", type = "image", node_id = "3" } ]
[tool.comfygit.workflows."a/b %".execution_contract]
api_prompt_file = "workflow_api/solid.json"
[tool.comfygit.workflows."a/b %".execution_contract.contracts.default]
inputs = []
outputs = [ { name = "image", type = "image", node_id = "2" } ]
[tool.comfygit.workflows.bare]
path = "x.json"
`

const graph = `{"1":{"class_type":"EmptyImage","inputs":{"width":64,"height":32,"batch_size":1,"color":255}},
"2":{"class_type":"SaveImage","inputs":{"filename_prefix":"solid","images":["1",0]}},
"3":{"class_type":"PreviewImage","inputs":{"images":["1",0]}}}`

func environment(t testing.TB, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	must(t, os.MkdirAll(filepath.Join(dir, ".cec", "workflow_api"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, ".cec", "pyproject.toml"), []byte(pyproject), 0o644))
	must(t, os.WriteFile(filepath.Join(dir, ".cec", "workflow_api", "solid.json"), []byte(graph), 0o644))
	return dir
}

// reply is an answer that was read to its end.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func (a reply) json(t testing.TB) map[string]any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(a.body))
	dec.UseNumber()
	var doc map[string]any
	if err := dec.Decode(&doc); err != nil {
		t.Fatalf("answer %d is no JSON object: %v\n%s", a.status, err, a.body)
	}
	return doc
}

// ask sends a request as session "anna"; headers are given in pairs.
func (r *rig) ask(method, path, body string, headers ...string) reply {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.server.URL+path, strings.NewReader(body))
	must(r.t, err)
	if body == "" {
		req.Body = http.NoBody
	}
	req.Header.Set("X-ComfyGit-Studio-Session", "anna")
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
			continue
		}
		req.Header.Set(headers[i], headers[i+1])
		if headers[i+1] == "" {
			req.Header.Del(headers[i])
		}
	}
	return r.send(req)
}

func (r *rig) send(req *http.Request) reply {
	r.t.Helper()
	resp, err := r.server.Client().Do(req)
	must(r.t, err)
	body, err := io.ReadAll(resp.Body)
	must(r.t, err)
	must(r.t, resp.Body.Close())
	return reply{resp.StatusCode, resp.Header, body}
}

func (r *rig) get(path string, headers ...string) reply { return r.ask("GET", path, "", headers...) }

// run runs the solid contract to its end and returns the answer.
func (r *rig) run(body string) map[string]any {
	r.t.Helper()
	a := r.ask("POST", "/contracts/solid/default/run", body)
	if a.status != http.StatusOK {
		r.t.Fatalf("run: %d %s", a.status, a.body)
	}
	return a.json(r.t)
}

// eventually waits for a condition that another goroutine brings about.
func eventually(t testing.TB, what string, met func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Second); !met(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("it did not happen: %s", what)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// dialRaw opens a connection of its own to the server.
func (r *rig) dialRaw() net.Conn {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.server.Listener.Addr().String())
	must(r.t, err)
	must(r.t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	r.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (r *rig) writeManifest(text string) {
	r.t.Helper()
	must(r.t, os.WriteFile(filepath.Join(r.env, ".cec", "pyproject.toml"), []byte(text), 0o644))
}
