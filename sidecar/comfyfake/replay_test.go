package comfyfake_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

// recording is what a real ComfyUI and a client said to each other.
type recording struct {
	Title  string
	Base   string
	Events []step
}

// step is one of: an exchange, a socket's opening or closing, a message sent
// or received.
type step struct {
	Request *struct {
		Method, Path string
		Headers      map[string]string
		JSON         json.RawMessage
		Raw          *string
		Form         map[string]json.RawMessage
	}
	Response *struct {
		Status  int
		Headers map[string]string
		JSON    json.RawMessage
		Text    *string
	}
	Open, Path string
	SID        string
	Status     int
	Close      string
	Send       string
	Data       json.RawMessage
	Message    string
	JSON       json.RawMessage
	Frame      *int
	Meta       json.RawMessage
}

// TestReplay holds the fake to recordings of both generations: every answer
// and, for each socket and prompt, every message in order.
func TestReplay(t *testing.T) {
	for dir, gen := range map[string]comfyfake.Generation{"0.3.64": comfyfake.V0_3_64, "0.33.0": comfyfake.V0_33_0} {
		files, err := filepath.Glob(filepath.Join("testdata", dir, "*.json"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no recordings of %s: %v", dir, err)
		}
		for _, file := range files {
			name := strings.TrimSuffix(filepath.Base(file), ".json")
			t.Run(dir+"/"+name, func(t *testing.T) {
				data, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				var rec recording
				if err := json.Unmarshal(data, &rec); err != nil {
					t.Fatal(err)
				}
				within(t, comfyfake.Options{Generation: gen}, func(g *rig) {
					p := &replay{rig: g, host: strings.TrimPrefix(rec.Base, "http://"), ids: map[string]string{},
						sockets: map[string]*listener{}, skipped: map[string]bool{}, want: map[string][]string{}}
					p.run(rec)
				})
			})
		}
	}
}

type replay struct {
	*rig
	host    string
	ids     map[string]string // recorded prompt id to the fake's
	skipped map[string]bool   // recorded prompt ids that were not replayed
	sockets map[string]*listener
	want    map[string][]string // by socket and recorded prompt
}

type listener struct {
	conn *websocket.Conn
	done chan []string
	got  []string
}

func (p *replay) run(rec recording) {
	for i, s := range rec.Events {
		switch {
		case s.Request != nil:
			p.exchange(i, s)
		case s.Open != "":
			p.open(s)
		case s.Close != "":
			p.shut(s.Close)
		case s.Send != "":
			if err := p.sockets[s.Send].conn.Write(p.t.Context(), websocket.MessageText, s.Data); err != nil {
				p.t.Errorf("step %d: send: %v", i, err)
			}
		case s.Message != "":
			p.expect(s)
		}
		synctest.Wait()
	}
	for _, ws := range slices.Sorted(maps.Keys(p.sockets)) {
		p.shut(ws)
	}
	p.compareMessages()
}

func (p *replay) open(s step) {
	req := &websocket.DialOptions{HTTPClient: p.client, Host: p.host}
	conn, resp, err := websocket.Dial(p.t.Context(), "ws://"+p.host+s.Path, req)
	if err != nil {
		if resp == nil || resp.StatusCode != s.Status {
			p.t.Errorf("open %s: %v", s.Path, err)
		}
		return
	}
	conn.SetReadLimit(1 << 26)
	l := &listener{conn: conn, done: make(chan []string, 1)}
	p.sockets[s.Open] = l
	first := read(p.t, conn)
	if sid, ok := first.Data["sid"].(string); ok && first.Type == "status" && s.SID != "" && sid != s.SID {
		p.ids[s.SID] = sid
	}
	go func() {
		var got []string
		for {
			kind, data, err := conn.Read(p.t.Context())
			if err != nil {
				l.done <- got
				return
			}
			got = append(got, p.heard(kind, data))
		}
	}()
	synctest.Wait()
}

func (p *replay) shut(ws string) {
	l := p.sockets[ws]
	if l == nil || l.conn == nil {
		return
	}
	l.conn.CloseNow() // the far end may be gone
	l.got = <-l.done
	l.conn = nil
}

// heard is a message as text, a frame by its kind and metadata.
func (p *replay) heard(kind websocket.MessageType, data []byte) string {
	if kind == websocket.MessageText {
		return string(data)
	}
	meta := "null"
	if data[3] == 4 {
		n := int(data[6])<<8 | int(data[7])
		meta = string(data[8 : 8+n])
	}
	return fmt.Sprintf(`{"frame":%d,"meta":%s}`, data[3], meta)
}

func (p *replay) expect(s step) {
	text := string(s.JSON)
	if s.Frame != nil {
		meta := string(s.Meta)
		if meta == "" {
			meta = "null"
		}
		text = fmt.Sprintf(`{"frame":%d,"meta":%s}`, *s.Frame, meta)
	}
	p.want[s.Message] = append(p.want[s.Message], text)
}

// compareMessages compares what each socket got of each prompt. A socket that
// took over another's id has a list of its own.
func (p *replay) compareMessages() {
	for ws, l := range p.sockets {
		want, got := p.byPrompt(p.want[ws], true), p.byPrompt(l.got, false)
		if d := cmp.Diff(want, got); d != "" {
			p.t.Errorf("messages on socket %s (-real +fake):\n%s", ws, d)
		}
	}
}

var promptID = regexp.MustCompile(`"prompt_id": ?"([^"]*)"`)

func (p *replay) byPrompt(messages []string, recorded bool) map[string][]string {
	out := map[string][]string{}
	back := map[string]string{}
	for real, fake := range p.ids {
		back[fake] = real
	}
	for _, m := range messages {
		found := promptID.FindStringSubmatch(m)
		id := ""
		if found != nil {
			id = found[1]
		}
		if strings.Contains(m, `"type": "status"`) || p.skipped[id] {
			continue
		}
		if !recorded && back[id] != "" {
			m = strings.ReplaceAll(m, id, back[id])
			id = back[id]
		}
		out[id] = append(out[id], normal(p.t, []byte(m)))
	}
	return out
}

// exchange repeats a request and compares the answer.
func (p *replay) exchange(i int, s step) {
	want := s.Response
	resp, body, err := p.send(s)
	if err != nil {
		p.t.Errorf("step %d: %s %s: %v", i, s.Request.Method, s.Request.Path, err)
		return
	}
	at := fmt.Sprintf("step %d: %s %s %.300s", i, s.Request.Method, s.Request.Path, s.Request.JSON)
	if resp.StatusCode != want.Status {
		p.t.Errorf("%s: status %d, the real one gives %d: %.300s", at, resp.StatusCode, want.Status, body)
		return
	}
	p.learn(want.JSON, body)
	if resp.StatusCode != http.StatusNotModified { // net/http sends no type with it
		p.compareHeaders(at, want.Headers, resp.Header)
	}
	switch {
	case strings.Contains(s.Request.Path, "/view?"): // the files' bytes are not recorded
	case bytes.HasPrefix(want.JSON, []byte(`"<entries`)):
		p.compareKeys(at, string(want.JSON), body)
	case len(want.JSON) > 0:
		text := string(body)
		for real, fake := range p.ids {
			text = strings.ReplaceAll(text, fake, real)
		}
		if d := cmp.Diff(normal(p.t, want.JSON), normal(p.t, []byte(text))); d != "" {
			p.t.Errorf("%s (-real +fake):\n%s", at, d)
		}
	case want.Text != nil && *want.Text != string(body):
		p.t.Errorf("%s: body %q, the real one gives %q", at, body, *want.Text)
	}
}

// compareKeys compares a long history of which only the ids were recorded.
func (p *replay) compareKeys(at, want string, body []byte) {
	p.t.Helper()
	d := json.NewDecoder(bytes.NewReader(body))
	var keys []string
	for depth := 0; ; {
		tok, err := d.Token()
		if err != nil {
			break
		}
		switch tok {
		case json.Delim('{'), json.Delim('['):
			depth++
			continue
		case json.Delim('}'), json.Delim(']'):
			depth--
			continue
		}
		if name, ok := tok.(string); ok && depth == 1 {
			keys = append(keys, "'"+name+"'")
		}
	}
	if got := `"<entries with keys [` + strings.Join(keys, ", ") + `]>"`; got != want {
		p.t.Errorf("%s: %s, the real one gives %s", at, got, want)
	}
}

// learn notes which id the fake gave where the real one gave another.
func (p *replay) learn(want json.RawMessage, body []byte) {
	var real, fake struct {
		ID string `json:"prompt_id"`
	}
	if json.Unmarshal(want, &real) == nil && json.Unmarshal(body, &fake) == nil && real.ID != "" && fake.ID != "" {
		p.ids[real.ID] = fake.ID
	}
}

// compareHeaders leaves out types of JSON answers with no recorded type, and
// what depends on how a picture was encoded.
func (p *replay) compareHeaders(at string, want map[string]string, got http.Header) {
	p.t.Helper()
	for _, k := range []string{"Content-Type", "Content-Disposition", "Accept-Ranges", "Content-Range", "Allow", "X-Content-Type-Options", "Vary", "Cache-Control"} {
		w := want[k]
		if w == "image/webp" || (k == "Content-Type" && strings.HasPrefix(w, "application/octet-stream") && want["Content-Disposition"] == "") {
			continue
		}
		if w != got.Get(k) {
			p.t.Errorf("%s: %s: %q, the real one gives %q", at, k, got.Get(k), w)
		}
	}
}

func (p *replay) send(s step) (*http.Response, []byte, error) {
	r := s.Request
	path := r.Path
	for real, fake := range p.ids {
		path = strings.ReplaceAll(path, real, fake)
	}
	body, kind := io.Reader(http.NoBody), ""
	switch {
	case r.Form != nil:
		body, kind = form(p.t, r.Form)
	case r.JSON != nil:
		text := string(r.JSON)
		for real, fake := range p.ids {
			text = strings.ReplaceAll(text, real, fake)
		}
		body, kind = strings.NewReader(text), "application/json"
	case r.Raw != nil:
		body = strings.NewReader(*r.Raw)
	}
	u, err := url.Parse("http://" + p.host + encode(path))
	if err != nil {
		return nil, nil, err
	}
	req := (&http.Request{Method: r.Method, URL: u, Host: p.host, Header: http.Header{}, Body: io.NopCloser(body), ContentLength: -1}).WithContext(p.t.Context())
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	for k, v := range r.Headers {
		req.Header.Set(k, v)
		if k == "Host" {
			req.Host = v
		}
	}
	p.freshTags(req)
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp, data, err
}

// encode keeps a recorded path as it is but for blanks.
func encode(path string) string { return strings.ReplaceAll(path, " ", "%20") }

// freshTags puts the fake's own tag and date in place of recorded ones.
func (p *replay) freshTags(req *http.Request) {
	fresh := func(k, v string) {
		head, err := http.NewRequestWithContext(p.t.Context(), http.MethodHead, req.URL.String(), nil)
		if err != nil {
			p.t.Fatal(err)
		}
		resp, err := p.client.Do(head)
		if err != nil {
			p.t.Fatal(err)
		}
		resp.Body.Close()
		req.Header.Set(k, resp.Header.Get(v))
	}
	for _, k := range []string{"If-Range", "If-None-Match", "If-Modified-Since"} {
		v := req.Header.Get(k)
		switch {
		case strings.HasPrefix(v, `"18ec`):
			fresh(k, "Etag")
		case strings.Contains(v, "2026"):
			fresh(k, "Last-Modified")
		}
	}
}
