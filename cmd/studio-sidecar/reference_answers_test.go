package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

var record = flag.Bool("record", false, "write the reference's answers anew, from the installed comfygit-studio")

// exchangeOf is a request and what the reference answers. The method RESTART
// ends the server and starts it on the same state.
type exchangeOf struct {
	Area    string          `json:"area"`
	Server  string          `json:"server,omitempty"` // empty: one with a ComfyUI
	Method  string          `json:"method"`
	Path    string          `json:"path"`
	Body    json.RawMessage `json:"body,omitempty"` // a text is sent as it is
	Headers []string        `json:"headers,omitempty"`
	// Until is the status that the run has to have; it is asked for again.
	Until string `json:"until,omitempty"`
	// Differs are the members in which this server's answer is another one on
	// purpose, each with the number in docs/differences.md.
	Differs map[string]string `json:"differs,omitempty"`

	Status int             `json:"status"`
	Answer json.RawMessage `json:"answer,omitempty"`
}

var answersFile = filepath.Join("testdata", "reference", "answers.json")

// TestReferenceAnswers: this server answers as the reference did, member by
// member, with additions of its own.
func TestReferenceAnswers(t *testing.T) {
	raw, err := os.ReadFile(answersFile)
	if err != nil {
		t.Fatal(err)
	}
	var list []exchangeOf
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	p := newPlayer(t)
	areas := map[string]int{}
	for i := range list {
		e := &list[i]
		areas[e.Area]++
		status, answer := p.play(*e)
		if *record {
			e.Status, e.Answer = status, answer
			continue
		}
		name := fmt.Sprintf("%d %s: %s %s", i, e.Area, e.Method, e.Path)
		if want := e.Differs["status"]; want == "" && status != e.Status {
			t.Errorf("%s: %d, want %d: %s", name, status, e.Status, answer)
		}
		var got, want any
		if len(e.Answer) > 0 {
			decodeAs(t, e.Answer, &want)
			decodeAs(t, answer, &got)
			for _, diff := range missing("", want, got, e.Differs) {
				t.Errorf("%s: %s", name, diff)
			}
		}
	}
	t.Logf("%d exchanges: %v", len(list), areas)
	if *record {
		var out bytes.Buffer
		enc := json.NewEncoder(&out)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", " ")
		if err := enc.Encode(list); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(answersFile, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func decodeAs(t *testing.T, raw []byte, into *any) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(into); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
}

// missing lists where got is not what want says. Members beside it are fine.
func missing(at string, want, got any, differs map[string]string) []string {
	if differs[strings.TrimPrefix(at, ".")] != "" || strings.HasSuffix(at, ".updatedAt") && want == "" {
		return nil
	}
	var out []string
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return []string{fmt.Sprintf("%s is %v", at, got)}
		}
		for name, value := range w {
			other, there := g[name]
			if !there && differs[strings.TrimPrefix(at+"."+name, ".")] == "" {
				out = append(out, at+"."+name+" is missing")
				continue
			}
			out = append(out, missing(at+"."+name, value, other, differs)...)
		}
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return []string{fmt.Sprintf("%s: %d elements, want %d", at, len(g), len(w))}
		}
		for i := range w {
			out = append(out, missing(fmt.Sprintf("%s[%d]", at, i), w[i], g[i], differs)...)
		}
	default:
		if got != want {
			out = append(out, fmt.Sprintf("%s is %v, want %v", at, got, want))
		}
	}
	slices.Sort(out)
	return out
}

// player sends the exchanges to servers of one kind.
type player struct {
	t       *testing.T
	servers map[string]string
	again   map[string]func() string // starts a server anew
	known   map[string]string        // what earlier answers held
}

func newPlayer(t *testing.T) *player {
	_, comfy := startFake(t, comfyfake.Options{StepDelay: time.Millisecond})
	p := &player{t: t, servers: map[string]string{}, again: map[string]func() string{}, known: map[string]string{}}
	for name, c := range map[string]struct {
		comfy string
		set   map[string]any
		flags []string
	}{
		"":       {comfy, map[string]any{"state": "ephemeral"}, []string{"--state", "ephemeral"}},
		"kept":   {comfy, map[string]any{"state": "local", "state_db": filepath.Join(t.TempDir(), "state.sqlite")}, []string{"--state", "local", "--state-db", filepath.Join(t.TempDir(), "state.sqlite")}},
		"down":   {"http://127.0.0.1:1", nil, []string{"--state", "ephemeral"}},
		"worker": {comfy, map[string]any{"role": "proxy", "proxy_token": "tok"}, []string{"--state", "ephemeral", "--role", "proxy", "--proxy-token", "tok"}},
		"front":  {"http://127.0.0.1:1", map[string]any{"executor": "proxy", "proxy_url": "http://127.0.0.1:1", "callback_url": "http://127.0.0.1:2", "callback_token": "cb"}, []string{"--state", "ephemeral", "--executor", "proxy", "--proxy-url", "http://127.0.0.1:1", "--callback-url", "http://127.0.0.1:2", "--callback-token", "cb"}},
	} {
		workspace, env := lay(t)
		end := func() {}
		p.again[name] = func() string {
			end()
			if *record {
				base, stop := startReference(t, workspace, c.comfy, c.set)
				end = stop
				return base
			}
			server := start(t, env, c.comfy, c.flags...)
			end = func() { server.end(syscall.SIGINT) }
			return server.url
		}
		p.servers[name] = p.again[name]()
	}
	return p
}

// fill puts what earlier answers held in place of {run} and the like.
func (p *player) fill(text string) string {
	for name, value := range p.known {
		text = strings.ReplaceAll(text, "{"+name+"}", value)
	}
	return text
}

func (p *player) play(e exchangeOf) (int, json.RawMessage) {
	p.t.Helper()
	if e.Method == "RESTART" {
		p.servers[e.Server] = p.again[e.Server]()
		return 0, nil
	}
	body := string(e.Body)
	var plain string
	if json.Unmarshal(e.Body, &plain) == nil {
		body = plain
	}
	send := func() answer {
		return exchange(p.t, e.Method, p.servers[e.Server]+p.fill(e.Path), p.fill(body), e.Headers...)
	}
	a := send()
	if e.Until != "" {
		eventually(p.t, patience, "a run that is "+e.Until, func() bool {
			a = send()
			return strings.Contains(string(a.body), `"status": "`+e.Until+`"`) || strings.Contains(string(a.body), `"status":"`+e.Until+`"`)
		})
	}
	var doc map[string]any
	if json.Unmarshal(a.body, &doc) != nil {
		return a.status, nil
	}
	p.learn(doc)
	masked := a.body
	for _, m := range answerMasks {
		masked = m.form.ReplaceAll(masked, []byte(m.mask))
	}
	return a.status, masked
}

func (p *player) learn(doc map[string]any) {
	for name, member := range map[string]string{"run": "run_id", "upload": "upload_id", "upload_url": "upload_url", "prompt": "prompt_id"} {
		if text, ok := doc[member].(string); ok {
			p.known[name] = text
		}
	}
	for _, list := range []string{"gallery_items", "items"} {
		if items, ok := doc[list].([]any); ok && len(items) > 0 {
			item := items[0].(map[string]any)
			p.known["item"], _ = item["id"].(string)
			p.known["view"], _ = item["url"].(string)
		}
	}
}

// answerMasks stand for what differs from run to run.
var answerMasks = []struct {
	form *regexp.Regexp
	mask string
}{
	{regexp.MustCompile(`run_[0-9a-f]{32}`), "run_ID"},
	{regexp.MustCompile(`gallery_[0-9a-f]{32}`), "gallery_ID"},
	{regexp.MustCompile(`upload_[0-9a-f]{32}`), "upload_ID"},
	{regexp.MustCompile(`comfygit-upload-[0-9a-f]{32}`), "comfygit-upload-ID"},
	{regexp.MustCompile(`"next_cursor": ?"[A-Za-z0-9_-]+"`), `"next_cursor": "CURSOR"`},
	{regexp.MustCompile(`anon_[0-9a-f]{32}`), "anon_ID"},
	{regexp.MustCompile(`token=[A-Za-z0-9_-]{43}`), "token=TOKEN"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "PROMPT"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`), "TIME"},
	{regexp.MustCompile(`_[0-9a-f]{10}_`), "_CACHE_"},
	{regexp.MustCompile(`http://127\.0\.0\.1:\d+`), "http://HOST"},
	{regexp.MustCompile(`"timestamp": ?\d+`), `"timestamp": 0`},
}
