package comfy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfy"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

// comfies are the generations to cancel on: with and without jobs, and one
// whose interrupt stops whatever runs.
var comfies = map[string]struct {
	generation comfyfake.Generation
	faults     []comfyfake.Fault
}{
	"with_jobs":     {generation: comfyfake.V0_33_0},
	"without_jobs":  {generation: comfyfake.V0_3_64},
	"old_interrupt": {generation: comfyfake.V0_3_64, faults: []comfyfake.Fault{{Kind: comfyfake.OldInterrupt}}},
	"poisoned_jobs": {generation: comfyfake.V0_33_0, faults: []comfyfake.Fault{{Kind: comfyfake.Answer, Method: http.MethodGet, Route: "/jobs", Status: 500}}},
	"jobs_but_no_cancel": {generation: comfyfake.V0_33_0, faults: []comfyfake.Fault{
		{Kind: comfyfake.Answer, Method: http.MethodPost, Route: "/jobs/" + string(promptA) + "/cancel", Status: 405},
		{Kind: comfyfake.Answer, Method: http.MethodPost, Route: "/jobs/" + string(promptB) + "/cancel", Status: 404},
	}},
}

func TestCancel(t *testing.T) {
	for name, c := range comfies {
		within := func(t *testing.T, test func(*rig)) {
			bubble(t, comfyfake.Options{Generation: c.generation, StepDelay: 100 * time.Millisecond}, comfy.Options{}, func(r *rig) {
				for _, f := range c.faults {
					defer r.fake.Fault(f)()
				}
				test(r)
			})
		}
		t.Run(name+"/of_a_queued_one_never_stops_the_running_one", func(t *testing.T) {
			within(t, func(r *rig) {
				a, b := job(promptA, slow(20)), job(promptB, slow(21))
				r.submit(a)
				r.await(a, sidecar.PlaceExecuting)
				r.submit(b)
				if err := r.exec.Cancel(r.Context(), b); err != nil {
					r.Fatal(err)
				}
				if place := r.look(b).Place; place != sidecar.PlaceAbsent {
					r.Errorf("b is %s", place)
				}
				r.await(a, sidecar.PlaceDone)
				if n := len(r.requests(http.MethodPost, "/interrupt")); n != 0 {
					r.Errorf("%d interrupts", n)
				}
			})
		})
		t.Run(name+"/stops_the_running_one_and_lets_the_next_run", func(t *testing.T) {
			within(t, func(r *rig) {
				a, b := job(promptA, slow(20)), job(promptB, slow(21))
				r.submit(a)
				r.await(a, sidecar.PlaceExecuting)
				r.submit(b)
				r.interrupt(a)
				r.await(b, sidecar.PlaceDone)
			})
		})
		t.Run(name+"/of_an_ended_or_unknown_one_does_nothing", func(t *testing.T) {
			within(t, func(r *rig) {
				a, b := job(promptA, picture(1)), job(promptB, slow(20))
				r.submit(a)
				r.await(a, sidecar.PlaceDone)
				r.submit(b)
				r.await(b, sidecar.PlaceExecuting)
				unknown := job("cccccccc-0000-4000-8000-000000000003", picture(1))
				if err := errors.Join(r.exec.Cancel(r.Context(), a), r.exec.Cancel(r.Context(), unknown)); err != nil {
					r.Fatal(err)
				}
				r.await(b, sidecar.PlaceDone)
				if n := len(r.requests(http.MethodPost, "/interrupt")) + len(r.requests(http.MethodPost, "/queue")); n != 0 {
					r.Errorf("%d orders", n)
				}
			})
		})
	}
	t.Run("the_interrupt_names_the_prompt", func(t *testing.T) {
		bubble(t, comfyfake.Options{StepDelay: 100 * time.Millisecond}, comfy.Options{}, func(r *rig) {
			a := job(promptA, slow(20))
			r.submit(a)
			r.await(a, sidecar.PlaceExecuting)
			if err := r.exec.Cancel(r.Context(), a); err != nil {
				r.Fatal(err)
			}
			var body map[string]string
			if err := json.Unmarshal(r.requests(http.MethodPost, "/interrupt")[0].Body, &body); err != nil {
				r.Fatal(err)
			}
			if diff := cmp.Diff(map[string]string{"prompt_id": string(promptA)}, body); diff != "" {
				r.Error(diff)
			}
		})
	})
	t.Run("what_it_can_is_asked_once_by_GET", func(t *testing.T) {
		bubble(t, comfyfake.Options{}, comfy.Options{}, func(r *rig) {
			for range 3 {
				if err := r.exec.Cancel(r.Context(), job(promptA, picture(1))); err != nil {
					r.Fatal(err)
				}
			}
			if asked := r.requests(http.MethodGet, "/api/jobs"); len(asked) != 1 || asked[0].Query != "status=pending&limit=1" {
				r.Errorf("asked %d times", len(asked))
			}
			if n := len(r.requests(http.MethodPost, "/api/jobs")); n != 0 {
				r.Errorf("%d posts to a route that is missing", n)
			}
		})
	})
	for name, generation := range map[string]comfyfake.Generation{"with_jobs": comfyfake.V0_33_0, "without_jobs": comfyfake.V0_3_64} {
		t.Run(name+"/an_order_that_comes_after_the_end_stops_nobody_else", func(t *testing.T) {
			bubble(t, comfyfake.Options{Generation: generation, StepDelay: 100 * time.Millisecond}, comfy.Options{}, func(r *rig) {
				a, next := job(promptA, slow(10)), job(promptB, slow(21))
				r.submit(a)
				r.await(a, sidecar.PlaceExecuting)
				r.submit(next)
				for _, route := range []string{"/interrupt", "/queue", "/jobs/" + string(promptA) + "/cancel"} {
					defer r.fake.Fault(comfyfake.Fault{Kind: comfyfake.Delay, Method: http.MethodPost, Route: route, Delay: 2 * time.Second})()
				}
				if err := r.exec.Cancel(r.Context(), a); err != nil {
					r.Fatal(err)
				}
				if place := r.look(a).Place; place != sidecar.PlaceDone {
					r.Errorf("the order came in time: it is %s", place)
				}
				r.await(next, sidecar.PlaceDone)
			})
		})
	}
	t.Run("a_prompt_that_starts_meanwhile_is_followed", func(t *testing.T) {
		bubble(t, comfyfake.Options{StepDelay: 100 * time.Millisecond}, comfy.Options{}, func(r *rig) {
			a, b := job(promptA, picture(1)), job(promptB, slow(50))
			r.fake.Hold()
			r.submit(a)
			r.await(a, sidecar.PlaceExecuting)
			r.submit(b)
			// The order to drop b arrives late: b has begun by then.
			defer r.fake.Fault(comfyfake.Fault{Kind: comfyfake.Delay, Method: http.MethodPost, Route: "/queue", Delay: time.Second, Times: 1})()
			cancelled := make(chan error, 1)
			go func() { cancelled <- r.exec.Cancel(r.Context(), b) }()
			r.pass(500 * time.Millisecond)
			r.fake.Release()
			if err := <-cancelled; err != nil {
				r.Fatal(err)
			}
			r.await(b, sidecar.PlaceStopped)
		})
	})
}

func TestCancelRefused(t *testing.T) {
	for _, c := range []struct {
		name       string
		generation comfyfake.Generation
		route, url string
		running    bool
	}{
		{"the_queue", comfyfake.V0_3_64, "/queue", "/queue", false},
		{"the_interrupt", comfyfake.V0_3_64, "/interrupt", "/interrupt", true},
		{"the_job", comfyfake.V0_33_0, "/jobs/" + string(promptA) + "/cancel", "/api/jobs/" + string(promptA) + "/cancel", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, comfyfake.Options{Generation: c.generation}, comfy.Options{}, func(r *rig) {
				r.fake.Hold()
				a, b := job(promptA, picture(1)), job(promptB, picture(2))
				r.submit(b)
				r.await(b, sidecar.PlaceExecuting)
				r.submit(a)
				if c.running {
					r.interrupt(b)
					r.await(a, sidecar.PlaceExecuting)
				}
				release := r.fake.Fault(comfyfake.Fault{Kind: comfyfake.Answer, Method: http.MethodPost, Route: c.route, Status: 500, Body: "no"})
				err := r.exec.Cancel(r.Context(), a)
				refused, ok := errors.AsType[*sidecar.RefusedError](err)
				if !ok {
					r.Fatalf("err = %#v", err)
				}
				want := sidecar.Failure{
					Code: "comfyui_rejected_cancel", Message: "no", Status: 500, URL: base + c.url, Detail: json.RawMessage(`{"message":"no"}`),
				}
				if diff := cmp.Diff(want, refused.Failure); diff != "" {
					r.Error(diff)
				}
				release()
				if err := r.exec.Cancel(r.Context(), a); err != nil {
					r.Errorf("the second try: %v", err)
				}
			})
		})
	}
	t.Run("nobody_there", func(t *testing.T) {
		exec := comfy.New(comfy.Options{URL: "http://127.0.0.1:9"})
		defer exec.Close()
		err := exec.Cancel(t.Context(), job(promptA, picture(1)))
		if _, ok := errors.AsType[*sidecar.UnreachableError](err); !ok {
			t.Errorf("err = %#v", err)
		}
	})
	t.Run("an_order_without_an_answer_is_unsure", func(t *testing.T) {
		bubble(t, comfyfake.Options{}, comfy.Options{}, func(r *rig) {
			r.fake.Hold()
			a := job(promptA, picture(1))
			r.submit(a)
			r.await(a, sidecar.PlaceExecuting)
			defer r.fake.Fault(comfyfake.Fault{Kind: comfyfake.ActThenRefuse, Route: "/interrupt"})()
			err := r.exec.Cancel(r.Context(), a)
			if _, ok := errors.AsType[*sidecar.UnsureError](err); !ok {
				r.Errorf("err = %#v", err)
			}
		})
	})
}

func TestCancelFindsARenamedPrompt(t *testing.T) {
	j := job(promptA, picture(1))
	j.Resumed = true
	orders := ""
	ui := comfyUI{queue: `{"queue_running":[[3,"renamed",{},{"studio_run":"` + string(j.Run) + `"},["2"]]],"queue_pending":[]}`}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			body, err := io.ReadAll(r.Body)
			orders += fmt.Sprint(r.URL.Path, " ", string(body), err)
			return
		}
		ui.ServeHTTP(w, r)
	})
	scripted(t, handler, comfy.Options{}, func(t *testing.T, exec *comfy.Executor) {
		if err := exec.Cancel(t.Context(), j); err != nil {
			t.Fatal(err)
		}
	})
	if orders != `/interrupt {"prompt_id":"renamed"}<nil>` {
		t.Errorf("orders: %s", orders)
	}
}
