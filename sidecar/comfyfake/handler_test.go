package comfyfake_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

// TestHandler runs one prompt over a real socket.
func TestHandler(t *testing.T) {
	fake := comfyfake.New(comfyfake.Options{})
	srv := httptest.NewServer(fake.Handler())
	defer srv.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c, _, err := websocket.Dial(ctx, srv.URL+"/ws?clientId=a", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	resp, err := http.Post(srv.URL+"/api/prompt", "application/json", strings.NewReader(body(idA, "a", saveGraph("x"))))
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("POST /api/prompt: %v %v", resp, err)
	}
	io.Copy(io.Discard, resp.Body) // only the status counts
	resp.Body.Close()
	until(t, c, "executing")
	if err := fake.Close(); err != nil {
		t.Error(err)
	}
	if _, _, err := c.Read(ctx); err == nil {
		t.Error("the socket outlived Close")
	}
	if resp, err := http.Get(srv.URL + "/queue"); err != nil || resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("after Close: %v %v", resp, err)
	} else {
		resp.Body.Close()
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestNotAllowed(t *testing.T) {
	for gen, want := range map[comfyfake.Generation]map[string]string{
		comfyfake.V0_3_64: {"/api/jobs/cancel": "GET,HEAD", "/api/jobs/x/cancel": "GET,HEAD", "/nowhere": "GET,HEAD", "/view": "GET,HEAD"},
		comfyfake.V0_33_0: {"/api/jobs": "GET,HEAD", "/jobs/cancel": "GET,HEAD", "/nowhere": "GET,HEAD"},
	} {
		within(t, comfyfake.Options{Generation: gen}, func(g *rig) {
			for path, allow := range want {
				a := g.post(path, "{}")
				if a.Status != http.StatusMethodNotAllowed || a.Header.Get("Allow") != allow {
					g.t.Errorf("%s: POST %s: %d, Allow %q", gen, path, a.Status, a.Header.Get("Allow"))
				}
			}
		})
	}
}
