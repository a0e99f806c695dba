package comfyfake_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

func TestFault(t *testing.T) {
	t.Run("delay", func(t *testing.T) {
		within(t, comfyfake.Options{}, func(g *rig) {
			g.fake.Fault(comfyfake.Fault{Kind: comfyfake.Delay, Route: "/queue", Delay: 7 * time.Second})
			at := time.Now()
			if a := g.get("/api/queue"); a.Status != http.StatusOK || time.Since(at) != 7*time.Second {
				g.t.Errorf("%d after %s", a.Status, time.Since(at))
			}
		})
	})
	t.Run("refuse_after_one_for_two_requests", func(t *testing.T) {
		within(t, comfyfake.Options{}, func(g *rig) {
			g.client.Transport.(*http.Transport).DisableKeepAlives = true // else the transport tries again
			g.fake.Fault(comfyfake.Fault{Kind: comfyfake.Refuse, Method: http.MethodGet, After: 1, Times: 2})
			var failed []bool
			for range 4 {
				failed = append(failed, g.get("/queue").Err != nil)
			}
			if d := cmp.Diff([]bool{false, true, true, false}, failed); d != "" {
				g.t.Errorf("failed (-want +got):\n%s", d)
			}
		})
	})
	t.Run("answer_in_place_of_the_route", func(t *testing.T) {
		within(t, comfyfake.Options{}, func(g *rig) {
			g.fake.Fault(comfyfake.Fault{Kind: comfyfake.Answer, Route: "/prompt", Status: http.StatusBadGateway, Body: "no backend", Header: http.Header{"Retry-After": {"3"}}})
			a := g.post("/prompt", body(idA, "a", saveGraph("x")))
			if a.Status != http.StatusBadGateway || a.Body != "no backend" || a.Header.Get("Retry-After") != "3" {
				g.t.Errorf("answer: %+v", a)
			}
			if len(g.fake.Submissions().ByPrompt) != 0 {
				g.t.Error("the route acted")
			}
		})
	})
	t.Run("cut_after_bytes", func(t *testing.T) {
		within(t, comfyfake.Options{}, func(g *rig) {
			g.submit(idA, "a", saveGraph("x"))
			synctest.Wait()
			g.fake.Fault(comfyfake.Fault{Kind: comfyfake.Cut, Route: "/view", Bytes: 10})
			if a := g.get("/view?filename=x_00001_.png"); a.Err == nil || len(a.Body) != 10 {
				g.t.Errorf("%d bytes, err %v", len(a.Body), a.Err)
			}
		})
	})
	t.Run("hang_until_release", func(t *testing.T) {
		within(t, comfyfake.Options{}, func(g *rig) {
			release := g.fake.Fault(comfyfake.Fault{Kind: comfyfake.Hang, Route: "/history/"})
			done := make(chan answer)
			go func() { done <- g.get("/history/" + idA) }()
			pass(time.Hour)
			select {
			case a := <-done:
				g.t.Errorf("answered: %+v", a)
			default:
			}
			release()
			if a := <-done; a.Err == nil {
				g.t.Errorf("after release: %+v", a)
			}
			if a := g.get("/history/" + idA); a.Status != http.StatusOK {
				g.t.Errorf("later: %+v", a)
			}
		})
	})
	t.Run("hang_ends_with_close", func(t *testing.T) {
		within(t, comfyfake.Options{}, func(g *rig) {
			g.fake.Fault(comfyfake.Fault{Kind: comfyfake.Hang})
			done := make(chan answer)
			go func() { done <- g.post("/prompt", body(idA, "a", saveGraph("x"))) }()
			synctest.Wait()
			if err := g.fake.Close(); err != nil {
				g.t.Error(err)
			}
			if a := <-done; a.Err == nil {
				g.t.Errorf("answer: %+v", a)
			}
		})
	})
	t.Run("broken_JSON", func(t *testing.T) {
		within(t, comfyfake.Options{}, func(g *rig) {
			g.fake.Fault(comfyfake.Fault{Kind: comfyfake.BrokenJSON, Route: "/queue"})
			if a := g.get("/queue"); a.Err != nil || a.Status != http.StatusOK || json.Valid([]byte(a.Body)) {
				g.t.Errorf("answer: %+v", a)
			}
		})
	})
	for name, kind := range map[string]comfyfake.Kind{"queued_but_500": comfyfake.ActThenAnswer, "queued_but_cut": comfyfake.ActThenRefuse} {
		t.Run(name, func(t *testing.T) {
			within(t, comfyfake.Options{}, func(g *rig) {
				g.fake.Fault(comfyfake.Fault{Kind: kind, Method: http.MethodPost, Route: "/prompt"})
				a := g.post("/prompt", body(idA, "a", saveGraph("x")))
				if (kind == comfyfake.ActThenAnswer) != (a.Status == http.StatusInternalServerError) || (kind == comfyfake.ActThenRefuse) != (a.Err != nil) {
					g.t.Errorf("answer: %+v", a)
				}
				synctest.Wait()
				if n := g.fake.Submissions().ByPrompt[idA]; n != (comfyfake.Count{Queued: 1, Executed: 1}) {
					g.t.Errorf("counts: %+v", n)
				}
			})
		})
	}
	t.Run("history_lag", func(t *testing.T) {
		within(t, comfyfake.Options{}, func(g *rig) {
			g.fake.Fault(comfyfake.Fault{Kind: comfyfake.HistoryLag, Delay: time.Second})
			c := g.dial("/ws?clientId=a")
			defer c.CloseNow()
			g.submit(idA, "a", saveGraph("x"))
			until(g.t, c, "executing")
			if h := g.get("/history/" + idA); h.Body != "{}" {
				g.t.Errorf("history at once: %s", h.Body)
			}
			pass(2 * time.Second)
			if h := g.get("/history/" + idA); !strings.Contains(h.Body, "success") {
				g.t.Errorf("history later: %s", h.Body)
			}
		})
	})
	t.Run("late_messages_while_the_worker_runs_ahead", func(t *testing.T) {
		within(t, comfyfake.Options{StepDelay: time.Second, Previews: true}, func(g *rig) {
			const late = 20 * time.Second
			g.fake.Fault(comfyfake.Fault{Kind: comfyfake.LateMessages, Delay: late})
			c := g.dial("/ws?clientId=a")
			defer c.CloseNow()
			read(g.t, c)
			at := time.Now()
			g.submit(idA, "a", between(slow))
			pass(time.Second / 2)
			g.submit(idB, "a", between(strings.Replace(slow, "4", "3", 1)))
			pass(late / 2)
			for _, id := range []string{idA, idB} {
				if h := g.get("/history/" + id); !strings.Contains(h.Body, `"success"`) {
					g.t.Errorf("history of %s before its messages: %s", id, h.Body)
				}
			}
			if q := g.get("/queue"); q.Body != `{"queue_running": [], "queue_pending": []}` {
				g.t.Errorf("queue: %s", q.Body)
			}
			e := read(g.t, c)
			for ; e.Type == "status"; e = read(g.t, c) {
				continue
			}
			if got := time.Since(at); e.Type != "execution_start" || got != late {
				g.t.Errorf("%s came after %s", e.Type, got)
			}
			first, second := until(g.t, c, "executing"), until(g.t, c, "executing")
			const a = "execution_cached progress_state executing progress_state progress_state executing status " +
				"progress_state progress frame 1 progress_state progress frame 1 progress_state progress frame 1 progress_state progress frame 1 " +
				"progress_state progress_state executing executed progress_state execution_success status executing"
			const b = "status execution_start execution_cached progress_state executing " +
				"progress_state progress frame 1 progress_state progress frame 1 progress_state progress frame 1 " +
				"progress_state progress_state executing executed progress_state execution_success status executing"
			if d := cmp.Diff([]string{a, b}, []string{types(first), types(second)}); d != "" {
				g.t.Errorf("messages (-want +got):\n%s", d)
			}
			if got := time.Since(at); got != late+7*time.Second {
				g.t.Errorf("the last message came after %s", got)
			}
		})
	})
	t.Run("late_messages_do_not_hold_up_the_end", func(t *testing.T) {
		within(t, comfyfake.Options{}, func(g *rig) {
			g.fake.Fault(comfyfake.Fault{Kind: comfyfake.LateMessages, Delay: time.Hour})
			g.submit(idA, "a", saveGraph("x"))
			synctest.Wait()
			at := time.Now()
			if err := g.fake.Close(); err != nil || time.Since(at) != 0 {
				g.t.Errorf("closed after %s: %v", time.Since(at), err)
			}
		})
	})
	t.Run("clear_disarms_all", func(t *testing.T) {
		within(t, comfyfake.Options{}, func(g *rig) {
			g.fake.Fault(comfyfake.Fault{Kind: comfyfake.Answer, Status: http.StatusTeapot})
			g.fake.ClearFaults()
			if a := g.get("/queue"); a.Status != http.StatusOK {
				g.t.Errorf("status %d", a.Status)
			}
		})
	})
}

func TestRestart(t *testing.T) {
	within(t, comfyfake.Options{}, func(g *rig) {
		g.submit(idA, "a", `{"1":{"class_type":"EmptyImage","inputs":{"width":8,"height":8,"batch_size":1,"color":1}},"2":{"class_type":"PreviewImage","inputs":{"images":["1",0]}},"3":{"class_type":"SaveImage","inputs":{"images":["1",0],"filename_prefix":"x"}}}`)
		synctest.Wait()
		g.fake.Hold()
		g.submit(idB, "a", saveGraph("y"))
		g.submit(idB, "a", saveGraph("z"))
		c := g.dial("/ws?clientId=a")
		read(g.t, c)
		synctest.Wait()
		if err := g.fake.Restart(); err != nil {
			g.t.Fatal(err)
		}
		read1 := func() error { _, _, err := c.Read(g.t.Context()); return err }
		for read1() == nil {
			continue
		}
		g.fake.Release()
		for path, want := range map[string]string{"/history": "{}", "/queue": `{"queue_running": [], "queue_pending": []}`} {
			if a := g.get(path); a.Body != want {
				g.t.Errorf("%s: %s", path, a.Body)
			}
		}
		if a := g.post("/prompt", body("", "", saveGraph("x"))); !strings.Contains(a.Body, `"number": 0`) {
			g.t.Errorf("the counter went on: %s", a.Body)
		}
		synctest.Wait()
		if a := g.get("/view?filename=x_00002_.png"); a.Status != http.StatusOK {
			g.t.Errorf("output names did not go on: %d", a.Status)
		}
	})
}

func TestForget(t *testing.T) {
	within(t, comfyfake.Options{StepDelay: time.Second}, func(g *rig) {
		c := g.dial("/ws?clientId=a")
		defer c.CloseNow()
		g.submit(idA, "a", between(slow))
		pass(1500 * time.Millisecond)
		g.fake.Forget()
		pass(time.Minute)
		if h := g.get("/history/" + idA); h.Body != "{}" {
			g.t.Errorf("history: %s", h.Body)
		}
		g.submit(idB, "a", saveGraph("y"))
		for _, e := range until(g.t, c, "executing") {
			if e.Type == "execution_interrupted" || e.Type == "execution_success" && e.Data["prompt_id"] == idA {
				g.t.Errorf("a forgotten run spoke: %+v", e)
			}
		}
	})
}

func TestRecords(t *testing.T) {
	within(t, comfyfake.Options{}, func(g *rig) {
		post := `{"prompt":` + saveGraph("x") + `,"prompt_id":"` + idA + `","seed":18446744073709551615}`
		g.do(http.MethodPost, "/api/prompt?q=1", post, "X-Test", "yes")
		list := g.fake.Requests()
		if len(list) != 1 || string(list[0].Body) != post || list[0].Path != "/api/prompt" || list[0].Query != "q=1" || list[0].Header.Get("X-Test") != "yes" {
			g.t.Errorf("requests: %+v", list)
		}
		c := g.dial("/ws")
		read(g.t, c)
		if s, n := g.fake.Sockets(), g.fake.Connections(); s != 1 || n < 1 {
			g.t.Errorf("%d sockets, %d connections", s, n)
		}
		c.CloseNow() // only its end matters
	})
}
