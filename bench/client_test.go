package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// serve starts a server and returns its address.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().String()
}

func TestClient_reads_bodies_of_both_kinds_on_one_connection(t *testing.T) {
	long := strings.Repeat("0123456789", 100_000)
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/sized" {
			w.Header().Set("Content-Length", strconv.Itoa(len(long)))
		} else if err := http.NewResponseController(w).Flush(); err != nil { // now it must be chunked
			t.Error(err)
		}
		io.WriteString(w, long) //nolint:errcheck // the client counts
	})
	c, err := dial(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	for _, path := range []string{"/sized", "/chunked", "/sized"} {
		body, err := c.ask(request("GET", addr, path, "", nil))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if string(body) != long {
			t.Errorf("%s: %d bytes, want %d", path, len(body), len(long))
		}
	}
}

func TestClient_sends_session_and_body(t *testing.T) {
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(w, r.Body); err != nil {
			t.Error(err)
		}
		io.WriteString(w, r.Method+r.Header.Get("X-ComfyGit-Studio-Session")+r.Header.Get("Content-Type")) //nolint:errcheck // the client looks
	})
	body, err := once(t.Context(), addr, request("POST", addr, "/run", "me", []byte("{}")))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(body), "{}POSTmeapplication/json"; got != want {
		t.Errorf("the server saw %q, want %q", got, want)
	}
}

func TestClient_refuses_an_answer_that_is_not_good(t *testing.T) {
	addr := serve(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no room", http.StatusTooManyRequests) })
	_, err := get(t.Context(), addr, "/", "")
	if err == nil || !strings.Contains(err.Error(), "429") || !strings.Contains(err.Error(), "no room") {
		t.Errorf("error %v", err)
	}
}

func TestClient_ends_with_its_context(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	came, release := make(chan struct{}), make(chan struct{})
	addr := serve(t, func(http.ResponseWriter, *http.Request) { close(came); <-release })
	defer close(release)
	c, err := dial(ctx, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	failed := make(chan error, 1)
	go func() {
		_, err := c.ask(request("GET", addr, "/", "", nil))
		failed <- err
	}()
	<-came
	cancel()
	if err := <-failed; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

func TestClient_refuses_what_is_not_http(t *testing.T) {
	addr := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		io.WriteString(conn, "SSH-2.0-nobody home\r\n\r\n") //nolint:errcheck // the client looks
		conn.Close()                                        //nolint:errcheck // as above
	})
	if _, err := get(t.Context(), addr, "/", ""); !errors.Is(err, errNotHTTP) {
		t.Errorf("error %v", err)
	}
}

func TestFetch(t *testing.T) {
	body := bytes.Repeat([]byte{7}, 3<<20)
	addr := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.Write(body) }) //nolint:errcheck // the client counts
	t.Run("whole", func(t *testing.T) {
		got, err := fetch(t.Context(), addr, request("GET", addr, "/", "", nil), true)
		if err != nil || got.bytes != int64(len(body)) || got.first <= 0 || got.first > got.total {
			t.Errorf("fetch = %+v, %v", got, err)
		}
	})
	t.Run("first byte only", func(t *testing.T) {
		got, err := fetch(t.Context(), addr, request("GET", addr, "/", "", nil), false)
		if err != nil || got.bytes != 0 || got.first <= 0 {
			t.Errorf("fetch = %+v, %v", got, err)
		}
	})
}

func TestTransfer_rate_is_in_mebibytes_per_second(t *testing.T) {
	if got := (transfer{total: 2 * time.Second, bytes: 64 << 20}).rate(); got != 32 {
		t.Errorf("rate %v, want 32", got)
	}
}

func TestLoad_counts_every_answer(t *testing.T) {
	var served atomic.Int64
	addr := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		served.Add(1)
		io.WriteString(w, "{}") //nolint:errcheck // the client counts
	})
	got, err := load{addr: addr, requests: [][]byte{request("GET", addr, "/", "", nil)}, conns: 3, time: 50 * time.Millisecond}.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got.answers == 0 || got.answers != served.Load() {
		t.Errorf("%d answers counted, %d served", got.answers, served.Load())
	}
	// Each connection is busy for at least the time asked for, so the rate
	// cannot be above the count over that time.
	if most := float64(got.answers) / 0.05; got.rate <= 0 || got.rate > most {
		t.Errorf("rate %v, want in (0, %v]", got.rate, most)
	}
}

func TestLoad_stops_at_its_bound(t *testing.T) {
	var served atomic.Int64
	addr := serve(t, func(http.ResponseWriter, *http.Request) { served.Add(1) })
	got, err := load{addr: addr, requests: [][]byte{request("GET", addr, "/", "", nil)}, conns: 4, time: time.Minute, most: 25}.run(t.Context())
	if err != nil || got.answers != 25 || served.Load() != 25 {
		t.Errorf("%d answers, %d served, error %v; want 25", got.answers, served.Load(), err)
	}
}

func TestLoad_keeps_its_connections(t *testing.T) {
	var opened atomic.Int64
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	srv.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	srv.Start()
	defer srv.Close()
	addr := srv.Listener.Addr().String()
	got, err := load{addr: addr, requests: [][]byte{request("GET", addr, "/", "", nil)}, conns: 2, time: time.Minute, most: 50}.run(t.Context())
	if err != nil || got.answers != 50 || opened.Load() != 2 {
		t.Errorf("%d answers over %d connections, error %v; want 50 over 2", got.answers, opened.Load(), err)
	}
}

func TestLoad_fails_on_the_first_bad_answer(t *testing.T) {
	var served atomic.Int64
	addr := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if served.Add(1) == 10 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	_, err := load{addr: addr, requests: [][]byte{request("GET", addr, "/thing", "", nil)}, conns: 1, time: time.Minute}.run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "503") || !strings.Contains(err.Error(), "/thing") {
		t.Errorf("error %v", err)
	}
	if served.Load() != 10 {
		t.Errorf("%d requests, want 10", served.Load())
	}
}
