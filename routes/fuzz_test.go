package routes_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/comfygit-ai/studio-sidecar/internal/bounded"
	"github.com/comfygit-ai/studio-sidecar/routes"
)

// check asks the handler and holds its answer to what every answer keeps.
func (r *rig) check(t *testing.T, req *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	req.Host = "localhost"
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, req)
	if w.Code == http.StatusInternalServerError {
		t.Fatalf("%s %s: %s", req.Method, req.URL, w.Body)
	}
	if strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") && w.Body.Len() > 0 &&
		(!json.Valid(w.Body.Bytes()) || !utf8.Valid(w.Body.Bytes())) {
		t.Fatalf("%s %s answers with broken JSON: %q", req.Method, req.URL, w.Body)
	}
	return w
}

func FuzzRunBody(f *testing.F) {
	for _, seed := range []string{
		``, `null`, `{}`, `{"inputs": {"width": 64}}`, `{"wait": false, "timeout_seconds": 1e-9}`, `{"inputs": {"width": "\ud800"}}`,
		`{"timeout_seconds": "5"}`, "\ufeff{}", `{"a": [[[[]]]], "inputs": {"seed": 18446744073709551615}}`, `{"inputs":{"é":{"kind":"file_ref"}}}`,
	} {
		f.Add([]byte(seed))
	}
	r := start(f, func(o *routes.Options) { o.MaxRequestBytes = 64 << 10 })
	must(f, r.fake.Close()) // nothing is to run here
	f.Fuzz(func(t *testing.T, body []byte) {
		bounded.Input(t, func() {
			if bytes.Contains(body, []byte("wait")) && bytes.Contains(body, []byte("true")) {
				return // a wait takes its time
			}
			req := httptest.NewRequest("POST", runPath, bytes.NewReader(body))
			req.Header.Set("X-ComfyGit-Studio-Session", "fuzz")
			r.check(t, req)
			list := r.check(t, httptest.NewRequest("GET", "/gallery?limit=1", nil))
			if list.Code != http.StatusOK {
				t.Errorf("the gallery: %d", list.Code)
			}
		})
	})
}

func FuzzRange(f *testing.F) {
	for _, seed := range []string{"bytes=0-3", "bytes=-1", "bytes=5-2", "bytes=0-1,2-3", "items=1-2", "bytes=", "bytes=9223372036854775808-", "\x00"} {
		f.Add(seed)
	}
	r := start(f)
	must(f, os.MkdirAll(filepath.Join(r.artifacts, "p"), 0o755))
	must(f, os.WriteFile(filepath.Join(r.artifacts, "p", "a.txt"), []byte("0123456789"), 0o644))
	f.Fuzz(func(t *testing.T, header string) {
		bounded.Input(t, func() {
			req := httptest.NewRequest("GET", "/outputs/view?serve_artifact=p/a.txt", nil)
			req.Header["Range"] = []string{header}
			w := r.check(t, req)
			switch w.Code {
			case 200, 416:
			case 206:
				if w.Body.Len() > 10 || !strings.Contains("0123456789", w.Body.String()) {
					t.Errorf("%q gives %q", header, w.Body)
				}
			default:
				t.Errorf("%q: %d", header, w.Code)
			}
		})
	})
}

func FuzzCursor(f *testing.F) {
	for _, seed := range []string{"", "zzz", "eyJjcmVhdGVkX2F0IjoiMCIsIml0ZW1faWQiOiJ4IiwidiI6MX0", "e30", "W10", "bnVsbA", "===", "eyJ2IjoxfQ"} {
		f.Add(seed)
	}
	r := start(f)
	f.Fuzz(func(t *testing.T, cursor string) {
		bounded.Input(t, func() {
			for _, path := range []string{"/gallery?cursor=", "/runs?limit=3&cursor="} {
				w := r.check(t, httptest.NewRequest("GET", path+url.QueryEscape(cursor), nil))
				if w.Code != 200 && w.Code != 400 {
					t.Errorf("%q: %d", cursor, w.Code)
				}
			}
		})
	})
}

// FuzzChange asks for a change of a run that cannot be cancelled: nothing is
// ever done.
func FuzzChange(f *testing.F) {
	for _, seed := range [][2]string{
		{"k", `"1"`}, {`"a key"`, `"0", W/"7-ab"`}, {`""`, "*"}, {"\"", `"`}, {"ü", `W/`}, {"a\tb", `"+1"`}, {"", "\"-\","}, {strings.Repeat("k", 256), `"9223372036854775808"`},
	} {
		f.Add(seed[0], seed[1])
	}
	r := start(f)
	run := "/runs/" + r.run(`{"wait": true}`)["run_id"].(string)
	revision := fmt.Sprint(r.get(run).json(f)["run"].(map[string]any)["revision"])
	for _, written := range []string{`"%s"`, `"+%s"`, `"0%s"`, `"%s-"`, `W/"%s-a", "1"`} {
		f.Add("k", fmt.Sprintf(written, revision))
	}
	f.Fuzz(func(t *testing.T, key, match string) {
		bounded.Input(t, func() {
			req := httptest.NewRequest("POST", run+"/cancel", nil)
			req.Header.Set("X-ComfyGit-Studio-Session", "anna")
			req.Header["Idempotency-Key"], req.Header["If-Match"] = []string{key}, []string{match}
			w := r.check(t, req)
			named := strings.Contains(match, "*") || strings.Contains(match, `"`+revision+`"`) || strings.Contains(match, `"`+revision+"-")
			printable := strings.IndexFunc(key, func(c rune) bool { return c < ' ' || c > '~' }) < 0 && key != "" && len(key) <= 257
			switch {
			case w.Code != 400 && !printable:
				t.Errorf("the key %q is taken: %d", key, w.Code)
			case w.Code == 409 && !named, w.Code != 400 && w.Code != 409 && w.Code != 412:
				t.Errorf("%q of revision %s: %d %s", match, revision, w.Code, w.Body)
			}
		})
	})
}

func FuzzEventID(f *testing.F) {
	for _, seed := range []string{"", "0", "-1", "1e3", "９", " 1", "99999999999999999999", "1\n2"} {
		f.Add(seed)
	}
	r := start(f)
	f.Fuzz(func(t *testing.T, id string) {
		bounded.Input(t, func() {
			req := httptest.NewRequest("HEAD", "/events", nil)
			req.Header["Last-Event-Id"] = []string{id}
			w := r.check(t, req)
			digits := strings.Trim(id, "0123456789") == ""
			if w.Code != 200 && w.Code != 400 || !digits && w.Code != 400 {
				t.Errorf("%q: %d", id, w.Code)
			}
		})
	})
}
