package comfyfake_test

import (
	"image/png"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

const whole = "status status execution_start execution_cached progress_state executing progress_state progress_state executing executed progress_state execution_success status executing"

func TestRun(t *testing.T) {
	t.Run("saves_a_picture_with_the_workflow_inside", func(t *testing.T) {
		within(t, comfyfake.Options{}, func(g *rig) {
			post := `{"prompt":` + saveGraph("s01/img") + `,"extra_data":{"extra_pnginfo":{"workflow":{"big":9007199254740993,"one":1.0}}}}`
			if a := g.post("/prompt", post); a.Status != http.StatusOK {
				g.t.Fatalf("POST /prompt: %d %s", a.Status, a.Body)
			}
			synctest.Wait()
			view := g.get("/view?filename=img_00001_.png&subfolder=s01&type=output")
			pic, err := png.Decode(strings.NewReader(view.Body))
			if err != nil || pic.Bounds().Dx() != 64 || pic.Bounds().Dy() != 48 {
				g.t.Errorf("the saved picture: %v %v", err, pic)
			}
			if !strings.Contains(view.Body, "tEXtworkflow\x00"+`{"big": 9007199254740993, "one": 1.0}`) {
				g.t.Error("the picture has no workflow text, or its numbers changed")
			}
		})
	})
	t.Run("says_what_it_does_in_order_and_repeats_from_the_cache", func(t *testing.T) {
		within(t, comfyfake.Options{}, func(g *rig) {
			c := g.dial("/ws?clientId=a")
			defer c.CloseNow()
			read(g.t, c)
			g.submit(idA, "a", saveGraph("x"))
			if got := types(until(g.t, c, "executing")); got != whole {
				g.t.Errorf("messages\n got %s\nwant %s", got, whole)
			}
			g.submit(idB, "a", saveGraph("x"))
			want := "status status execution_start execution_cached executed progress_state execution_success status executing"
			if got := types(until(g.t, c, "executing")); got != want {
				g.t.Errorf("cached messages\n got %s\nwant %s", got, want)
			}
			if h := g.get("/history/" + idB); !strings.Contains(h.Body, "x_00001_.png") {
				g.t.Errorf("a cached run names another file: %s", h.Body)
			}
			if a := g.get("/view?filename=x_00002_.png"); a.Status != http.StatusNotFound {
				g.t.Errorf("a cached run wrote a file: %d", a.Status)
			}
		})
	})
	t.Run("free_drops_the_cache", func(t *testing.T) {
		within(t, comfyfake.Options{}, func(g *rig) {
			g.submit(idA, "a", saveGraph("x"))
			synctest.Wait()
			g.post("/free", `{"free_memory":true}`)
			g.submit(idB, "a", saveGraph("x"))
			synctest.Wait()
			if h := g.get("/history/" + idB); !strings.Contains(h.Body, "x_00002_.png") {
				g.t.Errorf("history after free: %s", h.Body)
			}
		})
	})
	t.Run("history_is_there_before_the_last_message", func(t *testing.T) {
		within(t, comfyfake.Options{StepDelay: time.Second}, func(g *rig) {
			c := g.dial("/ws?clientId=a")
			defer c.CloseNow()
			read(g.t, c) // greeted: who is greeted in mid-run is told the running node too
			g.submit(idA, "a", between(slow))
			until(g.t, c, "executing")
			if h := g.get("/history/" + idA); !strings.Contains(h.Body, `"status_str": "success", "completed": true`) {
				g.t.Errorf("history: %s", h.Body)
			}
		})
	})
	t.Run("an_error_names_node_and_inputs_and_leaves_a_record", func(t *testing.T) {
		within(t, comfyfake.Options{}, func(g *rig) {
			c := g.dial("/ws?clientId=a")
			defer c.CloseNow()
			read(g.t, c) // greeted: who is greeted in mid-run is told the running node too
			g.submit(idA, "a", between(`{"class_type":"TrialError","inputs":{"image":["1",0],"message":"no more paint"}}`))
			events := until(g.t, c, "execution_error")
			e := events[len(events)-1].Data
			if e["exception_message"] != "no more paint\n" || e["exception_type"] != "RuntimeError" || e["node_id"] != "2" || e["node_type"] != "TrialError" {
				g.t.Errorf("execution_error: %v", e)
			}
			until(g.t, c, "executing")
			if h := g.get("/history/" + idA); !strings.Contains(h.Body, `"status_str": "error", "completed": false`) {
				g.t.Errorf("history: %s", h.Body)
			}
		})
	})
}

func TestHold(t *testing.T) {
	t.Run("keeps_a_run_executing_until_release", func(t *testing.T) {
		within(t, comfyfake.Options{}, func(g *rig) {
			g.fake.Hold()
			g.submit(idA, "a", saveGraph("x"))
			synctest.Wait()
			if q := g.get("/queue"); !strings.HasPrefix(q.Body, `{"queue_running": [[0, "`+idA) {
				g.t.Errorf("held run is not in the queue: %s", q.Body)
			}
			if n := g.fake.Submissions().ByPrompt[idA]; n != (comfyfake.Count{Queued: 1, Executed: 1}) {
				g.t.Errorf("counts: %+v", n)
			}
			g.fake.Release()
			synctest.Wait()
			if h := g.get("/history/" + idA); !strings.Contains(h.Body, `"success"`) {
				g.t.Errorf("released run did not end: %s", h.Body)
			}
		})
	})
	t.Run("holds_a_cached_run_too", func(t *testing.T) {
		within(t, comfyfake.Options{}, func(g *rig) {
			g.submit(idA, "a", saveGraph("x"))
			synctest.Wait()
			g.fake.Hold()
			g.submit(idB, "a", saveGraph("x"))
			synctest.Wait()
			if h := g.get("/history/" + idB); h.Body != "{}" {
				g.t.Errorf("a held cached run ended: %s", h.Body)
			}
			g.fake.Release()
		})
	})
}

func TestInterrupt(t *testing.T) {
	running := func(g *rig, graph string) {
		g.submit(idA, "a", graph)
		synctest.Wait()
	}
	history := func(g *rig) string {
		pass(10 * time.Second)
		return g.get("/history/" + idA).Body
	}
	const word = `"execution_interrupted"`
	o := comfyfake.Options{StepDelay: time.Second}
	for name, c := range map[string]struct {
		kind  comfyfake.Kind
		node  string
		body  string
		stops bool
	}{
		"global":                       {node: slow, body: "", stops: true},
		"broken_body_is_global":        {node: slow, body: "{", stops: true},
		"targeted":                     {node: slow, body: `{"prompt_id":"` + idA + `"}`, stops: true},
		"another_id_does_nothing":      {node: slow, body: `{"prompt_id":"` + idB + `"}`, stops: false},
		"old_builds_ignore_the_id":     {kind: comfyfake.OldInterrupt, node: slow, body: `{"prompt_id":"` + idB + `"}`, stops: true},
		"ignored_by_fault":             {kind: comfyfake.IgnoreInterrupt, node: slow, body: "", stops: false},
		"acts_at_the_node_after_sleep": {node: `{"class_type":"TrialSleep","inputs":{"image":["1",0],"seconds":3}}`, body: "", stops: true},
		"deaf_node_goes_on_to_the_end": {node: `{"class_type":"TrialDeaf","inputs":{"image":["1",0],"steps":4}}`, body: "", stops: true},
	} {
		t.Run(name, func(t *testing.T) {
			within(t, o, func(g *rig) {
				if c.kind != 0 {
					g.fake.Fault(comfyfake.Fault{Kind: c.kind})
				}
				running(g, between(c.node))
				if a := g.post("/interrupt", c.body); a.Status != http.StatusOK || a.Body != "" {
					g.t.Errorf("POST /interrupt: %d %q", a.Status, a.Body)
				}
				if got := strings.Contains(history(g), word); got != c.stops {
					g.t.Errorf("interrupted %t, want %t", got, c.stops)
				}
			})
		})
	}
	t.Run("ends_a_held_run", func(t *testing.T) {
		within(t, o, func(g *rig) {
			g.fake.Hold()
			running(g, saveGraph("x"))
			g.post("/interrupt", "")
			if h := history(g); !strings.Contains(h, word) || !strings.Contains(h, `"status_str": "error"`) {
				g.t.Errorf("history: %s", h)
			}
		})
	})
	t.Run("idle_interrupt_does_not_touch_the_next_run", func(t *testing.T) {
		within(t, o, func(g *rig) {
			g.post("/interrupt", "")
			running(g, saveGraph("x"))
			if h := history(g); strings.Contains(h, word) {
				g.t.Errorf("history: %s", h)
			}
		})
	})
}

func TestTrialNodes(t *testing.T) {
	t.Run("a_verbose_blocker_reports_an_error_and_the_run_succeeds", func(t *testing.T) {
		within(t, comfyfake.Options{}, func(g *rig) {
			c := g.dial("/ws?clientId=a")
			defer c.CloseNow()
			read(g.t, c) // greeted: who is greeted in mid-run is told the running node too
			g.submit(idA, "a", between(`{"class_type":"TrialBlocker","inputs":{"image":["1",0],"block":true,"verbose":true}}`))
			got := types(until(g.t, c, "executing"))
			if !strings.HasSuffix(got, "execution_error progress_state execution_success status executing") || strings.Contains(got, "executed") {
				g.t.Errorf("messages: %s", got)
			}
			if h := g.get("/history/" + idA); strings.Contains(h.Body, "Blocked") || !strings.Contains(h.Body, `"outputs": {}, "status": {"status_str": "success"`) {
				g.t.Errorf("history: %s", h.Body)
			}
		})
	})
	t.Run("an_expanded_node_shows_inner_ids_under_its_own", func(t *testing.T) {
		within(t, comfyfake.Options{}, func(g *rig) {
			c := g.dial("/ws?clientId=a")
			defer c.CloseNow()
			read(g.t, c) // greeted: who is greeted in mid-run is told the running node too
			g.submit(idA, "a", between(`{"class_type":"TrialExpand","inputs":{"image":["1",0],"count":2}}`))
			var inner []any
			for _, e := range until(g.t, c, "executing") {
				if e.Type == "executing" && e.Data["display_node"] == "2" {
					inner = append(inner, e.Data["node"])
				}
			}
			if d := cmp.Diff([]any{"2", "2.0.0.1", "2.0.0.2"}, inner); d != "" {
				g.t.Errorf("executing (-want +got):\n%s", d)
			}
		})
	})
	t.Run("a_lazy_node_is_executing_twice_and_leaves_one_branch_alone", func(t *testing.T) {
		within(t, comfyfake.Options{}, func(g *rig) {
			c := g.dial("/ws?clientId=a")
			defer c.CloseNow()
			read(g.t, c) // greeted: who is greeted in mid-run is told the running node too
			g.submit(idA, "a", `{"1":{"class_type":"EmptyImage","inputs":{"width":8,"height":8,"batch_size":1,"color":1}},"2":{"class_type":"EmptyImage","inputs":{"width":8,"height":8,"batch_size":1,"color":2}},"3":{"class_type":"TrialLazy","inputs":{"first":["1",0],"second":["2",0],"use_second":true}},"4":{"class_type":"SaveImage","inputs":{"images":["3",0],"filename_prefix":"x"}}}`)
			var nodes []any
			for _, e := range until(g.t, c, "executing") {
				if e.Type == "executing" {
					nodes = append(nodes, e.Data["node"])
				}
			}
			if d := cmp.Diff([]any{"3", "2", "3", "4", nil}, nodes); d != "" {
				g.t.Errorf("executing (-want +got):\n%s", d)
			}
		})
	})
}
