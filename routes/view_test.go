package routes_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

func (r *rig) output(kind, name, content string) {
	r.t.Helper()
	path := filepath.Join(r.fake.Dir(kind), name)
	must(r.t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(r.t, os.WriteFile(path, []byte(content), 0o644))
}

func TestViewOfComfyUIsFiles(t *testing.T) {
	r := start(t)
	r.output("output", "r.txt", "0123456789")
	plain := r.get("/outputs/view?filename=r.txt")
	etag, modified := plain.header.Get("ETag"), plain.header.Get("Last-Modified")
	old := "Mon, 01 Jan 2001 00:00:00 GMT"
	cases := []struct {
		name    string
		headers []string
		status  int
		body    string
	}{
		{"plain", nil, 200, "0123456789"},
		{"range", []string{"Range", "bytes=0-3"}, 206, "0123"}, {"open_range", []string{"Range", "bytes=5-"}, 206, "56789"},
		{"last_bytes", []string{"Range", "bytes=-2"}, 206, "89"}, {"beyond", []string{"Range", "bytes=10-"}, 416, ""},
		{"if_range_old", []string{"Range", "bytes=0-1", "If-Range", old}, 200, "0123456789"},
		{"if_range_date", []string{"Range", "bytes=0-1", "If-Range", modified}, 206, "01"},
		{"if_none_match", []string{"If-None-Match", etag}, 304, ""}, {"if_modified_since", []string{"If-Modified-Since", modified}, 304, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			a := r.get("/outputs/view?filename=r.txt", c.headers...)
			if a.status != c.status || a.status < 300 && string(a.body) != c.body {
				t.Errorf("%d %q", a.status, a.body)
			}
			if a.status == 206 && a.header.Get("Content-Range") == "" {
				t.Error("no Content-Range")
			}
			if a.status == 416 && (a.header.Get("Content-Range") != "bytes */10" || a.json(t)["error"] != "range_not_satisfiable") {
				t.Errorf("%v %s", a.header, a.body)
			}
			if a.status == 200 && a.header.Get("X-Content-Type-Options") != "nosniff" {
				t.Error("browsers may guess the type")
			}
		})
	}
	t.Run("head_fetches_no_body", func(t *testing.T) {
		a := r.ask("HEAD", "/outputs/view?filename=r.txt", "")
		if a.status != 200 || a.header.Get("Content-Length") != "10" {
			t.Errorf("%d %v", a.status, a.header)
		}
		methods := map[string]bool{}
		for _, q := range r.fake.Requests() {
			methods[q.Method] = true
		}
		if !methods["HEAD"] {
			t.Error("ComfyUI was asked for the whole file")
		}
	})
}

func TestViewErrors(t *testing.T) {
	r := start(t)
	cases := []struct {
		query  string
		status int
		code   string
	}{
		{"", 400, "bad_request"}, {"filename=", 400, "bad_request"}, {"filename=none.png", 404, "output_not_found"},
		{"filename=../x", 400, "bad_request"}, {"filename=x&subfolder=../..", 403, "forbidden"}, {"filename=x&type=weird", 400, "bad_request"},
		{"filename=x&type=temp", 403, "forbidden"}, {"filename=x&type=input&proof=00", 403, "forbidden"},
		{"filename=secret.txt+[input]", 404, "output_not_found"},
	}
	r.output("input", "secret.txt", "secret")
	for _, c := range cases {
		a := r.get("/outputs/view?" + c.query)
		if a.status != c.status || a.json(t)["error"] != c.code {
			t.Errorf("%s: %d %s", c.query, a.status, a.body)
		}
	}
	if doc := r.get("/outputs/view?filename=none.png").json(t); doc["filename"] != "none.png" || doc["type"] != "output" {
		t.Errorf("%v", doc)
	}
	t.Run("comfyui_fails", func(t *testing.T) {
		defer r.fake.Fault(comfyfake.Fault{Kind: comfyfake.Answer, Route: "/view", Status: 500, Body: "boom"})()
		a := r.get("/outputs/view?filename=x.png")
		if a.status != 502 || a.json(t)["error"] != "comfyui_unavailable" || a.json(t)["comfy_url"] != comfyURL {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
	t.Run("comfyui_is_gone", func(t *testing.T) {
		must(t, r.fake.Close())
		if a := r.get("/outputs/view?filename=x.png"); a.status != 502 || a.json(t)["error"] != "comfyui_unavailable" {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}

// A file that ends early must not look whole.
func TestFileThatEndsEarly(t *testing.T) {
	for _, size := range []int64{100, -1} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			r := start(t)
			r.exec.fetch = func(context.Context, sidecar.FileQuery) (*sidecar.Content, error) {
				body := io.MultiReader(strings.NewReader("half"), failing{})
				return &sidecar.Content{Status: 200, Size: size, Body: io.NopCloser(body)}, nil
			}
			resp, err := r.server.Client().Get(r.server.URL + "/outputs/view?filename=x")
			if err != nil {
				return // cut before the head was out
			}
			defer func() { must(t, resp.Body.Close()) }()
			if body, err := io.ReadAll(resp.Body); err == nil {
				t.Errorf("%q arrived as if it were whole", body)
			}
		})
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("broken") }

func TestHeadersThatArePassed(t *testing.T) {
	r := start(t)
	cases := []struct {
		name, kind, disposition, file string
		wantKind, wantDisposition     string
		sandboxed                     bool
	}{
		{"picture", "image/png", `filename="a.png"`, "a.png", "image/png", `filename="a.png"`, false},
		{"no_name", "image/png", ``, "a.png", "image/png", ``, false},
		{"no_type", "", ``, "a", "application/octet-stream", ``, false},
		{"umlauts", "image/png", `filename="ünï x.png"`, "ünï x.png", "image/png", `inline; filename="_n_ x.png"; filename*=UTF-8''%C3%BCn%C3%AF%20x.png`, false},
		{"quote", "image/png", `filename="a"b.png"`, `a"b.png`, "image/png", `inline; filename="a_b.png"; filename*=UTF-8''a%22b.png`, false},
		{"page", "text/html; charset=utf-8", `attachment; filename="q.html"`, "x", "text/html; charset=utf-8", `attachment; filename="q.html"`, true},
		{"page_inline", "text/html", `inline; filename="q.html"`, "x", "text/html", `attachment; filename="q.html"`, true},
		{"drawing", "image/svg+xml", ``, "d.svg", "image/svg+xml", `attachment; filename="d.svg"`, true},
		{"script", "application/javascript", ``, "../d.js", "application/javascript", `attachment; filename="d.js"`, true},
		{"odd_type", "text/html, x", ``, "d", "text/html, x", `attachment; filename="d"`, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r.exec.fetch = func(context.Context, sidecar.FileQuery) (*sidecar.Content, error) {
				h := http.Header{"Set-Cookie": {"a=b"}, "X-Other": {"1"}, "Cache-Control": {"max-age=1"}, "Etag": {`"v"`}, "Content-Encoding": {"gzip"}}
				if c.kind != "" {
					h.Set("Content-Type", c.kind)
				}
				if c.disposition != "" {
					h.Set("Content-Disposition", c.disposition)
				}
				return &sidecar.Content{Status: 200, Header: h, Size: 2, Body: io.NopCloser(strings.NewReader("hi"))}, nil
			}
			h := r.get("/outputs/view?filename=" + strings.ReplaceAll(strings.ReplaceAll(c.file, " ", "%20"), `"`, "%22")).header
			got := []any{h.Get("Content-Type"), h.Get("Content-Disposition"), strings.HasPrefix(h.Get("Content-Security-Policy"), "sandbox"), h.Get("Etag")}
			if diff := cmp.Diff([]any{c.wantKind, c.wantDisposition, c.sandboxed, `"v"`}, got); diff != "" {
				t.Error(diff)
			}
			for _, name := range []string{"Set-Cookie", "X-Other", "Cache-Control", "Content-Encoding"} {
				if h.Get(name) != "" {
					t.Errorf("%s was passed on", name)
				}
			}
		})
	}
}

// counting makes a file of n bytes as it is read.
type counting struct{ left int64 }

func (c *counting) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), c.left)
	clear(p[:n])
	c.left -= n
	return int(n), nil
}

func TestLargeFilesNeedLittleMemory(t *testing.T) {
	r := start(t)
	const size = 256 << 20
	r.exec.fetch = func(context.Context, sidecar.FileQuery) (*sidecar.Content, error) {
		return &sidecar.Content{Status: 200, Size: size, Body: io.NopCloser(&counting{size})}, nil
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	resp, err := r.server.Client().Get(r.server.URL + "/outputs/view?filename=x")
	must(t, err)
	n, err := io.Copy(io.Discard, resp.Body)
	must(t, err)
	must(t, resp.Body.Close())
	runtime.ReadMemStats(&after)
	if n != size {
		t.Errorf("%d bytes", n)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > size/8 {
		t.Errorf("%d MiB were allocated for a file of %d MiB", used>>20, size>>20)
	}
}

// The first bytes of a file are shown while the rest is still being made.
func TestFirstBytesComeAtOnce(t *testing.T) {
	r := start(t)
	rest, more := io.Pipe()
	r.exec.fetch = func(context.Context, sidecar.FileQuery) (*sidecar.Content, error) {
		return &sidecar.Content{Status: 200, Size: -1, Body: rest}, nil
	}
	go func() { _, _ = more.Write([]byte("first")) }()
	resp, err := r.server.Client().Get(r.server.URL + "/outputs/view?filename=x")
	must(t, err)
	defer func() { must(t, resp.Body.Close()) }()
	got := make([]byte, 5)
	if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != "first" {
		t.Errorf("%q %v", got, err)
	}
	must(t, more.Close())
}

func TestTempFilesAreShownToWhomTheItemWas(t *testing.T) {
	r := start(t)
	// The copy of the picture fails, so that its item names ComfyUI's file.
	release := r.fake.Fault(comfyfake.Fault{Kind: comfyfake.Answer, Route: "/view", Status: 500})
	doc := r.ask("POST", "/contracts/solid/preview/run", `{"wait": true}`).json(t)
	release()
	address := doc["gallery_items"].([]any)[0].(map[string]any)["url"].(string)
	if !strings.Contains(address, "type=temp") {
		t.Fatalf("address %s", address)
	}
	if a := r.get(address, "X-ComfyGit-Studio-Session", ""); a.status != 200 {
		t.Errorf("with its proof: %d %s", a.status, a.body)
	}
	bare, proof, _ := strings.Cut(address, "&proof=")
	for _, other := range []string{bare, bare + "&proof=", bare + "&proof=" + strings.Repeat("0", len(proof)), strings.Replace(address, "00001", "00002", 1)} {
		if a := r.get(other); a.status != http.StatusForbidden {
			t.Errorf("%s: %d", other, a.status)
		}
	}
}

func TestArtifacts(t *testing.T) {
	r := start(t)
	for name, content := range map[string]string{
		"p1/ok.png": "\x89PNG\r\n\x1a\nxxxx", "p1/page.html": "<html><script>", "p1/fake.png": "<html><body>hi", "p1/d.svg": `<svg xmlns="http://www.w3.org/2000/svg"/>`,
		"p1/a.mp4": strings.Repeat("\x01", 100), "p1/note": "text", "p1/.dot": "d", "p1/sub/x": "x", "top": "t", "p1/ünï.txt": "u",
	} {
		path := filepath.Join(r.artifacts, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(content), 0o644))
	}
	must(t, os.WriteFile(filepath.Join(filepath.Dir(r.artifacts), "out.txt"), []byte("secret"), 0o644))
	must(t, os.Symlink(filepath.Join(filepath.Dir(r.artifacts), "out.txt"), filepath.Join(r.artifacts, "p1", "link.txt")))

	for ref, kind := range map[string]string{
		"p1/ok.png": "image/png", "p1%2Fok.png": "image/png", "p1/a.mp4": "video/mp4", "p1/note": "text/plain; charset=utf-8", "p1/%C3%BCn%C3%AF.txt": "text/plain; charset=utf-8",
	} {
		a := r.get("/outputs/view?serve_artifact=" + ref)
		if a.status != 200 || a.header.Get("Content-Type") != kind || a.header.Get("Content-Security-Policy") != "" {
			t.Errorf("%s: %d %v", ref, a.status, a.header)
		}
	}
	for _, ref := range []string{"p1/page.html", "p1/fake.png", "p1/d.svg"} {
		h := r.get("/outputs/view?serve_artifact=" + ref).header
		if !strings.HasPrefix(h.Get("Content-Disposition"), "attachment") || !strings.HasPrefix(h.Get("Content-Security-Policy"), "sandbox") {
			t.Errorf("%s runs here: %v", ref, h)
		}
	}
	for _, ref := range []string{
		"p1", "top", "p1/none.png", "p1/sub", "p1/sub/x", "../out.txt", "p1/../../out.txt", "/etc/passwd", "p1/.dot", "p1/link.txt",
		"p1%5Cok.png", "p1/ok.png%00", "p1/..", ".partial/x", "%2e%2e/out.txt", "p1//ok.png",
	} {
		if a := r.get("/outputs/view?serve_artifact=" + ref); a.status != 404 || a.json(t)["message"] != "Unknown serve artifact." {
			t.Errorf("%s: %d %s", ref, a.status, a.body)
		}
	}
}

func TestArtifactRanges(t *testing.T) {
	r := start(t)
	must(t, os.MkdirAll(filepath.Join(r.artifacts, "p1"), 0o755))
	content := bytes.Repeat([]byte("0123456789"), 300_000)
	must(t, os.WriteFile(filepath.Join(r.artifacts, "p1", "a.mp4"), content, 0o644))
	const address = "/outputs/view?serve_artifact=p1/a.mp4"
	etag := r.get(address).header.Get("ETag")
	for _, c := range []struct {
		headers []string
		status  int
		from    int
		size    int
	}{
		{nil, 200, 0, len(content)}, {[]string{"Range", "bytes=7-9"}, 206, 7, 3}, {[]string{"Range", "bytes=-5"}, 206, len(content) - 5, 5},
		{[]string{"Range", "bytes=9-2000000"}, 206, 9, 1_999_992},
		{[]string{"Range", "bytes=3000000-"}, 416, 0, 0}, {[]string{"Range", "bytes=5-2"}, 416, 0, 0}, {[]string{"Range", "bytes=0-1,4-5"}, 416, 0, 0},
		{[]string{"If-None-Match", etag}, 304, 0, 0}, {[]string{"If-Match", `"x"`}, 412, 0, 0},
		{[]string{"Range", "bytes=0-1", "If-Range", etag}, 206, 0, 2}, {[]string{"Range", "bytes=0-1", "If-Range", `"old"`}, 200, 0, len(content)},
	} {
		a := r.get(address, c.headers...)
		if a.status != c.status {
			t.Errorf("%v: %d", c.headers, a.status)
			continue
		}
		if c.status < 300 && !bytes.Equal(a.body, content[c.from:c.from+c.size]) {
			t.Errorf("%v: %d other bytes", c.headers, len(a.body))
		}
		if c.status == 416 && a.header.Get("Content-Range") != "bytes */3000000" {
			t.Errorf("%v: Content-Range %q", c.headers, a.header.Get("Content-Range"))
		}
		if c.status >= 400 && a.json(t)["hint"] == nil {
			t.Errorf("%v: %s", c.headers, a.body)
		}
	}
}
