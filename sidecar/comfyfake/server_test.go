package comfyfake_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

// rig is a served fake with a client over an in-memory listener.
type rig struct {
	t      *testing.T
	fake   *comfyfake.Server
	client *http.Client
}

// within runs test in a bubble with a served fake, and closes it.
func within(t *testing.T, o comfyfake.Options, test func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l, dial := comfyfake.Pipe()
		fake := comfyfake.New(o)
		served := make(chan error, 1)
		go func() { served <- fake.Serve(l) }()
		tr := &http.Transport{DialContext: dial}
		g := &rig{t: t, fake: fake, client: &http.Client{Transport: tr}}
		defer func() {
			tr.CloseIdleConnections()
			if err := fake.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			if err := <-served; err != nil {
				t.Errorf("serve: %v", err)
			}
		}()
		synctest.Wait()
		test(g)
	})
}

// answer is one HTTP answer, read to its end.
type answer struct {
	Status int
	Header http.Header
	Body   string
	Err    error
}

func (g *rig) do(method, path, body string, header ...string) answer {
	g.t.Helper()
	req, err := http.NewRequestWithContext(g.t.Context(), method, "http://fake:8188"+path, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := g.client.Do(req)
	if err != nil {
		return answer{Err: err}
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return answer{Status: resp.StatusCode, Header: resp.Header, Body: string(data), Err: err}
}

func (g *rig) get(path string) answer { g.t.Helper(); return g.do(http.MethodGet, path, "") }

func (g *rig) post(path, body string) answer {
	g.t.Helper()
	return g.do(http.MethodPost, path, body)
}

func (g *rig) dial(path string) *websocket.Conn {
	g.t.Helper()
	c, _, err := websocket.Dial(g.t.Context(), "ws://fake:8188"+path, &websocket.DialOptions{HTTPClient: g.client})
	if err != nil {
		g.t.Fatal(err)
	}
	c.SetReadLimit(64 << 20)
	return c
}

// event is one text message; Type is "frame 1" and so on for a binary one.
type event struct {
	Type string
	Data map[string]any
	Raw  []byte
}

func read(t *testing.T, c *websocket.Conn) event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	kind, data, err := c.Read(ctx)
	if err != nil {
		t.Fatalf("read socket: %v", err)
	}
	if kind == websocket.MessageBinary {
		return event{Type: "frame " + string('0'+data[3]), Raw: data}
	}
	var e event
	if err := json.Unmarshal(data, &e); err != nil {
		t.Fatal(err)
	}
	e.Raw = data
	return e
}

// until reads to the message of the given type, and for "executing" to the
// one that ends a run.
func until(t *testing.T, c *websocket.Conn, last string) []event {
	t.Helper()
	var all []event
	for {
		e := read(t, c)
		all = append(all, e)
		if e.Type == last && (last != "executing" || e.Data["node"] == nil) {
			return all
		}
	}
}

func types(events []event) string {
	var list []string
	for _, e := range events {
		list = append(list, e.Type)
	}
	return strings.Join(list, " ")
}

const (
	idA = "11111111-1111-4111-8111-111111111111"
	idB = "22222222-2222-4222-8222-222222222222"
)

// body is a POST /prompt; client "" means no client_id.
func body(id, client, graph string) string {
	b := `{"prompt":` + graph
	if id != "" {
		b += `,"prompt_id":"` + id + `"`
	}
	if client != "" {
		b += `,"client_id":"` + client + `"`
	}
	return b + "}"
}

// saveGraph makes one small picture; the prefix keeps graphs apart.
func saveGraph(prefix string) string {
	return `{"1":{"class_type":"EmptyImage","inputs":{"width":64,"height":48,"batch_size":1,"color":255}},"2":{"class_type":"SaveImage","inputs":{"images":["1",0],"filename_prefix":"` + prefix + `"}}}`
}

// between puts one node between a picture and its saving.
func between(node string) string {
	return `{"1":{"class_type":"EmptyImage","inputs":{"width":64,"height":48,"batch_size":1,"color":255}},"2":` + node + `,"3":{"class_type":"SaveImage","inputs":{"images":["2",0],"filename_prefix":"x"}}}`
}

const slow = `{"class_type":"TrialSlow","inputs":{"image":["1",0],"steps":4}}`

// submit posts and demands acceptance.
func (g *rig) submit(id, client, graph string) {
	g.t.Helper()
	if a := g.post("/prompt", body(id, client, graph)); a.Err != nil || a.Status != http.StatusOK {
		g.t.Fatalf("POST /prompt: %v %d %s", a.Err, a.Status, a.Body)
	}
}

// pass lets the bubble's clock go on.
func pass(d time.Duration) { <-time.After(d) }
