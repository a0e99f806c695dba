package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/comfygit-ai/studio-sidecar/internal/need"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

// referencePackage is the folder of the installed comfygit-studio, and the
// Python that has it. STUDIO_REFERENCE_PYTHON may name that Python.
func referencePackage(t *testing.T) (python, dir string) {
	t.Helper()
	python = os.Getenv("STUDIO_REFERENCE_PYTHON")
	if python == "" {
		python = need.Command(t, "python3")
	}
	out, err := exec.Command(python, "-c", "import comfygit_studio; print(comfygit_studio.__path__[0])").Output()
	need.That(t, err == nil, "the Python package comfygit-studio 0.5.0")
	return python, strings.TrimSpace(string(out))
}

// lay writes the demo's contracts as an environment in a workspace that the
// reference opens, and returns the workspace and the environment's folder.
func lay(t *testing.T) (workspace, env string) {
	t.Helper()
	workspace = t.TempDir()
	env = filepath.Join(workspace, "environments", "demo")
	put := func(path, content string) {
		path = filepath.Join(workspace, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	models := filepath.Join(workspace, "models")
	put("models/none", "")
	put(".metadata/version", "1")
	put(".metadata/workspace.json", `{"version": 1, "active_environment": "", "created_at": "2026-01-01T00:00:00", "global_model_directory":
		{"path": `+strconv.Quote(models)+`, "added_at": "2026-01-01T00:00:00", "last_sync": "2026-01-01T00:00:00"}}`)
	put("comfygit_cache/custom_nodes/node_mappings.json", `{"version": "1", "generated_at": "2026-01-01T00:00:00", "stats": {}, "mappings": {}, "packages": {}}`)
	for _, folder := range []string{"input", "output"} {
		put("environments/demo/ComfyUI/"+folder+"/none", "")
	}
	put("environments/demo/.complete", "")
	put("environments/demo/.cec/.complete", "")
	demo, err := layDemo(t.TempDir())
	if err == nil {
		err = os.CopyFS(filepath.Join(env, ".cec"), os.DirFS(demo.Dir))
	}
	if err != nil {
		t.Fatal(err)
	}
	return workspace, env
}

// startReference runs the reference on a workspace until the test ends or stop
// is called, and returns its address. set are further fields of its
// configuration.
func startReference(t *testing.T, workspace, comfy string, set map[string]any) (base string, stop func()) {
	t.Helper()
	python, _ := referencePackage(t)
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	base = "http://127.0.0.1:" + port
	config := map[string]any{
		"workspace": workspace, "environment": "demo", "host": "127.0.0.1", "port": number, "comfy_url": comfy, "artifact_dir": t.TempDir(),
	}
	for name, value := range set {
		config[name] = value
	}
	if config["callback_url"] == "self" {
		config["callback_url"] = base
	}
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, filepath.Join("testdata", "reference", "serve.py"), string(text))
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Env = &said, &said, append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGKILL)
		<-ended
		if t.Failed() {
			t.Logf("the reference says:\n%s", said.Bytes())
		}
	})
	t.Cleanup(stop)
	path := "/health"
	if config["role"] == "proxy" {
		path = "/proxy/health"
	}
	eventually(t, patience, "the reference answers", func() bool {
		resp, err := http.Get(base + path)
		if err != nil {
			return false
		}
		return resp.Body.Close() == nil
	})
	return base, stop
}

// exchange makes one request and reads its answer.
func exchange(t *testing.T, method, url, body string, headers ...string) answer {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-ComfyGit-Studio-Session", "anna")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, raw}
}

// told is what a server says of a run.
type told struct {
	RunID  string `json:"run_id"`
	Status string `json:"status"`
	Error  string `json:"error"`
	Run    struct {
		Status string `json:"status"`
		Error  string `json:"error"`
	} `json:"run"`
	Items []struct {
		URL    string `json:"url"`
		Status string `json:"status"`
		Width  int    `json:"width"`
	} `json:"gallery_items"`
}

// within asks for a run until it is as wanted.
func within(t *testing.T, base, run, status string) (last told) {
	t.Helper()
	eventually(t, patience, "run "+run+" is "+status, func() bool {
		last = told{}
		exchange(t, "GET", base+"/runs/"+run, "").decode(t, &last)
		return last.Run.Status == status
	})
	return last
}

const smallPainting = `{"inputs": {"seed": 7, "steps": 2, "width": 64, "height": 64}, "poll_interval_seconds": 0.05, "wait": `

// TestPairsWithTheReference: a front door and a worker, of which one is the
// reference's.
func TestPairsWithTheReference(t *testing.T) {
	referencePackage(t)
	const token = "a token"
	type server func(t *testing.T, comfy, worker, token string, callbacks bool) string
	ours := func(t *testing.T, comfy, worker, token string, callbacks bool) string {
		_, env := lay(t)
		port, err := freePort()
		if err != nil {
			t.Fatal(err)
		}
		flags := []string{"--state", "ephemeral", "--proxy-token", token, "--port", port}
		switch {
		case worker == "":
			flags = append(flags, "--role", "proxy")
		case callbacks:
			flags = append(flags, "--executor", "proxy", "--proxy-url", worker, "--callback-url", "http://127.0.0.1:"+port)
		default:
			flags = append(flags, "--executor", "proxy", "--proxy-url", worker)
		}
		return start(t, env, comfy, flags...).url
	}
	theirs := func(t *testing.T, comfy, worker, token string, callbacks bool) string {
		workspace, _ := lay(t)
		set := map[string]any{"proxy_token": token}
		switch {
		case worker == "":
			set["role"] = "proxy"
		case callbacks:
			set["executor"], set["proxy_url"], set["callback_url"] = "proxy", worker, "self"
		default:
			set["executor"], set["proxy_url"] = "proxy", worker
		}
		base, _ := startReference(t, workspace, comfy, set)
		return base
	}
	for name, pair := range map[string]struct{ front, worker server }{
		"our_front_door_their_worker": {ours, theirs}, "their_front_door_our_worker": {theirs, ours},
	} {
		t.Run(name, func(t *testing.T) {
			fake, comfy := startFake(t, comfyfake.Options{StepDelay: 5 * time.Millisecond})
			t.Cleanup(fake.Release)
			worker := pair.worker(t, comfy, "", token, false)
			for _, callbacks := range []bool{false, true} {
				seen, looks := counted(t, worker)
				front := pair.front(t, "http://127.0.0.1:1", seen, token, callbacks)
				what := map[bool]string{false: "polled", true: "called_back"}[callbacks]
				t.Run(what+"/waited", func(t *testing.T) { pairRuns(t, front, true) })
				t.Run(what+"/background", func(t *testing.T) { pairRuns(t, front, false) })
				t.Run(what+"/cancelled", func(t *testing.T) {
					fake.Hold()
					defer fake.Release()
					pairCancels(t, front, comfy, func() bool { return callbacks || looks.Swap(0) > 0 })
				})
			}
			t.Run("wrong_token", func(t *testing.T) {
				front := pair.front(t, "http://127.0.0.1:1", worker, "another", false)
				a := exchange(t, "POST", front+"/contracts/painting/default/run", smallPainting+`true}`)
				var said told
				a.decode(t, &said)
				if a.status != http.StatusBadGateway || said.Error != "proxy_unauthorized" && said.Error != "comfyui_rejected_request" {
					t.Errorf("%d %s", a.status, a.body)
				}
			})
		})
	}
}

func pairRuns(t *testing.T, front string, wait bool) {
	a := exchange(t, "POST", front+"/contracts/painting/default/run", smallPainting+strconv.FormatBool(wait)+`}`)
	var run told
	a.decode(t, &run)
	if a.status != http.StatusOK || wait && run.Status != "completed" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	run = within(t, front, run.RunID, "completed")
	if len(run.Items) != 1 || run.Items[0].Status != "done" || run.Items[0].Width != 64 {
		t.Fatalf("items %+v", run.Items)
	}
	if picture := exchange(t, "GET", front+run.Items[0].URL, ""); picture.status != http.StatusOK || !bytes.HasPrefix(picture.body, []byte("\x89PNG")) {
		t.Errorf("%s: %d, %d bytes", run.Items[0].URL, picture.status, len(picture.body))
	}
}

// counted is a worker's address that counts the looks at runs which it answered.
func counted(t *testing.T, worker string) (address string, looks *atomic.Int64) {
	target, err := url.Parse(worker)
	if err != nil {
		t.Fatal(err)
	}
	looks = &atomic.Int64{}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ModifyResponse = func(a *http.Response) error {
		if a.Request.Method == http.MethodGet && strings.HasPrefix(a.Request.URL.Path, "/proxy/runs/") {
			looks.Add(1)
		}
		return nil
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return server.URL, looks
}

// pairCancels cancels a run that the front door has looked at: the reference
// takes for completed what it finds cancelled at a look, if that comes before it
// has written down the cancel itself. It looks no more until the test has ended.
func pairCancels(t *testing.T, front, comfy string, looked func() bool) {
	var run told
	looked() // those before do not count
	seldom := strings.Replace(smallPainting, `"poll_interval_seconds": 0.05`, `"poll_interval_seconds": 60`, 1)
	exchange(t, "POST", front+"/contracts/painting/default/run", seldom+`false}`).decode(t, &run)
	eventually(t, patience, "ComfyUI runs it", func() bool { return !idle(t, context.Background(), comfy) })
	eventually(t, patience, "the front door has looked", looked)
	a := exchange(t, "POST", front+"/runs/"+run.RunID+"/cancel", "")
	if a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	within(t, front, run.RunID, "cancelled")
	eventually(t, 10*time.Second, "ComfyUI let go of it", func() bool { return idle(t, context.Background(), comfy) })
}
