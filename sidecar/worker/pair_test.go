package worker_test

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
	"github.com/comfygit-ai/studio-sidecar/sidecar/protocol"
)

// item is what a gallery item shows of a file.
func itemURLs(run *sidecar.Run) (urls []string) {
	for _, item := range run.Items {
		urls = append(urls, item.URL)
	}
	return urls
}

func TestRunsThroughAWorker(t *testing.T) {
	for _, callbacks := range []bool{false, true} {
		for flow, files := range map[string]int{"picture": 1, "batch": 3, "temp": 1} {
			name := flow
			if callbacks {
				name += "_with_callback"
			}
			t.Run(name, func(t *testing.T) {
				pair(t, setup{callbacks: callbacks}, func(r *rig) {
					run := r.ended(r.launch(flow), 20*time.Second)
					if run.Status != sidecar.StatusCompleted || run.Phase != sidecar.PhaseFinished {
						t.Fatalf("run is %s/%s: %s", run.Status, run.Phase, run.Error)
					}
					urls := itemURLs(run)
					if len(urls) != files || len(r.copies("front")) != files {
						t.Fatalf("items %v, copies %v", urls, r.copies("front"))
					}
					// The files are ours now: the worker is not needed any more.
					r.worker.end()
					for _, url := range urls {
						if a := r.front.ask("GET", url, ""); a.status != 200 || !png(a.body) || a.header.Get("Content-Type") != "image/png" {
							t.Errorf("%s: %d %v", url, a.status, a.header)
						}
					}
					if w, h := run.Items[0].Width, run.Items[0].Height; w != 16 || h != 8 {
						t.Errorf("size %dx%d", w, h)
					}
					if r.posts.Load() != 1 {
						t.Errorf("%d submissions", r.posts.Load())
					}
				})
			})
		}
	}
}

func TestPrefixIsStampedOnce(t *testing.T) {
	pair(t, setup{}, func(r *rig) {
		run := r.ended(r.launch("picture"), 20*time.Second)
		token := run.Prompt.Token()
		if name := run.Items[0].Filename; strings.Count(name, token) != 1 || !strings.HasPrefix(name, "t_"+token+"_") {
			t.Errorf("file %q, token %q", name, token)
		}
	})
}

func TestProgressAndPreviewsComeThrough(t *testing.T) {
	pair(t, setup{fake: fakeWithPreviews()}, func(r *rig) {
		id := r.launch("slow")
		r.within(20*time.Second, "progress and a preview", func() bool {
			live, ok := r.front.studio.Live(id)
			return ok && live.HasProgress && live.Progress.Value > 0 && live.Preview > 0 && live.Heard
		})
		picture, _, err := r.front.studio.Preview("anna", id)
		if err != nil || len(picture.Data) == 0 || !strings.HasPrefix(picture.Type, "image/") {
			t.Errorf("preview %q, %d bytes: %v", picture.Type, len(picture.Data), err)
		}
		run := r.ended(id, 20*time.Second)
		if len(run.Nodes) < 3 {
			t.Errorf("nodes %v", run.Nodes)
		}
	})
}

func TestWorkerArtifactsWithRange(t *testing.T) {
	for _, flow := range []string{"picture", "temp"} {
		pair(t, setup{}, func(r *rig) {
			run := r.ended(r.launch(flow), 20*time.Second)
			auth := []string{"Authorization", "Bearer " + token}
			doc := r.worker.ask("GET", "/proxy/runs/"+string(run.PromptID), "", auth...).json(t)
			url := doc["outputs"].([]any)[0].(map[string]any)["artifacts"].([]any)[0].(map[string]any)["url"].(string)
			whole := r.worker.ask("GET", url, "", auth...)
			part := r.worker.ask("GET", url, "", append(auth, "Range", "bytes=1-3")...)
			if whole.status != 200 || !png(whole.body) || part.status != 206 || string(part.body) != "PNG" {
				t.Errorf("%s: %d, %d %q", flow, whole.status, part.status, part.body)
			}
			for path, want := range map[string]int{url: 403, url + "_9_9": 403, "/proxy/artifacts/artifact_" + strings.Repeat("0", 32): 403} {
				if a := r.worker.ask("GET", path, ""); a.status != want {
					t.Errorf("%s without token: %d", path, a.status)
				}
				if a := r.worker.ask("GET", path, "", auth...); path != url && a.status != 404 {
					t.Errorf("%s: %d", path, a.status)
				}
			}
		})
	}
}

func TestFailuresReachTheFrontDoor(t *testing.T) {
	for _, callbacks := range []bool{false, true} {
		pair(t, setup{callbacks: callbacks}, func(r *rig) {
			run := r.ended(r.launch("broken"), 20*time.Second)
			if run.Status != sidecar.StatusError || run.Code != "comfyui_execution_failed" || !strings.Contains(run.Error, "it broke") || len(run.Slots) != 1 {
				t.Errorf("broken: %s %s %q", run.Status, run.Code, run.Error)
			}
			a := r.front.ask("POST", "/contracts/refused/default/run", `{"wait": true}`)
			if doc := a.json(t); a.status != 400 || doc["error"] != "comfyui_rejected_request" {
				t.Errorf("refused: %d %s", a.status, a.body)
			}
		})
	}
}

func TestWrongToken(t *testing.T) {
	pair(t, setup{frontToken: "other"}, func(r *rig) {
		a := r.front.ask("POST", "/contracts/picture/default/run", `{"wait": true}`)
		if doc := a.json(t); a.status != 502 || doc["error"] != "proxy_unauthorized" {
			t.Errorf("%d %s", a.status, a.body)
		}
		health := r.front.ask("GET", "/health?check_proxy=1", "").json(t)
		if proxy := health["proxy"].(map[string]any); proxy["available"] != false || proxy["error"] == "" {
			t.Errorf("health %v", health)
		}
	})
}

func TestCancelReachesComfyUI(t *testing.T) {
	for _, callbacks := range []bool{false, true} {
		pair(t, setup{callbacks: callbacks}, func(r *rig) {
			id := r.launch("slow")
			r.within(20*time.Second, "it runs", func() bool { return started(r) })
			if a := r.front.ask("POST", "/runs/"+string(id)+"/cancel", ""); a.status != 200 {
				t.Fatalf("cancel: %d %s", a.status, a.body)
			}
			r.within(20*time.Second, "it has settled", func() bool {
				run, err := r.front.store.Run(context.Background(), id)
				return err == nil && run.Phase == sidecar.PhaseFinished
			})
			run := r.ended(id, time.Second)
			far, err := r.worker.store.Run(context.Background(), sidecar.RunOfPrompt(run.Prompt))
			if err != nil || run.Status != sidecar.StatusCancelled || far.Status != sidecar.StatusCancelled || far.Phase != sidecar.PhaseFinished {
				t.Errorf("front %s, worker %+v, %v", run.Status, far, err)
			}
		})
	}
}

func started(r *rig) bool {
	runs, err := r.worker.store.Unfinished(context.Background())
	return err == nil && len(runs) == 1 && runs[0].Phase == sidecar.PhaseExecuting
}

func TestWorkerRestartedInMidRun(t *testing.T) {
	for _, callbacks := range []bool{false, true} {
		pair(t, setup{callbacks: callbacks}, func(r *rig) {
			id := r.launch("slow")
			r.within(20*time.Second, "it runs", func() bool { return started(r) })
			r.worker.end()
			r.startWorker()
			run := r.ended(id, 2*time.Minute)
			if run.Status != sidecar.StatusCompleted || len(r.copies("front")) != 1 || r.posts.Load() != 1 {
				t.Errorf("%s %q, copies %v, %d submissions", run.Status, run.Error, r.copies("front"), r.posts.Load())
			}
		})
	}
}

func TestWorkerHasItsResultsAfterARestart(t *testing.T) {
	pair(t, setup{}, func(r *rig) {
		run := r.ended(r.launch("temp"), 20*time.Second)
		r.worker.end()
		r.startWorker()
		auth := []string{"Authorization", "Bearer " + token}
		doc := r.worker.ask("GET", "/proxy/runs/"+string(run.PromptID), "", auth...).json(t)
		url := doc["outputs"].([]any)[0].(map[string]any)["artifacts"].([]any)[0].(map[string]any)["url"].(string)
		if a := r.worker.ask("GET", url, "", auth...); doc["status"] != "completed" || a.status != 200 || !png(a.body) {
			t.Errorf("%v, %d", doc, a.status)
		}
	})
}

func TestWorkerAwayIsAskedAgain(t *testing.T) {
	pair(t, setup{}, func(r *rig) {
		id := r.launch("slow")
		r.within(20*time.Second, "it runs", func() bool { return started(r) })
		r.worker.end()
		timer := time.NewTimer(3 * time.Minute)
		<-timer.C
		if run, err := r.front.store.Run(context.Background(), id); err != nil || run.Status != sidecar.StatusRunning {
			t.Fatalf("a worker that is away ended the run: %+v, %v", run, err)
		}
		r.startWorker()
		if run := r.ended(id, time.Minute); run.Status != sidecar.StatusCompleted {
			t.Errorf("%s %q", run.Status, run.Error)
		}
	})
}

func TestLostAnswerIsOneRun(t *testing.T) {
	var cut atomic.Bool
	before := func(next http.Handler, w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/proxy/runs" && cut.CompareAndSwap(false, true) {
			next.ServeHTTP(discard{}, req) // it acts, and its answer is lost
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(w, req)
	}
	pair(t, setup{before: before}, func(r *rig) {
		a := r.front.ask("POST", "/contracts/picture/default/run", `{"wait": true}`)
		if a.status != 200 || a.json(t)["status"] != "completed" {
			t.Errorf("%d %s", a.status, a.body)
		}
		if r.posts.Load() != 1 || len(r.fake.Submissions().ByPrompt) != 1 {
			t.Errorf("%d submissions, ComfyUI %+v", r.posts.Load(), r.fake.Submissions())
		}
	})
}

// discard is an answer that nobody gets.
type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) WriteHeader(int)             {}

func TestSubmittingAgainFindsTheRun(t *testing.T) {
	pair(t, setup{}, func(r *rig) {
		auth := []string{"Authorization", "Bearer " + token, protocol.PromptHeader, "01234567-89ab-4def-8123-456789abcdef"}
		body := func(batch int) string {
			return `{"outputs":[{"name":"out","type":"image","node_id":"2"}],"prompt":` + save(batch, `["1",0]`) + `}`
		}
		for range 3 {
			if a := r.worker.ask("POST", "/proxy/runs", body(1), auth...); a.status != 200 || a.json(t)["prompt_id"] != "01234567-89ab-4def-8123-456789abcdef" {
				t.Fatalf("%d %s", a.status, a.body)
			}
		}
		if a := r.worker.ask("POST", "/proxy/runs", body(2), auth...); a.status != 409 {
			t.Errorf("another graph under the same id: %d %s", a.status, a.body)
		}
		r.within(10*time.Second, "one prompt", func() bool { return len(r.fake.Submissions().ByPrompt) == 1 })
	})
}

// TestNumbersKeepTheirDigits: on the whole way, to the ComfyUI of a worker.
func TestNumbersKeepTheirDigits(t *testing.T) {
	const numbers = `"seed":18446744073709551615,"odd":9007199254740993,"cfg":1.0,"count":1`
	pair(t, setup{}, func(r *rig) {
		path := filepath.Join(r.dir, "front", "env", ".cec", "workflow_api", "picture.json")
		graph, err := os.ReadFile(path)
		must(r, err)
		with := bytes.Replace(graph, []byte(`"batch_size":1`), []byte(`"batch_size":1,`+numbers), 1)
		must(r, os.WriteFile(path, with, 0o644))
		if run := r.ended(r.launch("picture"), 20*time.Second); run.Status != sidecar.StatusCompleted {
			t.Errorf("%s %q", run.Status, run.Error)
		}
		sent := slices.ContainsFunc(r.fake.Requests(), func(req comfyfake.Request) bool {
			return req.Method == http.MethodPost && strings.HasSuffix(req.Path, "/prompt") && bytes.Contains(req.Body, []byte(numbers))
		})
		if !sent {
			t.Error("ComfyUI got other numbers")
		}
	})
}

func TestDigestMismatch(t *testing.T) {
	pair(t, setup{digest: "version = \"2\"\n"}, func(r *rig) {
		run := r.ended(r.launch("picture"), 20*time.Second)
		if run.Status != sidecar.StatusCompleted || !strings.Contains(string(run.Issues), "environment_mismatch") {
			t.Errorf("%s, issues %s", run.Status, run.Issues)
		}
		if health := r.front.ask("GET", "/health?check_proxy=1", "").json(t); health["proxy_environment_ref_match"] != false {
			t.Errorf("health %v", health)
		}
	})
	pair(t, setup{digest: "version = \"2\"\n", require: true}, func(r *rig) {
		a := r.front.ask("POST", "/contracts/picture/default/run", `{"wait": true}`)
		if a.status != 502 || a.json(t)["error"] != "proxy_rejected" || r.posts.Load() != 0 {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
	pair(t, setup{require: true}, func(r *rig) {
		if run := r.ended(r.launch("picture"), 20*time.Second); run.Status != sidecar.StatusCompleted || len(run.Issues) != 0 {
			t.Errorf("same digest: %s, issues %s", run.Status, run.Issues)
		}
	})
}

func TestUploadsTravelAlong(t *testing.T) {
	pair(t, setup{}, func(r *rig) {
		made := r.ended(r.launch("picture"), 20*time.Second)
		picture := r.front.ask("GET", made.Items[0].URL, "").body
		slot := r.front.ask("POST", "/uploads/prepare", `{"filename": "in.png", "mime_type": "image/png"}`).json(t)
		if a := r.front.ask("PUT", slot["upload_url"].(string), string(picture)); a.status != 200 {
			t.Fatalf("upload: %d %s", a.status, a.body)
		}
		a := r.front.ask("POST", "/contracts/load/default/run", `{"wait": true, "inputs": {"image": {"kind": "file_ref", "ref": "`+slot["ref"].(string)+`"}}}`)
		if a.status != 200 || a.json(t)["status"] != "completed" {
			t.Fatalf("%d %s", a.status, a.body)
		}
	})
}

func fakeWithPreviews() (o comfyfake.Options) {
	o.Previews = true
	return o
}
