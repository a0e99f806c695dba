package routes_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// halfClosed sends a request and ends the sending side at once.
func (r *rig) halfClosed(method, path, body string) net.Conn {
	r.t.Helper()
	conn := r.dialRaw()
	_, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: %s\r\nX-ComfyGit-Studio-Session: anna\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		method, path, r.server.Listener.Addr(), len(body), body)
	must(r.t, err)
	must(r.t, conn.(*net.TCPConn).CloseWrite())
	return conn
}

// answerOn reads an answer to its end.
func answerOn(t *testing.T, conn net.Conn) (int, map[string]any) {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must(t, err)
	raw, err := io.ReadAll(resp.Body)
	must(t, err)
	must(t, resp.Body.Close())
	var doc map[string]any
	must(t, json.Unmarshal(raw, &doc))
	return resp.StatusCode, doc
}

func TestClientThatSendsNoMore(t *testing.T) {
	t.Run("gets_the_end_of_its_run", func(t *testing.T) {
		r := start(t)
		r.fake.Hold()
		conn := r.halfClosed("POST", runPath, `{"wait": true}`)
		eventually(t, "ComfyUI has the run", func() bool {
			return strings.Contains(string(r.get("/runs").body), `"prompt_id"`)
		})
		r.fake.Release()
		if status, doc := answerOn(t, conn); status != 200 || doc["outcome"] != string(sidecar.OutcomeCompleted) {
			t.Errorf("%d %v", status, doc)
		}
	})
	t.Run("gets_each_other_answer", func(t *testing.T) {
		r := start(t)
		for range 20 {
			for _, path := range []string{"/runs", "/contracts", "/gallery", "/health"} {
				if status, doc := answerOn(t, r.halfClosed("GET", path, "")); status != 200 {
					t.Errorf("GET %s: %d %v", path, status, doc)
				}
			}
			if status, doc := answerOn(t, r.halfClosed("POST", runPath, "{}")); status != 200 {
				t.Errorf("POST: %d %v", status, doc)
			}
		}
	})
	t.Run("is_told_of_its_own_limit", func(t *testing.T) {
		r := start(t)
		r.fake.Hold()
		status, doc := answerOn(t, r.halfClosed("POST", runPath, `{"wait": true, "timeout_seconds": 0.3}`))
		if status != 504 || !strings.HasPrefix(doc["message"].(string), "Timed out waiting") {
			t.Errorf("%d %v", status, doc)
		}
		r.fake.Release()
	})
	t.Run("a_wait_ends_with_a_connection_that_is_reset", func(t *testing.T) {
		r := start(t)
		r.fake.Hold()
		conn := r.halfClosed("POST", runPath, `{"wait": true}`)
		eventually(t, "ComfyUI has the run", func() bool {
			return strings.Contains(string(r.get("/runs").body), `"prompt_id"`)
		})
		must(t, conn.(*net.TCPConn).SetLinger(0))
		must(t, conn.Close())
		eventually(t, "the wait ends", func() bool { return strings.Contains(r.log.String(), "status=504") })
		r.fake.Release()
	})
}
