package backend_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/sidecar/backend"
)

func request(t *testing.T, ctx context.Context, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func TestExchange(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/cut" {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "12345678")
	}))
	defer server.Close()
	client := backend.NewClient(nil, 1, 1)
	defer client.CloseIdleConnections()
	ask := func(url string, limit int64) (backend.Answer, error) {
		return backend.Exchange(client, request(t, t.Context(), url), limit)
	}
	a, err := ask(server.URL+"/x?token=1", 8)
	if err != nil || a.Status != http.StatusTeapot || a.URL != server.URL+"/x" || string(a.Body) != "12345678" || a.OK() {
		t.Errorf("%+v %v", a, err)
	}
	if _, err := ask(server.URL, 7); !errors.Is(err, backend.ErrTooLarge) || !backend.Reached(err) {
		t.Errorf("more than the limit: %v", err)
	}
	if _, err := ask(server.URL+"/cut", 8); err == nil || !backend.Reached(err) {
		t.Errorf("cut: %v", err)
	}
	server.Close()
	if _, err := ask(server.URL, 8); err == nil || backend.Reached(err) {
		t.Errorf("nobody there: %v", err)
	}
}

func TestPassOn(t *testing.T) {
	req := request(t, t.Context(), "http://127.0.0.1/")
	backend.PassOn(req, map[string][]string{
		"range": {"bytes=1-2"}, "If-None-Match": {`"a"`, `"b"`}, "Cookie": {"secret"}, "Origin": {"http://elsewhere"},
	})
	if diff := cmp.Diff(http.Header{"Range": {"bytes=1-2"}, "If-None-Match": {`"a"`, `"b"`}}, req.Header); diff != "" {
		t.Error(diff)
	}
}

// TestOpen: a file may take as long as it likes while bytes move.
func TestOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		client := backend.NewClient(func(context.Context, string, string) (net.Conn, error) { return near, nil }, 1, 1)
		ctx, idle, stop := backend.Watched(t.Context(), time.Minute)
		defer stop()
		go func() {
			buf := make([]byte, 4096)
			_, _ = far.Read(buf)
			_, _ = io.WriteString(far, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")
			for range 3 {
				<-time.After(50 * time.Second)
				_, _ = io.WriteString(far, "abc"[:2])
			}
			_, _ = far.Read(buf) // until the other side gives up
			_ = far.Close()
		}()
		resp, err := backend.Open(client, request(t, ctx, "http://backend/"), idle)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		got, err := io.ReadAll(resp.Body)
		if string(got) != strings.Repeat("ab", 3) || !errors.Is(err, backend.ErrIdle) || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%q, %v", got, err)
		}
		if took := time.Since(began); took != 210*time.Second {
			t.Errorf("given up after %v", took)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
	})
}
