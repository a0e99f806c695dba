package comfyfake_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

func TestJobs(t *testing.T) {
	newer := comfyfake.Options{Generation: comfyfake.V0_33_0, StepDelay: time.Second}
	t.Run("are_absent_in_the_older_generation", func(t *testing.T) {
		within(t, comfyfake.Options{}, func(g *rig) {
			if a, b := g.get("/api/jobs"), g.post("/api/jobs/cancel", `{"job_ids":[]}`); a.Status != http.StatusNotFound || b.Status != http.StatusMethodNotAllowed {
				g.t.Errorf("%d %d", a.Status, b.Status)
			}
		})
	})
	t.Run("lists_and_tells_states_apart", func(t *testing.T) {
		within(t, newer, func(g *rig) {
			ids := []string{"00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002", "00000000-0000-4000-8000-000000000003", idA, idB}
			g.submit(ids[0], "a", saveGraph("x"))
			synctest.Wait()
			g.submit(ids[1], "a", between(`{"class_type":"TrialError","inputs":{"image":["1",0],"message":"no"}}`))
			synctest.Wait()
			g.submit(ids[2], "a", between(slow))
			pass(time.Millisecond)
			if a := g.post("/api/jobs/"+ids[2]+"/cancel", ""); a.Body != `{"cancelled": true}` {
				g.t.Errorf("cancel: %s", a.Body)
			}
			pass(time.Minute)
			g.fake.Hold()
			g.submit(ids[3], "a", saveGraph("y"))
			synctest.Wait()
			g.submit(ids[4], "a", saveGraph("z"))
			for i, want := range []string{"completed", "failed", "cancelled", "in_progress", "pending"} {
				a := g.get("/api/jobs/" + ids[i])
				if !strings.HasPrefix(a.Body, `{"id": "`+ids[i]+`", "status": "`+want+`"`) {
					g.t.Errorf("job %d is not %s: %s", i, want, a.Body)
				}
				if l := g.get("/api/jobs?status=" + want); !strings.Contains(l.Body, ids[i]) || !strings.Contains(l.Body, `"total": 1`) {
					g.t.Errorf("list of %s: %s", want, l.Body)
				}
			}
			if l := g.get("/api/jobs?limit=2&offset=1"); !strings.Contains(l.Body, `"pagination": {"offset": 1, "limit": 2, "total": 5, "has_more": true}`) {
				g.t.Errorf("page: %s", l.Body)
			}
			if a := g.get("/api/jobs/" + ids[0]); !strings.Contains(a.Body, `"preview_output": {"filename": "x_00001_.png", "subfolder": "", "type": "output", "nodeId": "2", "mediaType": "images"}`) {
				g.t.Errorf("detail: %s", a.Body)
			}
			if a := g.post("/api/jobs/cancel", `{"job_ids":["`+ids[4]+`"]}`); a.Body != `{"cancelled": true}` {
				g.t.Errorf("cancel pending: %s", a.Body)
			}
			if a := g.get("/api/jobs/" + ids[4]); a.Status != http.StatusNotFound || a.Body != `{"error": "Job not found"}` {
				g.t.Errorf("cancelled pending: %d %s", a.Status, a.Body)
			}
			g.fake.Release()
		})
	})
	t.Run("answers_bad_queries_in_words", func(t *testing.T) {
		within(t, newer, func(g *rig) {
			for query, want := range map[string]string{
				"status=bogus,x": "Invalid status value(s): bogus, x. Valid values: pending, in_progress, completed, failed, cancelled",
				"sort_by=x":      "sort_by must be 'created_at' or 'execution_duration'",
				"sort_order=x":   "sort_order must be 'asc' or 'desc'",
				"limit=0":        "limit must be a positive integer",
				"limit=1.5":      "limit must be an integer",
				"offset=x":       "offset must be an integer",
			} {
				if a := g.get("/api/jobs?" + query); a.Status != http.StatusBadRequest || a.Body != `{"error": "`+want+`"}` {
					g.t.Errorf("%s: %d %s", query, a.Status, a.Body)
				}
			}
		})
	})
	t.Run("cancels_none_if_one_id_is_bad", func(t *testing.T) {
		within(t, newer, func(g *rig) {
			g.fake.Hold()
			g.submit(idA, "a", saveGraph("x"))
			synctest.Wait()
			a := g.post("/api/jobs/cancel", `{"job_ids":["`+idA+`",null,"X"]}`)
			if a.Status != http.StatusBadRequest || a.Body != `{"error": "job_ids contains invalid id(s)", "invalid_ids": ["None", "X"]}` {
				g.t.Errorf("answer: %d %s", a.Status, a.Body)
			}
			g.fake.Release()
			synctest.Wait()
			if h := g.get("/history/" + idA); !strings.Contains(h.Body, `"success"`) {
				g.t.Errorf("history: %s", h.Body)
			}
		})
	})
	t.Run("one_null_workflow_poisons_the_lists_it_is_in", func(t *testing.T) {
		within(t, newer, func(g *rig) {
			post := strings.TrimSuffix(body(idA, "a", saveGraph("x")), "}") + `,"extra_data":{"extra_pnginfo":null}}`
			g.post("/prompt", post)
			synctest.Wait()
			for path, want := range map[string]int{"/api/jobs": 500, "/api/jobs/" + idA: 500, "/api/jobs?status=pending": 200, "/api/jobs?status=failed": 500, "/history/" + idA: 200} {
				if a := g.get(path); a.Status != want {
					g.t.Errorf("%s: %d, want %d", path, a.Status, want)
				}
			}
			g.post("/history", `{"delete":["`+idA+`"]}`)
			if a := g.get("/api/jobs"); a.Status != http.StatusOK {
				g.t.Errorf("after delete: %d", a.Status)
			}
		})
	})
	t.Run("keys_of_users_are_never_shown", func(t *testing.T) {
		within(t, newer, func(g *rig) {
			g.fake.Hold()
			g.post("/prompt", strings.TrimSuffix(body(idA, "a", saveGraph("x")), "}")+`,"extra_data":{"api_key_comfy_org":"hush"}}`)
			synctest.Wait()
			if q := g.get("/queue"); strings.Contains(q.Body, "hush") || !strings.Contains(q.Body, "create_time") {
				g.t.Errorf("queue: %s", q.Body)
			}
			g.fake.Release()
		})
	})
}
