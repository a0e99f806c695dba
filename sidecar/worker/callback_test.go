package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/protocol"
)

// sink stands before the front door and decides what becomes of callbacks.
type sink struct {
	mu     sync.Mutex
	seen   []string // statuses, in order
	answer func(n int) int
	hang   chan struct{} // until it is closed, callbacks get no answer
}

// between notes a callback, and answers it unless it may pass.
func (s *sink) between(next http.Handler, w http.ResponseWriter, req *http.Request) {
	if !strings.HasPrefix(req.URL.Path, "/worker-callback/") {
		next.ServeHTTP(w, req)
		return
	}
	s.mu.Lock()
	n := len(s.seen)
	s.seen = append(s.seen, mediaType(req))
	status := 0
	if s.answer != nil {
		status = s.answer(n)
	}
	hang := s.hang
	s.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-req.Context().Done():
			return
		}
	}
	if status != 0 {
		_, _ = io.Copy(io.Discard, req.Body)
		w.WriteHeader(status)
		return
	}
	next.ServeHTTP(w, req)
}

func mediaType(req *http.Request) string {
	kind, _, err := mime.ParseMediaType(req.Header.Get("Content-Type"))
	if err != nil {
		return err.Error()
	}
	return kind
}

func (s *sink) calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// left is what the worker still has to tell.
func (r *rig) left() int {
	r.Helper()
	left, err := r.worker.store.Deliveries(context.Background(), 0)
	must(r, err)
	return len(left)
}

// TestCancelIsToldLater: the front door that asked for it is to end the run
// itself first.
func TestCancelIsToldLater(t *testing.T) {
	var told time.Time
	s := &sink{answer: func(int) int {
		told = time.Now()
		return 0
	}}
	pair(t, setup{callbacks: true, between: s.between}, func(r *rig) {
		id := r.launch("slow")
		r.within(20*time.Second, "it runs", func() bool { return started(r) })
		if a := r.front.ask("POST", "/runs/"+string(id)+"/cancel", ""); a.status != 200 {
			t.Fatalf("cancel: %d %s", a.status, a.body)
		}
		r.within(20*time.Second, "all is told", func() bool { return r.left() == 0 })
		run := r.ended(id, time.Second)
		if after := told.Sub(run.FinishedAt); len(s.calls()) != 2 || after < time.Second || after > 3*time.Second {
			t.Errorf("%q, the last %v after the cancel", s.calls(), after)
		}
	})
}

func TestCallbackBringsTheFiles(t *testing.T) {
	s := &sink{}
	asked := 0
	before := func(next http.Handler, w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodGet && strings.HasPrefix(req.URL.Path, "/proxy/artifacts/") {
			asked++
		}
		next.ServeHTTP(w, req)
	}
	pair(t, setup{callbacks: true, between: s.between, before: before}, func(r *rig) {
		run := r.ended(r.launch("batch"), 20*time.Second)
		r.within(5*time.Second, "all is told", func() bool { return r.left() == 0 })
		if diff := cmp.Diff([]string{"application/json", "multipart/form-data"}, s.calls()); diff != "" {
			t.Errorf("callbacks (-want +got):\n%s", diff)
		}
		if run.Status != sidecar.StatusCompleted || len(run.Items) != 3 || asked != 0 {
			t.Errorf("%s, %d items, %d files were asked for", run.Status, len(run.Items), asked)
		}
	})
}

func TestCallbackIsRetriedUntilItIsTaken(t *testing.T) {
	for name, s := range map[string]*sink{
		"500 ten times": {answer: func(n int) int {
			if n < 10 {
				return http.StatusInternalServerError
			}
			return 0
		}},
		"404 and 409": {answer: func(n int) int {
			switch {
			case n < 2:
				return http.StatusNotFound
			case n < 3:
				return http.StatusConflict
			}
			return 0
		}},
	} {
		t.Run(name, func(t *testing.T) {
			pair(t, setup{callbacks: true, between: s.between}, func(r *rig) {
				id := r.launch("picture")
				if run := r.ended(id, time.Hour); run.Status != sidecar.StatusCompleted {
					t.Errorf("%s %q", run.Status, run.Error)
				}
				r.within(time.Hour, "all is told", func() bool { return r.left() == 0 })
				if calls := s.calls(); calls[len(calls)-1] != "multipart/form-data" {
					t.Errorf("calls %v", calls)
				}
				if len(r.copies("front")) != 1 {
					t.Errorf("copies %v", r.copies("front"))
				}
			})
		})
	}
}

func TestRefusedCallbackTouchesNoExecution(t *testing.T) {
	s := &sink{answer: func(int) int { return http.StatusForbidden }}
	pair(t, setup{callbacks: true, between: s.between}, func(r *rig) {
		run := r.ended(r.launch("picture"), 5*time.Minute)
		far, err := r.worker.store.Run(context.Background(), sidecar.RunOfPrompt(run.Prompt))
		if err != nil || far.Status != sidecar.StatusCompleted || run.Status != sidecar.StatusCompleted {
			t.Errorf("worker %+v, front %s: %v", far, run.Status, err)
		}
		r.within(time.Minute, "it is given up", func() bool { return r.left() == 0 })
	})
}

func TestCallbackThatStaysAwayIsReplacedByLooking(t *testing.T) {
	s := &sink{}
	pair(t, setup{callbacks: true, between: s.between}, func(r *rig) {
		s.hang = make(chan struct{}) // of the bubble
		run := r.ended(r.launch("picture"), 2*time.Minute)
		if run.Status != sidecar.StatusCompleted || len(r.copies("front")) != 1 {
			t.Errorf("%s, copies %v", run.Status, r.copies("front"))
		}
		close(s.hang) // late callbacks are absorbed
		r.within(time.Hour, "all is told", func() bool { return r.left() == 0 })
		again := r.ended(run.ID, time.Second)
		if again.Revision != run.Revision || len(r.copies("front")) != 1 {
			t.Errorf("revision %d, then %d; copies %v", run.Revision, again.Revision, r.copies("front"))
		}
	})
}

func TestOutboxSurvivesARestart(t *testing.T) {
	s := &sink{answer: func(int) int { return http.StatusInternalServerError }}
	pair(t, setup{callbacks: true, between: s.between}, func(r *rig) {
		id := r.launch("picture")
		r.within(time.Minute, "the worker is done", func() bool {
			runs, err := r.worker.store.Unfinished(context.Background())
			return err == nil && len(runs) == 0 && len(s.calls()) > 1
		})
		r.worker.end()
		s.mu.Lock()
		s.answer = nil
		before := len(s.seen)
		s.mu.Unlock()
		r.startWorker()
		r.within(30*time.Minute, "all is told", func() bool { return r.left() == 0 })
		if calls := s.calls()[before:]; len(calls) == 0 || calls[len(calls)-1] != "multipart/form-data" {
			t.Errorf("after the restart: %v", calls)
		}
		if run := r.ended(id, time.Minute); run.Status != sidecar.StatusCompleted {
			t.Errorf("%s", run.Status)
		}
	})
}

func TestFrontDoorAwayHearsLater(t *testing.T) {
	pair(t, setup{callbacks: true}, func(r *rig) {
		id := r.launch("slow")
		r.front.end()
		timer := time.NewTimer(3 * time.Hour)
		<-timer.C
		if r.left() != 1 {
			t.Fatalf("%d left to tell", r.left())
		}
		r.startFront()
		if run := r.ended(id, 10*time.Minute); run.Status != sidecar.StatusCompleted {
			t.Errorf("%s %q", run.Status, run.Error)
		}
		r.within(10*time.Minute, "all is told", func() bool { return r.left() == 0 })
	})
}

// referenceWorker is a worker that makes ids of its own.
type referenceWorker struct {
	mu    sync.Mutex
	posts int
	body  map[string]json.RawMessage
	lose  bool // the answer to a submission
}

func (w *referenceWorker) before(_ http.Handler, out http.ResponseWriter, req *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	out.Header().Set("Content-Type", "application/json")
	switch {
	case req.URL.Path == "/proxy/runs":
		w.posts++
		raw, err := io.ReadAll(req.Body)
		if err != nil || json.Unmarshal(raw, &w.body) != nil {
			out.WriteHeader(http.StatusBadRequest)
			return
		}
		if w.lose {
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(out, `{"status": "submitted", "prompt_id": "wp-1"}`)
	case req.URL.Path == "/proxy/health":
		_, _ = io.WriteString(out, `{"ok": true, "role": "proxy", "comfyui": {"available": true}}`)
	default:
		out.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(out, `{"error": "not_found", "message": "Unknown proxy run."}`)
	}
}

func TestLostAnswerOfAReferenceWorker(t *testing.T) {
	t.Run("ends the run, never a second submission", func(t *testing.T) {
		w := &referenceWorker{lose: true}
		pair(t, setup{before: w.before}, func(r *rig) {
			a := r.front.ask("POST", "/contracts/picture/default/run", `{"wait": true}`)
			id := sidecar.RunID(a.json(t)["run_id"].(string))
			run := r.ended(id, time.Minute)
			if a.status != 502 || run.Outcome != sidecar.OutcomeLost || w.posts != 1 {
				t.Errorf("%d %s, outcome %s, %d submissions", a.status, a.body, run.Outcome, w.posts)
			}
		})
	})
	t.Run("is settled by the callback", func(t *testing.T) {
		w := &referenceWorker{lose: true}
		pair(t, setup{before: w.before, callbacks: true}, func(r *rig) {
			id := r.launch("picture")
			path := "/worker-callback/runs/" + string(id)
			r.front.callback(path, `{"status": "running", "prompt_id": "wp-7"}`, "cbtok")
			r.front.callback(path, `{"status": "completed", "prompt_id": "wp-7", "outputs": [{"name": "out", "type": "image", "artifacts": []}]}`, "cbtok")
			run := r.ended(id, time.Minute)
			if run.Status != sidecar.StatusCompleted || run.PromptID != "wp-7" || w.posts != 1 {
				t.Errorf("%s %s, %d submissions", run.Status, run.PromptID, w.posts)
			}
		})
	})
}

// callback posts one with a token.
func (s *side) callback(path, body, token string) reply {
	return s.ask("POST", path, body, "Authorization", "Bearer "+token, "Content-Type", "application/json")
}

func TestCallbacksAreGuarded(t *testing.T) {
	w := &referenceWorker{}
	pair(t, setup{before: w.before, callbacks: true}, func(r *rig) {
		one, two := r.launch("picture"), r.launch("picture")
		var given sidecar.Callback // of the second
		must(t, json.Unmarshal(w.body["callback"], &given))
		path := func(id sidecar.RunID) string { return "/worker-callback/runs/" + string(id) }
		if want := "http://127.0.0.1:8191" + path(two); given.URL != want {
			t.Errorf("the worker was told %s, the address that was configured is %s", given.URL, want)
		}
		for _, c := range []struct {
			what, token, body string
			run               sidecar.RunID
			status            int
		}{
			{"no token", "", `{"status": "running"}`, two, 403},
			{"another run's token", given.Token, `{"status": "running"}`, one, 403},
			{"its own token", given.Token, `{"status": "running"}`, two, 200},
			{"the configured token", "cbtok", `{"status": "running"}`, one, 200},
			{"unknown run", "cbtok", `{"status": "running"}`, "run_none", 404},
			{"other run_id", "cbtok", `{"status": "running", "run_id": "run_x"}`, one, 400},
			{"no status", "cbtok", `{}`, one, 400},
			{"no outputs", "cbtok", `{"status": "completed"}`, one, 400},
			{"no object", "cbtok", `[]`, one, 400},
			{"no JSON", "cbtok", `{`, one, 400},
		} {
			if a := r.front.callback(path(c.run), c.body, c.token); a.status != c.status {
				t.Errorf("%s: %d %s", c.what, a.status, a.body)
			}
		}
	})
	pair(t, setup{before: w.before}, func(r *rig) {
		if a := r.front.callback("/worker-callback/runs/"+string(r.launch("picture")), `{"status": "running"}`, "cbtok"); a.status != 404 {
			t.Errorf("a run that asked for no callback: %d", a.status)
		}
	})
}

func TestTerminalStatesAbsorbCallbacks(t *testing.T) {
	w := &referenceWorker{}
	for _, end := range []string{
		`{"status": "completed", "outputs": []}`, `{"status": "error", "error": "comfyui_execution_failed", "message": "m"}`,
		`{"status": "FAILED"}`, `{"status": "timeout"}`, `{"status": "cancelled"}`,
	} {
		pair(t, setup{before: w.before, callbacks: true}, func(r *rig) {
			id := r.launch("picture")
			path := "/worker-callback/runs/" + string(id)
			if a := r.front.callback(path, `{"status": "Running"}`, "cbtok"); a.json(t)["status"] != "running" {
				t.Errorf("of a beginning %s is told back", a.body)
			}
			if a := r.front.callback(path, end, "cbtok"); a.status != 200 || !strings.Contains(end, fmt.Sprintf("%q", a.json(t)["status"])) {
				t.Fatalf("%s: %d %s", end, a.status, a.body)
			}
			run := r.ended(id, time.Minute)
			for _, late := range []string{`{"status": "running"}`, `{"status": "completed", "outputs": []}`, `{"status": "error"}`} {
				a := r.front.callback(path, late, "cbtok")
				if doc := a.json(t); a.status != 200 || doc["duplicate"] != true || doc["status"] != string(run.Status) {
					t.Errorf("%s, then %s: %d %s", end, late, a.status, a.body)
				}
			}
			if again := r.ended(id, time.Minute); again.Revision != run.Revision {
				t.Errorf("%s: revision %d, then %d", end, run.Revision, again.Revision)
			}
		})
	}
}

func TestMultipartCallback(t *testing.T) {
	w := &referenceWorker{}
	pair(t, setup{before: w.before, callbacks: true}, func(r *rig) {
		id := r.launch("picture")
		var form strings.Builder
		parts := multipart.NewWriter(&form)
		must(t, parts.WriteField("payload", `{"status": "completed", "outputs": [{"name": "out", "type": "image", "artifacts": [
			{"filename": "../a b.png", "upload_field": "artifact_0_0", "width": 2, "height": 3}, {"filename": "second.png"}, {"filename": "missing.png"}]}]}`))
		for field, content := range map[string]string{"artifact_0_0": "\x89PNG\r\n\x1a\n0", "artifact_0_1": "\x89PNG\r\n\x1a\n1", "unused": "U"} {
			part, err := parts.CreateFormFile(field, "ignored.png")
			must(t, err)
			_, err = io.WriteString(part, content)
			must(t, err)
		}
		must(t, parts.Close())
		a := r.front.ask("POST", "/worker-callback/runs/"+string(id), form.String(), "Authorization", "Bearer cbtok", "Content-Type", parts.FormDataContentType())
		if a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		run := r.ended(id, time.Minute)
		want := []string{"/outputs/view?serve_artifact=wp-1/a_b.png", "/outputs/view?serve_artifact=wp-1/second.png", ""}
		if diff := cmp.Diff(want, itemURLs(run)); diff != "" {
			t.Errorf("items (-want +got):\n%s", diff)
		}
		if len(r.copies("front")) != 2 || run.Items[0].Width != 2 {
			t.Errorf("copies %v", r.copies("front"))
		}
		// A second word that changes nothing leaves no files.
		r.front.ask("POST", "/worker-callback/runs/"+string(id), form.String(), "Authorization", "Bearer cbtok", "Content-Type", parts.FormDataContentType())
		if len(r.copies("front")) != 2 {
			t.Errorf("copies %v", r.copies("front"))
		}
	})
}

func TestStagedFilesOverwriteNothing(t *testing.T) {
	pair(t, setup{}, func(r *rig) {
		send := func(content string) reply {
			payload := `{"prompt": {"1":{"class_type":"LoadImage","inputs":{"image":"same.png"}},"2":{"class_type":"SaveImage","inputs":{"filename_prefix":"t","images":["1",0]}}},
				"outputs": [], "uploads": [{"field_name": "file_0", "comfyui_filename": "same.png", "content_type": "image/png"}]}`
			form, err := protocol.NewForm([]byte(payload), []protocol.File{{Field: "file_0", Name: "same.png", Type: "image/png", Size: int64(len(content)), Open: func() (io.ReadCloser, error) {
				return io.NopCloser(strings.NewReader(content)), nil
			}}})
			must(t, err)
			body, err := io.ReadAll(form)
			must(t, err)
			return r.worker.ask("POST", "/proxy/runs", string(body), "Authorization", "Bearer "+token, "Content-Type", form.ContentType)
		}
		made := r.ended(r.launch("picture"), 20*time.Second)
		other := r.ended(r.launch("batch"), 20*time.Second)
		for _, run := range []*sidecar.Run{made, other, made} {
			if a := send(string(r.front.ask("GET", run.Items[0].URL, "").body) + strings.Repeat(" ", len(run.Items))); a.status != 200 {
				t.Errorf("%d %s", a.status, a.body)
			}
		}
		r.within(10*time.Second, "two files are kept", func() bool { return len(stored(r)) == 2 })
	})
}
