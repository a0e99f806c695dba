package comfy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfy"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const base = "http://comfy:8188"

// rig is an executor on a fake, both in one bubble.
type rig struct {
	*testing.T
	fake *comfyfake.Server
	dial func(ctx context.Context, network, address string) (net.Conn, error)
	exec *comfy.Executor
	news *news
	stop func()
}

// bubble serves a fake and gives test an executor on it. Every goroutine must
// have ended with the test.
func bubble(t *testing.T, fo comfyfake.Options, o comfy.Options, test func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l, dial := comfyfake.Pipe()
		fake := comfyfake.New(fo)
		served := make(chan error, 1)
		go func() { served <- fake.Serve(l) }()
		o.URL, o.DialContext = base, dial
		r := &rig{T: t, fake: fake, dial: dial, exec: comfy.New(o), stop: func() {}}
		defer func() {
			r.stop()
			r.exec.Close()
			if err := fake.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			if err := <-served; err != nil {
				t.Errorf("serve: %v", err)
			}
		}()
		synctest.Wait()
		test(r)
	})
}

// watch begins to collect news and waits for the first socket.
func (r *rig) watch() {
	r.Helper()
	r.listen()
	synctest.Wait()
	if r.news.count(sidecar.NewsConnected) != 1 {
		r.Fatal("no socket")
	}
}

func (r *rig) listen() {
	ctx, cancel := context.WithCancel(r.Context())
	r.news = &news{}
	done := make(chan error, 1)
	go func() { done <- r.exec.Watch(ctx, r.news.report) }()
	r.stop = func() {
		cancel()
		if err := <-done; err != context.Canceled {
			r.Errorf("Watch = %v", err)
		}
		r.stop = func() {}
	}
}

// scripted serves handler in a bubble and gives test an executor on it.
func scripted(t *testing.T, handler http.Handler, o comfy.Options, test func(*testing.T, *comfy.Executor)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l, dial := comfyfake.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		srv := &http.Server{Handler: handler, BaseContext: func(net.Listener) context.Context { return ctx }}
		served := make(chan error, 1)
		go func() { served <- srv.Serve(l) }()
		o.URL, o.DialContext = base, dial
		exec := comfy.New(o)
		defer func() {
			cancel() // ends handlers that hijacked their connection
			exec.Close()
			if err := srv.Close(); err != nil {
				t.Error(err)
			}
			<-served
		}()
		test(t, exec)
	})
}

// news collects what Watch reports.
type news struct {
	mu   sync.Mutex
	list []sidecar.News
}

func (n *news) report(item sidecar.News) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list, item)
}

func (n *news) all() []sidecar.News {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]sidecar.News{}, n.list...)
}

func (n *news) of(kind sidecar.NewsKind) []sidecar.News {
	var list []sidecar.News
	for _, item := range n.all() {
		if item.Kind == kind {
			list = append(list, item)
		}
	}
	return list
}

func (n *news) count(kind sidecar.NewsKind) int { return len(n.of(kind)) }

// line is the news of one prompt in short: "started node:1 node_done:1 …",
// repeats of progress and preview left out.
func (n *news) line(prompt sidecar.PromptID) string {
	var words []string
	for _, item := range n.all() {
		if item.Prompt != prompt {
			continue
		}
		word := string(item.Kind)
		switch item.Kind {
		case sidecar.NewsNode, sidecar.NewsNodeDone:
			word += ":" + string(item.Node.ID)
		case sidecar.NewsCached:
			word += fmt.Sprint(":", len(item.Nodes))
		}
		if len(words) == 0 || words[len(words)-1] != word {
			words = append(words, word)
		}
	}
	return strings.Join(words, " ")
}

const (
	promptA = sidecar.PromptID("aaaaaaaa-0000-4000-8000-000000000001")
	promptB = sidecar.PromptID("bbbbbbbb-0000-4000-8000-000000000002")
)

// picture is a graph that saves a picture of that colour; different colours
// are never cached.
func picture(colour int) string {
	return fmt.Sprintf(`{"1":{"class_type":"EmptyImage","inputs":{"width":64,"height":48,"batch_size":1,"color":%d},"_meta":{"title":"Ground"}},`+
		`"2":{"class_type":"SaveImage","inputs":{"images":["1",0],"filename_prefix":"t"}}}`, colour)
}

// slow is a graph that takes some steps.
func slow(steps int) string {
	return fmt.Sprintf(`{"1":{"class_type":"EmptyImage","inputs":{"width":8,"height":8,"batch_size":1,"color":%d}},`+
		`"2":{"class_type":"TrialSlow","inputs":{"image":["1",0],"steps":%d}},`+
		`"3":{"class_type":"SaveImage","inputs":{"images":["2",0],"filename_prefix":"t"}}}`, steps, steps)
}

func job(prompt sidecar.PromptID, graph string, outputs ...manifest.Output) sidecar.Job {
	if outputs == nil {
		outputs = []manifest.Output{{Name: "image", Type: "image", NodeID: "2"}}
	}
	return sidecar.Job{
		Run: sidecar.RunID("run_" + strings.ReplaceAll(string(prompt), "-", "")), Prompt: prompt,
		Graph: json.RawMessage(graph), Outputs: outputs,
	}
}

func (r *rig) submit(j sidecar.Job) sidecar.Acceptance {
	r.Helper()
	a, err := r.exec.Submit(r.Context(), j)
	if err != nil {
		r.Fatalf("submit: %v", err)
	}
	return a
}

func (r *rig) look(j sidecar.Job) sidecar.Sighting {
	r.Helper()
	s, err := r.exec.Look(r.Context(), j)
	if err != nil {
		r.Fatalf("look: %v", err)
	}
	return s
}

// await looks until the prompt is somewhere.
func (r *rig) await(j sidecar.Job, want sidecar.Place) sidecar.Sighting {
	r.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		seen := r.look(j)
		if seen.Place == want {
			return seen
		}
		if time.Now().After(deadline) {
			r.Fatalf("prompt is %s, want %s", seen.Place, want)
		}
		r.pass(20 * time.Millisecond)
	}
}

// interrupt cancels a running prompt until it has stopped: ComfyUI loses an interrupt
// that comes between taking a prompt and beginning it.
func (r *rig) interrupt(j sidecar.Job) {
	r.Helper()
	for range 10 {
		if err := r.exec.Cancel(r.Context(), j); err != nil {
			r.Fatal(err)
		}
		r.pass(150 * time.Millisecond)
		if seen := r.look(j); seen.Place == sidecar.PlaceStopped {
			return
		}
	}
	r.Fatal("the prompt does not stop")
}

// pass lets time go by in the bubble.
func (r *rig) pass(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

// requests counts what ComfyUI was asked.
func (r *rig) requests(method, path string) []comfyfake.Request {
	var list []comfyfake.Request
	for _, req := range r.fake.Requests() {
		if req.Method == method && strings.HasPrefix(req.Path, path) {
			list = append(list, req)
		}
	}
	return list
}

// stuck dials into nowhere.
func stuck(ctx context.Context, _, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
