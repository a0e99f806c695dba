package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// unsteady is a sidecar that takes a run, and then answers as broken does.
func unsteady(t *testing.T, broken http.HandlerFunc) string {
	mux := http.NewServeMux()
	says := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }
	}
	mux.HandleFunc("GET /contracts/w/default", says(`{"inputs": []}`))
	mux.HandleFunc("POST /contracts/w/default/run", says(`{"run_id": "run_1"}`))
	mux.HandleFunc("GET /runs/run_1/events", says(""))
	mux.HandleFunc("GET /runs/", broken)
	mux.HandleFunc("GET /outputs/view", broken)
	mux.HandleFunc("GET /health", broken)
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv.URL
}

func dropped(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func answered(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text))
	}
}

// TestRunExitCodes: what goes wrong after a run was taken has a code as well,
// and a report.
func TestRunExitCodes(t *testing.T) {
	made := `{"run": {"status": "completed"}, "gallery_items": [{"outputName": "image", "filename": "a.png", "url": "/outputs/view?filename=a.png"}]}`
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		code   int
		report string // of --json
	}{
		"the_sidecar_is_gone":        {dropped, exitUnavailable, "The run may go on there"},
		"it_has_forgotten_the_run":   {answered(404, `{"error": "not_found", "message": "Run was not found."}`), exitFailed, `"status":"unknown"`},
		"a_proxy_before_it_is_alone": {answered(502, "<html>"), exitUnavailable, `"code":"unreadable"`},
		"its_database_is_gone":       {answered(503, `{"error": "storage_unavailable", "message": "gone"}`), exitFailed, `"code":"storage_unavailable"`},
		"it_asks_for_a_token":        {answered(401, `{"error": "unauthorized", "message": "token"}`), exitFailed, "STUDIO_SIDECAR_TOKEN"},
		"the_file_cannot_be_fetched": {func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/outputs") {
				answered(502, `{"error": "comfyui_unavailable", "message": "away"}`)(w, r)
				return
			}
			answered(200, made)(w, r)
		}, exitUnavailable, `"status":"completed"`},
	} {
		t.Run(name, func(t *testing.T) {
			var out, problem bytes.Buffer
			cmd := runCmd{Contract: "w", Out: t.TempDir(), JSON: true, pause: time.Millisecond}
			err := cmd.runAt(t.Context(), unsteady(t, c.answer), console{ctx: t.Context(), out: &out, err: &problem})
			if code := complain(&problem, err); code != c.code || !strings.Contains(out.String(), c.report) || !json.Valid(out.Bytes()) {
				t.Errorf("%d %s%s", code, out.String(), problem.String())
			}
		})
	}
}

// TestInterruptedRun: Ctrl+C has its code, also while nothing was answered yet.
func TestInterruptedRun(t *testing.T) {
	asked := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
	}))
	defer srv.Close()
	ctx, interrupt := context.WithCancel(t.Context())
	go func() {
		<-asked
		interrupt()
	}()
	var out, problem bytes.Buffer
	cmd := runCmd{Contract: "w", Out: t.TempDir()}
	err := cmd.runAt(ctx, srv.URL, console{ctx: ctx, out: &out, err: &problem})
	if code := complain(&problem, err); code != exitInterrupted || !strings.Contains(problem.String(), "is not known") {
		t.Errorf("%d %s", code, problem.String())
	}
}

// TestHealthAsksForTheToken: a sidecar that asks for its token is one.
func TestHealthAsksForTheToken(t *testing.T) {
	url := unsteady(t, answered(401, `{"error": "unauthorized"}`))
	code, _, problem := commanded(t, "health", "--url", url)
	if code != exitFailed || !strings.Contains(problem, "asks for its token") || !strings.Contains(problem, "STUDIO_SIDECAR_TOKEN") {
		t.Errorf("%d %s", code, problem)
	}
}
