package routes_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/comfygit-ai/studio-sidecar/routes"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// nowhere takes answers and forgets them.
type nowhere struct {
	header http.Header
	status int
}

func (w *nowhere) Header() http.Header         { return w.header }
func (w *nowhere) WriteHeader(status int)      { w.status = status }
func (w *nowhere) Write(p []byte) (int, error) { return len(p), nil }

func BenchmarkAnswers(b *testing.B) {
	r := start(b)
	for range 20 {
		r.run(`{"wait": true}`)
	}
	for _, path := range []string{"/runs", "/gallery", "/gallery?limit=20", "/contracts", "/health", "/livez"} {
		b.Run(path, func(b *testing.B) {
			req := httptest.NewRequest("GET", path, nil)
			req.Host, req.RemoteAddr = "localhost", "127.0.0.1:5"
			req.Header.Set("X-ComfyGit-Studio-Session", "anna")
			b.ReportAllocs()
			for b.Loop() {
				w := &nowhere{header: http.Header{}}
				r.handler.ServeHTTP(w, req)
				if w.status != http.StatusOK {
					b.Fatal(w.status)
				}
			}
		})
	}
}

// BenchmarkAccept measures accepted runs that nobody ends.
func BenchmarkAccept(b *testing.B) {
	const unlimited = 1 << 30
	r := setup{name: "demo", limits: sidecar.Limits{Waiting: unlimited, PerSession: unlimited}}.start(b)
	r.fake.Hold()
	defer r.fake.Release()
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			req := httptest.NewRequest("POST", "/contracts/solid/default/run", strings.NewReader(`{"inputs":{"width":64}}`))
			req.Host, req.RemoteAddr = "localhost", "127.0.0.1:5"
			req.Header.Set("X-ComfyGit-Studio-Session", "anna")
			req.Header.Set("Content-Type", "application/json")
			w := &nowhere{header: http.Header{}}
			r.handler.ServeHTTP(w, req)
			if w.status != http.StatusOK {
				b.Error(w.status)
				return
			}
		}
	})
}

// BenchmarkLargeText measures runs with an input of 10 MB, the fake ComfyUI's
// share among it.
func BenchmarkLargeText(b *testing.B) {
	for name, wait := range map[string]bool{"accepted": false, "to_its_end": true} {
		b.Run(name, func(b *testing.B) { benchLargeText(b, wait) })
	}
}

func benchLargeText(b *testing.B, wait bool) {
	r := start(b, func(o *routes.Options) { o.MaxRequestBytes = 64 << 20 })
	must(b, os.WriteFile(filepath.Join(r.env, ".cec", "workflow_api", "solid.json"), []byte(`{
		"1":{"class_type":"DemoSampler","inputs":{"text":"x","seed":1,"steps":1,"width":64,"height":64,"style":"auto"}},
		"2":{"class_type":"SaveImage","inputs":{"filename_prefix":"large","images":["1",0]}}}`), 0o644))
	_, others, _ := strings.Cut(pyproject, "outputs = ")
	r.writeManifest(pyproject[:strings.Index(pyproject, "inputs = ")] + `inputs = [
  { name = "text", type = "string", node_id = "1", required = true, api_field_key = "text" },
]
outputs = ` + others)
	if !wait {
		r.fake.Hold()
		defer r.fake.Release()
	}
	body := fmt.Sprintf(`{"wait": %v, "inputs": {"text": %q}}`, wait, strings.Repeat("ten letters", 10<<20/11))
	b.ReportAllocs()
	for b.Loop() {
		req := httptest.NewRequest("POST", "/contracts/solid/default/run", strings.NewReader(body))
		req.Host, req.RemoteAddr = "localhost", "127.0.0.1:5"
		req.Header.Set("X-ComfyGit-Studio-Session", "anna")
		w := &nowhere{header: http.Header{}}
		r.handler.ServeHTTP(w, req)
		if w.status != http.StatusOK {
			b.Fatal(w.status)
		}
	}
}
