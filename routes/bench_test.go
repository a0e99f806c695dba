package routes_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

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
