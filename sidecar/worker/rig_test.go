package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/routes"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/artifact"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfy"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
	"github.com/comfygit-ai/studio-sidecar/sidecar/protocol"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
	"github.com/comfygit-ai/studio-sidecar/sidecar/upload"
	"github.com/comfygit-ai/studio-sidecar/sidecar/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "tok"

// setup shapes a rig.
type setup struct {
	callbacks  bool
	frontToken string // default: the worker's
	require    bool
	digest     string                                                          // a line in the front door's manifest that the worker's lacks
	fake       comfyfake.Options                                               // of the worker's ComfyUI
	between    func(next http.Handler, w http.ResponseWriter, r *http.Request) // before the front door
	before     func(next http.Handler, w http.ResponseWriter, r *http.Request) // before the worker
}

// rig is a front door, a worker and its ComfyUI, all in one bubble: time
// passes only when everybody waits.
type rig struct {
	testing.TB
	setup
	dir    string
	fake   *comfyfake.Server
	toFake dialer
	front  *side
	worker *side
	lines  struct{ front, worker, fake line }
	posts  atomic.Int64 // submissions that reached the worker
}

type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// line leads to a side, while it is there.
type line struct {
	mu   sync.Mutex
	dial dialer
}

func (l *line) to(d dialer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dial = d
}

func (l *line) call(ctx context.Context, network, address string) (net.Conn, error) {
	l.mu.Lock()
	dial := l.dial
	l.mu.Unlock()
	if dial == nil {
		return nil, &net.OpError{Op: "dial", Net: "pipe", Err: syscall.ECONNREFUSED}
	}
	return dial(ctx, network, address)
}

// side is one running sidecar.
type side struct {
	rig     *rig
	store   *sqlite.Store
	studio  *sidecar.Studio
	copies  *artifact.Dir
	handler http.Handler
	client  *http.Client
	end     func()
}

func pair(t *testing.T, s setup, test func(*rig)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{TB: t, setup: s, dir: dir}
		if r.fake0().StepDelay == 0 {
			r.setup.fake.StepDelay = 50 * time.Millisecond
		}
		l, dial := comfyfake.Pipe()
		r.fake, r.toFake = comfyfake.New(r.setup.fake), dial
		r.lines.fake.to(dial)
		served := make(chan error, 1)
		go func() { served <- r.fake.Serve(l) }()
		r.startWorker()
		r.startFront()
		synctest.Wait()
		defer func() {
			r.front.end()
			r.worker.end()
			must(t, r.fake.Close())
			must(t, <-served)
		}()
		test(r)
	})
}

func (r *rig) fake0() comfyfake.Options { return r.setup.fake }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open makes the parts that both sides have.
func (r *rig) open(name, digest string) (*side, *upload.Folder, *manifest.Catalog) {
	dir := filepath.Join(r.dir, name)
	must(r, os.MkdirAll(filepath.Join(dir, "env", ".cec", "workflow_api"), 0o755))
	layEnvironment(r, filepath.Join(dir, "env", ".cec"), digest)
	store, err := sqlite.Open(context.Background(), sqlite.Options{Path: filepath.Join(dir, "state.sqlite")})
	must(r, err)
	copies, err := artifact.Open(filepath.Join(dir, "artifacts"))
	must(r, err)
	folder, err := upload.Open(filepath.Join(dir, "uploads"))
	must(r, err)
	env, err := manifest.Locate(filepath.Join(dir, "env"))
	must(r, err)
	return &side{rig: r, store: store, copies: copies}, folder, manifest.Open(env)
}

func (r *rig) startWorker() {
	s, folder, catalog := r.open("worker", "")
	exec := comfy.New(comfy.Options{URL: "http://127.0.0.1:8188", DialContext: r.lines.fake.call, Artifacts: s.copies})
	s.studio = sidecar.New(sidecar.Options{Catalog: catalog, Store: s.store, Executor: exec, Uploads: folder})
	box := worker.NewOutbox(worker.OutboxOptions{
		Store: s.store, Studio: s.studio, Artifacts: s.copies, DialContext: r.lines.front.call,
	})
	handler, err := routes.New(routes.Options{Studio: s.studio, Artifacts: s.copies, Role: routes.RoleProxy, ProxyToken: token, Loopback: true})
	must(r, err)
	s.handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodPost && req.URL.Path == "/proxy/runs" {
			r.posts.Add(1)
		}
		if r.before != nil {
			r.before(handler, w, req)
			return
		}
		handler.ServeHTTP(w, req)
	})
	s.run(&r.lines.worker, exec.Close, folder, s.studio.Run, box.Run)
	r.worker = s
}

func (r *rig) startFront() {
	s, folder, catalog := r.open("front", r.digest)
	secret, err := s.store.Secret(context.Background(), "callback")
	must(r, err)
	tokens := protocol.Tokens{Secret: secret, Configured: "cbtok"}
	o := worker.Options{
		URL: "http://worker:8190", Token: token, Tokens: tokens, Artifacts: s.copies, DialContext: r.lines.worker.call, RequireMatch: r.require,
	}
	if r.frontToken != "" {
		o.Token = r.frontToken
	}
	if r.callbacks {
		o.CallbackURL = "http://127.0.0.1:8191"
	}
	exec := worker.New(o)
	s.studio = sidecar.New(sidecar.Options{Catalog: catalog, Store: s.store, Executor: exec, Uploads: folder, HealthOnDemand: true})
	handler, err := routes.New(routes.Options{
		Studio: s.studio, Artifacts: s.copies, Loopback: true, ExecutorName: "proxy",
		Callbacks: r.callbacks, CallbackTokens: tokens,
	})
	must(r, err)
	s.handler = handler
	if r.between != nil {
		s.handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { r.between(handler, w, req) })
	}
	s.run(&r.lines.front, exec.Close, folder, s.studio.Run)
	r.front = s
}

// run serves a side at the end of a line until its end.
func (s *side) run(at *line, closeExec func(), folder *upload.Folder, parts ...func(context.Context) error) {
	l, dial := comfyfake.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	server := routes.HTTPServer(s.handler, nil)
	ended := make(chan error, len(parts)+1)
	for _, part := range parts {
		go func() { ended <- part(ctx) }()
	}
	go func() {
		err := server.Serve(l)
		if errors.Is(err, http.ErrServerClosed) {
			err = nil
		}
		ended <- err
	}()
	at.to(dial)
	s.client = &http.Client{Transport: &http.Transport{DialContext: dial}}
	s.end = sync.OnceFunc(func() {
		at.to(nil)
		cancel()
		stop, done := context.WithTimeout(context.Background(), time.Second)
		defer done()
		if server.Shutdown(stop) != nil {
			must(s.rig, server.Close())
		}
		for range len(parts) + 1 {
			must(s.rig, <-ended)
		}
		s.client.CloseIdleConnections()
		closeExec()
		must(s.rig, errors.Join(folder.Close(), s.copies.Close(), s.store.Close()))
	})
}

// reply is an answer that was read to its end.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func (a reply) json(t testing.TB) map[string]any {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal(a.body, &doc); err != nil {
		t.Fatalf("answer %d is no object: %s", a.status, a.body)
	}
	return doc
}

// ask sends a request; headers are given in pairs.
func (s *side) ask(method, path, body string, headers ...string) reply {
	s.rig.Helper()
	req, err := http.NewRequest(method, "http://127.0.0.1:8191"+path, strings.NewReader(body))
	must(s.rig, err)
	req.Header.Set("X-ComfyGit-Studio-Session", "anna")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := s.client.Do(req)
	must(s.rig, err)
	got, err := io.ReadAll(resp.Body)
	must(s.rig, errors.Join(err, resp.Body.Close()))
	return reply{resp.StatusCode, resp.Header, got}
}

// launch starts a run at the front door without waiting for it.
func (r *rig) launch(flow string) sidecar.RunID {
	r.Helper()
	a := r.front.ask("POST", "/contracts/"+flow+"/default/run", "{}")
	if a.status != http.StatusOK {
		r.Fatalf("launch: %d %s", a.status, a.body)
	}
	return sidecar.RunID(a.json(r)["run_id"].(string))
}

// ended waits for a run's end, at most so long.
func (r *rig) ended(id sidecar.RunID, within time.Duration) *sidecar.Run {
	r.Helper()
	ctx, stop := context.WithTimeout(context.Background(), within)
	defer stop()
	run, err := r.front.studio.Wait(ctx, id)
	if err != nil {
		r.Fatalf("run is %s/%s after %v: %v", run.Status, run.Phase, within, err)
	}
	return run
}

// within waits until ok, asking now and then.
func (r *rig) within(limit time.Duration, what string, ok func() bool) {
	r.Helper()
	tick := time.NewTicker(max(10*time.Millisecond, limit/1000))
	defer tick.Stop()
	for deadline := time.Now().Add(limit); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			r.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// copies lists the files in a side's artifact folder.
func (r *rig) copies(name string) []string {
	r.Helper()
	root := filepath.Join(r.dir, name, "artifacts")
	found, err := filepath.Glob(filepath.Join(root, "*", "*"))
	must(r, err)
	return found
}

func layEnvironment(t testing.TB, cec, digest string) {
	t.Helper()
	slow := `"3":{"class_type":"TrialSlow","inputs":{"image":["1",0],"steps":20}}`
	flows := []struct{ name, kind, graph string }{
		{"picture", "image", save(1, `["1",0]`)},
		{"batch", "image", save(3, `["1",0]`)},
		{"temp", "image", strings.Replace(save(1, `["1",0]`), `"SaveImage","inputs":{"filename_prefix":"t",`, `"PreviewImage","inputs":{`, 1)},
		{"slow", "image", save(1, `["3",0]`, slow)},
		{"broken", "image", save(1, `["3",0]`, `"3":{"class_type":"TrialError","inputs":{"image":["1",0],"message":"it broke"}}`)},
		{"refused", "image", `{"2":{"class_type":"SaveImage","inputs":{"filename_prefix":"u"}}}`},
		{"load", "image", strings.Replace(save(1, `["1",0]`), `"class_type":"EmptyImage","inputs":{"width":16,"height":8,"batch_size":1,"color":255}`, `"class_type":"LoadImage","inputs":{"image":"x.png"}`, 1)},
	}
	text := "[project]\nname = \"demo\"\n" + digest
	for _, f := range flows {
		inputs := ""
		if f.name == "load" {
			inputs = `{ name = "image", type = "image", node_id = "1", required = false, api_field_key = "image" }`
		}
		text += fmt.Sprintf("[tool.comfygit.workflows.%[1]s.execution_contract]\nversion = 1\napi_prompt_file = \"workflow_api/%[1]s.json\"\n"+
			"[tool.comfygit.workflows.%[1]s.execution_contract.contracts.default]\ninputs = [%[3]s]\n"+
			"outputs = [ { name = \"out\", type = \"%[2]s\", node_id = \"2\" } ]\n", f.name, f.kind, inputs)
		must(t, os.WriteFile(filepath.Join(cec, "workflow_api", f.name+".json"), []byte(f.graph), 0o644))
	}
	must(t, os.WriteFile(filepath.Join(cec, "pyproject.toml"), []byte(text), 0o644))
}

func save(batch int, images string, more ...string) string {
	nodes := append([]string{
		fmt.Sprintf(`"1":{"class_type":"EmptyImage","inputs":{"width":16,"height":8,"batch_size":%d,"color":255}}`, batch),
		`"2":{"class_type":"SaveImage","inputs":{"filename_prefix":"t","images":` + images + `}}`,
	}, more...)
	return "{" + strings.Join(nodes, ",") + "}"
}

func png(body []byte) bool { return bytes.HasPrefix(body, []byte("\x89PNG")) }

// stored lists the files that the worker keeps as inputs.
func stored(r *rig) []string {
	found, err := filepath.Glob(filepath.Join(r.dir, "worker", "uploads", "upload_*"))
	must(r, err)
	return found
}
