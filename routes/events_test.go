package routes_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// message is one event of a stream; seq is 0 when it has no id.
type message struct {
	Seq  int64
	Name string
	Data string
}

// listener reads a stream.
type listener struct {
	t     testing.TB
	resp  *http.Response
	lines *bufio.Scanner
	close context.CancelFunc
}

func (r *rig) listen(path string, headers ...string) *listener {
	r.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
	req, err := http.NewRequestWithContext(ctx, "GET", r.server.URL+path, nil)
	must(r.t, err)
	req.Header.Set("X-ComfyGit-Studio-Session", "anna")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := r.server.Client().Do(req)
	must(r.t, err)
	if resp.StatusCode != http.StatusOK {
		r.t.Fatalf("%s: %d", path, resp.StatusCode)
	}
	l := &listener{r.t, resp, bufio.NewScanner(resp.Body), stop}
	l.lines.Buffer(nil, 1<<20)
	r.t.Cleanup(l.leave)
	return l
}

func (l *listener) leave() {
	l.close()
	_ = l.resp.Body.Close()
}

// next reads one block; ok is false at the end of the stream.
func (l *listener) next() (m message, ok bool) {
	seen := false
	for l.lines.Scan() {
		line := l.lines.Text()
		if line == "" {
			if seen {
				return m, true
			}
			continue
		}
		seen = true
		name, value, _ := strings.Cut(line, ": ")
		switch name {
		case "id":
			m.Seq, _ = strconv.ParseInt(value, 10, 64)
		case "event":
			m.Name = value
		case "data":
			m.Data = value
		}
	}
	return m, false
}

// until collects the numbered events up to the one with that name.
func (l *listener) until(name string) []message {
	l.t.Helper()
	var got []message
	for {
		m, ok := l.next()
		if !ok {
			l.t.Fatalf("the stream ended before %s; it told %v", name, got)
		}
		if m.Name != "" && m.Seq > 0 {
			got = append(got, m)
		}
		if m.Name == name {
			return got
		}
	}
}

func TestStreamTellsOfARun(t *testing.T) {
	r := start(t)
	before := int64(r.studio.Head())
	l := r.listen("/events")
	if h := l.resp.Header; h.Get("Content-Type") != "text/event-stream; charset=utf-8" || h.Get("Cache-Control") != "no-cache" || h.Get("X-Accel-Buffering") != "no" {
		t.Errorf("headers %v", h)
	}
	hello, _ := l.next()
	if hello.Seq < before || hello.Seq > int64(r.studio.Head()) || hello.Name != "" {
		t.Errorf("the stream begins with %+v", hello)
	}
	id := r.run(`{"wait": true}`)["run_id"].(string)
	got := l.until("run_completed")
	var names []string
	last := hello.Seq
	for _, m := range got {
		if m.Seq <= last {
			t.Errorf("number %d after %d", m.Seq, last)
		}
		last = m.Seq
		if m.Name == "health_changed" {
			continue
		}
		names = append(names, m.Name)
		var doc struct {
			Run     string                     `json:"run_id"`
			Type    string                     `json:"type"`
			Targets map[string]json.RawMessage `json:"targets"`
		}
		if err := json.Unmarshal([]byte(m.Data), &doc); err != nil || doc.Run != id || doc.Type != m.Name || len(doc.Targets) == 0 {
			t.Errorf("%+v: %v", m, err)
		}
	}
	for _, want := range []string{"run_started", "run_progress", "run_output_completed", "run_completed"} {
		if !slices.Contains(names, want) {
			t.Errorf("no %s among %v", want, names)
		}
	}
}

// A reader that is cut anywhere and comes back has seen each event once.
func TestStreamResumesAnywhere(t *testing.T) {
	r := start(t)
	before := int64(r.studio.Head())
	whole := r.listen(fmt.Sprintf("/events?after=%d", before))
	id := r.run(`{"wait": true}`)["run_id"].(string)
	r.run(`{"wait": true, "width": 17}`)
	all := whole.until("run_completed")
	all = append(all, whole.until("run_completed")...)
	whole.leave()
	for cut := range all {
		at := strconv.FormatInt(all[cut].Seq, 10)
		for _, l := range []*listener{r.listen("/events?after=" + at), r.listen("/events?after=1", "Last-Event-ID", at)} {
			var rest []message
			for len(rest) < len(all)-cut-1 {
				m, ok := l.next()
				if !ok {
					t.Fatal("the stream ended")
				}
				if m.Name != "" && m.Seq > 0 {
					rest = append(rest, m)
				}
			}
			if diff := cmp.Diff(all[cut+1:], append([]message{}, rest...)); diff != "" && len(rest) > 0 {
				t.Errorf("after %s: %s", at, diff)
			}
			l.leave()
		}
	}
	t.Run("of_one_run", func(t *testing.T) {
		l := r.listen(fmt.Sprintf("/runs/%s/events?after=%d", id, before))
		for _, m := range l.until("run_completed") {
			if !strings.Contains(m.Data, id) {
				t.Errorf("another run's event: %v", m)
			}
		}
	})
}

func TestStreamsOfOthers(t *testing.T) {
	r := start(t)
	before := int64(r.studio.Head())
	id := r.run(`{"wait": true}`)["run_id"].(string)
	if a := r.get("/runs/"+id+"/events", "X-ComfyGit-Studio-Session", "other"); a.status != http.StatusNotFound {
		t.Errorf("a stranger follows the run: %d", a.status)
	}
	l := r.listen(fmt.Sprintf("/events?after=%d", before), "X-ComfyGit-Studio-Session", "other")
	must(t, r.store.Append(t.Context(), sidecar.Event{Type: sidecar.EventContractsChanged, At: time.Now(), Targets: json.RawMessage(`{"contracts":{}}`)}))
	for _, m := range l.until("contracts_changed") {
		if strings.Contains(m.Data, id) {
			t.Errorf("a stranger hears %v", m)
		}
	}
}

func TestStreamPositions(t *testing.T) {
	r := start(t)
	r.run(`{"wait": true}`)
	head := int64(r.studio.Head())
	for _, bad := range []string{"x", "-1", "1.5", "+1", "0x1", "99999999999999999999", "%20"} {
		if a := r.get("/events?after=" + bad); a.status != http.StatusBadRequest {
			t.Errorf("after=%s: %d", bad, a.status)
		}
	}
	if a := r.get("/events", "Last-Event-ID", "x"); a.status != http.StatusBadRequest {
		t.Errorf("Last-Event-ID x: %d", a.status)
	}
	l := r.listen(fmt.Sprintf("/events?after=%d", head+1000))
	if got := l.until("reset"); got[0].Seq != head || len(got) != 1 || !strings.Contains(got[0].Data, fmt.Sprintf(`"head":%d`, head)) {
		t.Errorf("beyond the head: %v", got)
	}
	r.run(`{"wait": true}`)
	if got := l.until("run_completed"); got[0].Seq != head+1 {
		t.Errorf("after the reset it goes on with %v", got[0])
	}
}

func TestStreamOfTrimmedEvents(t *testing.T) {
	r := start(t)
	r.trimmed.Store(true)
	r.run(`{"wait": true}`)
	l := r.listen("/events?after=0")
	got := l.until("reset")
	if len(got) != 1 || got[0].Seq == 0 || !strings.Contains(got[0].Data, "trimmed") {
		t.Errorf("%v", got)
	}
	r.trimmed.Store(false)
	r.run(`{"wait": true}`)
	if after := l.until("run_completed"); after[0].Seq <= got[0].Seq {
		t.Errorf("goes on with %v after %v", after[0], got[0])
	}
}

func TestProgressAndPreviews(t *testing.T) {
	r := setup{name: "demo", deaf: true}.start(t)
	eventually(t, "the studio listens", func() bool { return r.exec.report.Load() != nil })
	report := *r.exec.report.Load()
	report(sidecar.News{Kind: sidecar.NewsConnected, Epoch: 1})
	r.fake.Hold()
	defer r.fake.Release()
	doc := r.run(`{}`)
	id, prompt := doc["run_id"].(string), sidecar.PromptID(doc["prompt_id"].(string))
	address := "/runs/" + id + "/preview"
	if a := r.get(address); a.status != http.StatusNotFound || a.json(t)["hint"] == nil {
		t.Errorf("before any: %d %s", a.status, a.body)
	}
	l := r.listen("/runs/" + id + "/events")
	node := sidecar.NodeRef{ID: "7", Class: "KSampler", Title: "Make it"}
	for step := range 5 {
		report(sidecar.News{Kind: sidecar.NewsProgress, Epoch: 1, Prompt: prompt, Node: node, Progress: sidecar.Progress{
			Node: node, Value: float64(step + 1), Max: 5, Done: 1, Total: 3,
		}})
	}
	for {
		progress := l.first("progress")
		if progress.Seq != 0 {
			t.Fatalf("a passing value has a number: %+v", progress)
		}
		if strings.Contains(progress.Data, `"value":5,`) {
			want := `{"run_id":"` + id + `","node":{"id":"7","class_type":"KSampler","title":"Make it"},"value":5,"max":5,"done":1,"total":3,"stepped":["7"],"live":true}`
			if progress.Data != want {
				t.Errorf("%s\nwant %s", progress.Data, want)
			}
			break
		}
	}
	report(sidecar.News{Kind: sidecar.NewsPreview, Epoch: 1, Prompt: prompt, Preview: sidecar.Preview{Type: "image/jpeg", Data: []byte("picture")}})
	if m := l.first("preview"); m.Data != `{"run_id":"`+id+`","v":1}` || m.Seq != 0 {
		t.Errorf("%+v", m)
	}
	a := r.get(address + "?v=1")
	if a.status != 200 || string(a.body) != "picture" || a.header.Get("Content-Type") != "image/jpeg" || a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
	if a := r.get(address, "If-None-Match", a.header.Get("ETag")); a.status != http.StatusNotModified {
		t.Errorf("unchanged: %d", a.status)
	}
	if a := r.get(address, "X-ComfyGit-Studio-Session", "other"); a.status != http.StatusNotFound {
		t.Errorf("a stranger: %d", a.status)
	}
	shown := r.get("/runs/" + id).json(t)["run"].(map[string]any)
	if shown["live"] != true || shown["progress"].(map[string]any)["value"] != json.Number("5") {
		t.Errorf("the run shows %v", shown)
	}
}

// first reads up to the first event of that name, numbered or not.
func (l *listener) first(name string) message {
	l.t.Helper()
	for {
		m, ok := l.next()
		if !ok {
			l.t.Fatalf("the stream ended before %s", name)
		}
		if m.Name == name {
			return m
		}
	}
}

// One who does not read costs the others nothing.
func TestSlowReader(t *testing.T) {
	r := start(t)
	stuck := r.dialRaw()
	_, err := fmt.Fprint(stuck, "GET /events?after=0 HTTP/1.1\r\nHost: localhost\r\nX-ComfyGit-Studio-Session: anna\r\n\r\n")
	must(t, err)
	l := r.listen("/events")
	big := json.RawMessage(`{"contracts":"` + strings.Repeat("x", 200_000) + `"}`)
	for range 60 {
		must(t, r.store.Append(t.Context(), sidecar.Event{Type: sidecar.EventContractsChanged, At: time.Now(), Targets: big}))
	}
	last := int64(r.studio.Head())
	for {
		m, ok := l.next()
		if !ok {
			t.Fatal("the stream ended")
		}
		if m.Seq == last {
			break
		}
	}
	began := time.Now()
	if a := r.get("/runs"); a.status != 200 || time.Since(began) > 2*time.Second {
		t.Errorf("%d after %v", a.status, time.Since(began))
	}
}

func TestShutdownEndsStreams(t *testing.T) {
	r := start(t)
	var open []*listener
	for range 100 {
		open = append(open, r.listen("/events"))
	}
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	began := time.Now()
	must(t, r.server.Config.Shutdown(ctx))
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("Shutdown took %v", took)
	}
	for _, l := range open {
		for ok := true; ok; {
			_, ok = l.next()
		}
		l.leave()
	}
}
