package comfy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfy"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

func TestLook(t *testing.T) {
	t.Run("sees_queued_executing_done_and_absent", func(t *testing.T) {
		bubble(t, comfyfake.Options{}, comfy.Options{}, func(r *rig) {
			r.fake.Hold()
			a, b, c := job(promptA, picture(1)), job(promptB, picture(2)), job("cccccccc-0000-4000-8000-000000000003", picture(3))
			r.submit(a)
			r.await(a, sidecar.PlaceExecuting)
			r.submit(b)
			r.submit(c)
			if diff := cmp.Diff(sidecar.Sighting{Place: sidecar.PlaceQueued, Position: 2}, r.look(c)); diff != "" {
				r.Error(diff)
			}
			r.fake.Release()
			seen := r.await(c, sidecar.PlaceDone)
			if string(seen.Outputs["2"]) == "" || seen.AllCached {
				r.Errorf("seen: %+v", seen)
			}
			if place := r.look(job("dddddddd-0000-4000-8000-000000000004", picture(4))).Place; place != sidecar.PlaceAbsent {
				r.Errorf("unknown prompt is %s", place)
			}
		})
	})
	t.Run("a_repeat_is_all_cached", func(t *testing.T) {
		bubble(t, comfyfake.Options{}, comfy.Options{}, func(r *rig) {
			a, b := job(promptA, picture(1)), job(promptB, picture(1))
			r.submit(a)
			r.await(a, sidecar.PlaceDone)
			r.submit(b)
			seen := r.await(b, sidecar.PlaceDone)
			if !seen.AllCached || seen.Outputs["2"] == nil {
				r.Errorf("seen: %+v", seen)
			}
		})
	})
	t.Run("part_of_a_repeat_is_not_all_cached", func(t *testing.T) {
		bubble(t, comfyfake.Options{}, comfy.Options{}, func(r *rig) {
			a := job(promptA, picture(1))
			b := job(promptB, strings.Replace(picture(1), `"filename_prefix":"t"`, `"filename_prefix":"u"`, 1))
			r.submit(a)
			r.await(a, sidecar.PlaceDone)
			r.submit(b)
			if seen := r.await(b, sidecar.PlaceDone); seen.AllCached {
				r.Errorf("seen: %+v", seen)
			}
		})
	})
	t.Run("success_on_the_socket_before_history_is_not_absence", func(t *testing.T) {
		bubble(t, comfyfake.Options{}, comfy.Options{}, func(r *rig) {
			defer r.fake.Fault(comfyfake.Fault{Kind: comfyfake.HistoryLag, Delay: 800 * time.Millisecond})()
			r.watch()
			j := job(promptA, picture(1))
			r.submit(j)
			began := time.Now()
			for r.news.count(sidecar.NewsEnding) == 0 {
				r.pass(time.Millisecond)
			}
			for {
				seen := r.look(j)
				if seen.Place == sidecar.PlaceDone {
					break
				}
				if seen.Place != sidecar.PlaceExecuting {
					r.Fatalf("after %v it is %s", time.Since(began), seen.Place)
				}
				r.pass(20 * time.Millisecond)
			}
			if took := time.Since(began); took < 800*time.Millisecond {
				r.Errorf("done after %v", took)
			}
		})
	})
	t.Run("an_end_that_history_never_tells_is_absence_in_the_end", func(t *testing.T) {
		bubble(t, comfyfake.Options{}, comfy.Options{}, func(r *rig) {
			r.watch()
			j := job(promptA, picture(1))
			r.submit(j)
			r.await(j, sidecar.PlaceDone)
			r.fake.Forget()
			r.pass(6 * time.Second)
			if place := r.look(j).Place; place != sidecar.PlaceAbsent {
				r.Errorf("it is %s", place)
			}
		})
	})
	t.Run("an_error_of_execution", func(t *testing.T) {
		bubble(t, comfyfake.Options{}, comfy.Options{}, func(r *rig) {
			graph := `{"1":{"class_type":"EmptyImage","inputs":{"width":8,"height":8,"batch_size":1,"color":1}},` +
				`"5":{"class_type":"TrialError","inputs":{"image":["1",0],"message":"it <broke>"}},` +
				`"2":{"class_type":"SaveImage","inputs":{"images":["5",0],"filename_prefix":"t"}}}`
			j := job(promptA, graph)
			r.submit(j)
			f := r.await(j, sidecar.PlaceFailed).Failure
			if f.Code != "comfyui_execution_failed" || f.Message != "TrialError node 5 failed: it <broke>" || f.Outcome != sidecar.OutcomeFailed {
				r.Errorf("failure: %+v", f)
			}
			var detail struct {
				PromptID, Message string
				Status            struct{ Completed *bool }
				Outputs           map[string]any
			}
			raw := strings.Replace(string(f.Detail), "prompt_id", "PromptID", 1)
			if err := json.Unmarshal([]byte(raw), &detail); err != nil {
				r.Fatal(err)
			}
			if detail.PromptID != string(promptA) || detail.Message != f.Message || detail.Status.Completed == nil || *detail.Status.Completed || detail.Outputs == nil {
				r.Errorf("detail: %s", f.Detail)
			}
		})
	})
	t.Run("an_interrupt_is_no_error", func(t *testing.T) {
		bubble(t, comfyfake.Options{StepDelay: 100 * time.Millisecond}, comfy.Options{}, func(r *rig) {
			j := job(promptA, slow(50))
			r.submit(j)
			r.await(j, sidecar.PlaceExecuting)
			// One that comes just before a prompt begins is lost.
			<-time.After(150 * time.Millisecond)
			if err := r.exec.Cancel(r.Context(), j); err != nil {
				r.Fatal(err)
			}
			if diff := cmp.Diff(sidecar.Sighting{Place: sidecar.PlaceStopped}, r.await(j, sidecar.PlaceStopped)); diff != "" {
				r.Error(diff)
			}
		})
	})
	t.Run("never_asks_for_all_of_history", func(t *testing.T) {
		bubble(t, comfyfake.Options{}, comfy.Options{}, func(r *rig) {
			j := job(promptA, picture(1))
			j.Resumed = true
			r.look(j)
			if _, err := r.exec.Look(r.Context(), job("", picture(1))); err == nil {
				r.Error("looked for a prompt without an id")
			}
			for _, req := range r.requests(http.MethodGet, "/history") {
				if (req.Path == "/history" || req.Path == "/history/") && req.Query != "max_items=64" {
					r.Errorf("asked for %s?%s", req.Path, req.Query)
				}
			}
		})
	})
}

// comfyUI is a ComfyUI whose answers are texts: history by prompt id, the
// latest history, and the queue.
type comfyUI struct {
	history map[string]string
	recent  string
	queue   string
}

func (c comfyUI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	body := "{}"
	switch id, one := strings.CutPrefix(r.URL.EscapedPath(), "/history/"); {
	case one && c.history[id] != "":
		body = c.history[id]
	case r.URL.Path == "/history" && c.recent != "":
		body = c.recent
	case r.URL.Path == "/queue":
		body = c.queue
		if body == "" {
			body = `{"queue_running":[],"queue_pending":[]}`
		}
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	io.WriteString(w, body)
}

// recorded is a ComfyUI whose history has one record.
func recorded(record string) comfyUI {
	return comfyUI{history: map[string]string{string(promptA): fmt.Sprintf(`{%q:%s}`, promptA, record)}}
}

func TestLookReadsRecords(t *testing.T) {
	failed := func(message, hint string) *sidecar.Failure {
		return &sidecar.Failure{Code: "comfyui_execution_failed", Message: message, Hint: hint, Outcome: sidecar.OutcomeFailed}
	}
	const silent = "ComfyUI gave no reason; see its log."
	withError := func(word, data string) string {
		return fmt.Sprintf(`{"outputs":{},"status":{"status_str":%q,"messages":[["execution_start",{}],["execution_error",%s]]}}`, word, data)
	}
	for name, c := range map[string]struct {
		record string
		want   sidecar.Sighting
	}{
		"no_status_is_success":       {`{"outputs":{"2":{"images":[]}},"status":null}`, sidecar.Sighting{Place: sidecar.PlaceDone, Outputs: map[string]json.RawMessage{"2": json.RawMessage(`{"images":[]}`)}}},
		"a_text_status_is_success":   {`{"status":"error"}`, sidecar.Sighting{Place: sidecar.PlaceDone, Outputs: map[string]json.RawMessage{}}},
		"an_unknown_word_is_success": {`{"outputs":[],"status":{"status_str":"weird"}}`, sidecar.Sighting{Place: sidecar.PlaceDone, Outputs: map[string]json.RawMessage{}}},
		"failed_without_messages":    {`{"status":{"status_str":"failed","messages":[]}}`, sidecar.Sighting{Place: sidecar.PlaceFailed, Failure: failed("failed", silent)}},
		"error_in_capitals":          {`{"status":{"status_str":"ERROR"}}`, sidecar.Sighting{Place: sidecar.PlaceFailed, Failure: failed("ERROR", silent)}},
		"a_cycle_says_success":       {withError("success", `{"exception_message":"late"}`), sidecar.Sighting{Place: sidecar.PlaceFailed, Failure: failed("late", "")}},
		"blocked_is_not_failed":      {withError("success", `{"exception_message":"no","exception_type":"ExecutionBlocked"}`), sidecar.Sighting{Place: sidecar.PlaceDone, Outputs: map[string]json.RawMessage{}}},
		"interrupted":                {`{"status":{"status_str":"error","completed":false,"messages":[["execution_interrupted",{}]]}}`, sidecar.Sighting{Place: sidecar.PlaceStopped}},
		"a_blank_message":            {withError("error", `{"node_type":"SaveImage","node_id":2,"exception_message":" ","exception_type":"RuntimeError"}`), sidecar.Sighting{Place: sidecar.PlaceFailed, Failure: failed("SaveImage node 2 failed: RuntimeError", "")}},
		"nothing_but_the_node":       {withError("error", `{"node_type":"SaveImage","node_id":"2","exception_message":null,"exception_type":null}`), sidecar.Sighting{Place: sidecar.PlaceFailed, Failure: failed("SaveImage node 2 failed: ComfyUI execution failed", "")}},
		"no_class":                   {withError("error", `{"exception_message":"m","node_type":null,"node_id":"2"}`), sidecar.Sighting{Place: sidecar.PlaceFailed, Failure: failed("m", "")}},
		"no_node_id":                 {withError("error", `{"exception_message":"m\n","node_type":"VAE"}`), sidecar.Sighting{Place: sidecar.PlaceFailed, Failure: failed("VAE failed: m", "")}},
		"other_key":                  {withError("error", `{"exception_message":null,"message":"alt","node_type":"S","node_id":"2"}`), sidecar.Sighting{Place: sidecar.PlaceFailed, Failure: failed("S node 2 failed: alt", "")}},
		"out_of_memory":              {withError("error", `{"exception_message":"CUDA","exception_type":"torch.OutOfMemoryError"}`), sidecar.Sighting{Place: sidecar.PlaceFailed, Failure: failed("CUDA", "ComfyUI ran out of memory. Try a smaller size or batch, or free its models.")}},
		"a_missing_file":             {withError("error", `{"exception_message":"x","exception_type":"FileNotFoundError"}`), sidecar.Sighting{Place: sidecar.PlaceFailed, Failure: failed("x", "A file that the workflow names is missing where ComfyUI runs.")}},
		"odd_messages": {`{"outputs":7,"status":{"status_str":["x"],"messages":[3,[],["execution_error"],["execution_error",5],[7,{}],{"a":1}]}}`,
			sidecar.Sighting{Place: sidecar.PlaceDone, Outputs: map[string]json.RawMessage{}}},
		"all_outputs_cached": {`{"prompt":[1,"x",{},{},["2","3"]],"status":{"status_str":"success","messages":[["execution_cached",{"nodes":["1","2",3]}]]}}`,
			sidecar.Sighting{Place: sidecar.PlaceDone, Outputs: map[string]json.RawMessage{}, AllCached: true}},
		"one_output_computed": {`{"prompt":[1,"x",{},{},["2","4"]],"status":{"status_str":"success","messages":[["execution_cached",{"nodes":["1","2"]}]]}}`,
			sidecar.Sighting{Place: sidecar.PlaceDone, Outputs: map[string]json.RawMessage{}}},
		"numbers_that_are_none": {`{"outputs":{"2":{"a":[NaN,-Infinity,Infinity,"NaN \"NaN"]}},"status":{"status_str":"success"}}`,
			sidecar.Sighting{Place: sidecar.PlaceDone, Outputs: map[string]json.RawMessage{"2": json.RawMessage(`{"a":[null,null,null,"NaN \"NaN"]}`)}}},
		"no_outputs_at_all": {`{"prompt":[1,"x",{},{},[]],"status":{"status_str":"success","messages":[["execution_cached",{"nodes":["1"]}]]}}`,
			sidecar.Sighting{Place: sidecar.PlaceDone, Outputs: map[string]json.RawMessage{}}},
	} {
		t.Run(name, func(t *testing.T) {
			scripted(t, recorded(c.record), comfy.Options{}, func(t *testing.T, exec *comfy.Executor) {
				seen, err := exec.Look(t.Context(), job(promptA, picture(1)))
				if err != nil {
					t.Fatal(err)
				}
				if seen.Failure != nil {
					seen.Failure.Detail = nil
				}
				if diff := cmp.Diff(c.want, seen); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestLookConcludesNothingFromABadAnswer(t *testing.T) {
	for name, c := range map[string]comfyUI{
		"broken_history": {history: map[string]string{string(promptA): `{`}},
		"html_history":   {history: map[string]string{string(promptA): `<html>`}},
		"a_list":         {history: map[string]string{string(promptA): `[1]`}},
		"another_prompt": {history: map[string]string{string(promptA): `{"other":{"outputs":{}}}`}},
		"a_null_record":  {history: map[string]string{string(promptA): fmt.Sprintf(`{%q:null}`, promptA)}},
		"a_large_queue":  {queue: `{"queue_running":[],"queue_pending":["` + strings.Repeat("x", 1<<20) + `"]}`},
		"broken_queue":   {queue: `{"queue_running":[[`},
		"no_queue":       {queue: `{}`},
		"null_queue":     {queue: `{"queue_running":null,"queue_pending":[]}`},
	} {
		t.Run(name, func(t *testing.T) {
			scripted(t, c, comfy.Options{}, func(t *testing.T, exec *comfy.Executor) {
				exec.LimitRecords(1 << 20)
				seen, err := exec.Look(t.Context(), job(promptA, picture(1)))
				if err == nil {
					t.Errorf("concluded %+v", seen)
				}
			})
		})
	}
	for _, status := range []int{404, 500, 503} {
		t.Run(fmt.Sprint("status_", status), func(t *testing.T) {
			scripted(t, answers(status, "application/json", `{"error":"gone"}`), comfy.Options{}, func(t *testing.T, exec *comfy.Executor) {
				_, err := exec.Look(t.Context(), job(promptA, picture(1)))
				unsure, ok := errors.AsType[*sidecar.UnsureError](err)
				if !ok || unsure.Failure.Status != status || unsure.Failure.Message != "gone" {
					t.Errorf("err = %#v", err)
				}
			})
		})
	}
	t.Run("a_cut_is_no_absence", func(t *testing.T) {
		bubble(t, comfyfake.Options{}, comfy.Options{}, func(r *rig) {
			defer r.fake.Fault(comfyfake.Fault{Kind: comfyfake.Refuse, Route: "/queue"})()
			_, err := r.exec.Look(r.Context(), job(promptA, picture(1)))
			if _, ok := errors.AsType[*sidecar.UnreachableError](err); !ok {
				r.Errorf("err = %#v", err)
			}
		})
	})
}

func TestLookDoesNotAskForEver(t *testing.T) {
	large := comfyUI{history: map[string]string{string(promptA): `{"x":"` + strings.Repeat("x", 1<<20) + `"}`}}
	scripted(t, large, comfy.Options{}, func(t *testing.T, exec *comfy.Executor) {
		exec.LimitRecords(1 << 20)
		seen, err := exec.Look(t.Context(), job(promptA, picture(1)))
		if err != nil || seen.Place != sidecar.PlaceFailed || !strings.Contains(seen.Failure.Message, "larger than 1 MiB") {
			t.Errorf("%+v %v", seen, err)
		}
	})
}

func TestLookFindsTheQueuePosition(t *testing.T) {
	queue := fmt.Sprintf(`{"queue_running":[[5,"r",{},{},[]]],"queue_pending":[[6,"a",{},{},[]],[9,"z",{},{},[]],[7.5,%q,{},{},[]],[-3.0,"f",{},{},[]],[7.5,"zz",{},{},[]],"odd"]}`, promptA)
	scripted(t, comfyUI{queue: queue}, comfy.Options{}, func(t *testing.T, exec *comfy.Executor) {
		seen, err := exec.Look(t.Context(), job(promptA, picture(1)))
		// The running one, "f" that jumped the queue, "a", and the odd one: it
		// has no number, which counts as zero.
		if diff := cmp.Diff(sidecar.Sighting{Place: sidecar.PlaceQueued, Position: 4}, seen); diff != "" || err != nil {
			t.Error(diff, err)
		}
	})
}

func TestLookEscapesIDs(t *testing.T) {
	const odd = "a/b?c#d é"
	scripted(t, comfyUI{history: map[string]string{"a%2Fb%3Fc%23d%20%C3%A9": fmt.Sprintf(`{%q:{}}`, odd)}}, comfy.Options{}, func(t *testing.T, exec *comfy.Executor) {
		seen, err := exec.Look(t.Context(), job(odd, picture(1)))
		if err != nil || seen.Place != sidecar.PlaceDone {
			t.Errorf("%+v, %v", seen, err)
		}
	})
}

func TestLookFindsARenamedPromptByItsRun(t *testing.T) {
	j := job(promptA, picture(1))
	item := fmt.Sprintf(`[3,"renamed",{},{"studio_run":%q},["2"]]`, j.Run)
	for name, c := range map[string]struct {
		comfy comfyUI
		want  sidecar.Place
	}{
		"in_the_queue": {comfyUI{queue: `{"queue_running":[[1,"x",{},{"studio_run":"run_x"},[]]],"queue_pending":[` + item + `]}`}, sidecar.PlaceQueued},
		"running":      {comfyUI{queue: `{"queue_running":[` + item + `],"queue_pending":[]}`}, sidecar.PlaceExecuting},
		"in_history":   {comfyUI{recent: `{"x":{"prompt":7},"renamed":{"prompt":` + item + `}}`}, sidecar.PlaceDone},
		"nowhere":      {comfyUI{recent: `{"x":{"prompt":[1,"x",{},{"studio_run":"run_x"},[]]}}`}, sidecar.PlaceAbsent},
	} {
		t.Run(name, func(t *testing.T) {
			scripted(t, c.comfy, comfy.Options{}, func(t *testing.T, exec *comfy.Executor) {
				j.Resumed = false
				if seen, err := exec.Look(t.Context(), j); err != nil || seen.Place != sidecar.PlaceAbsent {
					t.Errorf("not resumed: %+v, %v", seen, err)
				}
				j.Resumed = true
				if seen, err := exec.Look(t.Context(), j); err != nil || seen.Place != c.want {
					t.Errorf("resumed: %+v, %v", seen, err)
				}
			})
		})
	}
	t.Run("of_as_many_records_as_fit", func(t *testing.T) {
		big := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ui := comfyUI{recent: `{"renamed":{"prompt":` + item + `}}`}
			if n := r.URL.Query().Get("max_items"); n == "64" || n == "16" {
				ui.recent = `{"x":"` + strings.Repeat("x", 1<<20) + `"}`
			}
			ui.ServeHTTP(w, r)
		})
		scripted(t, big, comfy.Options{}, func(t *testing.T, exec *comfy.Executor) {
			exec.LimitRecords(1 << 20)
			j.Resumed = true
			if seen, err := exec.Look(t.Context(), j); err != nil || seen.Place != sidecar.PlaceDone {
				t.Errorf("%+v, %v", seen, err)
			}
		})
	})
	t.Run("never_that_of_a_run_without_a_name", func(t *testing.T) {
		ui := comfyUI{queue: `{"queue_running":[[1,"x",{},{},[]]],"queue_pending":[]}`, recent: `{"x":{"prompt":[1,"x",{},{},[]]}}`}
		scripted(t, ui, comfy.Options{}, func(t *testing.T, exec *comfy.Executor) {
			if seen, err := exec.Look(t.Context(), sidecar.Job{Prompt: promptA, Resumed: true}); err != nil || seen.Place != sidecar.PlaceAbsent {
				t.Errorf("%+v, %v", seen, err)
			}
		})
	})
	t.Run("the_name_is_kept_for_history", func(t *testing.T) {
		ui := &changing{comfyUI: comfyUI{queue: `{"queue_running":[` + item + `],"queue_pending":[]}`}}
		scripted(t, ui, comfy.Options{}, func(t *testing.T, exec *comfy.Executor) {
			j.Resumed = true
			if _, err := exec.Look(t.Context(), j); err != nil {
				t.Fatal(err)
			}
			ui.comfyUI = comfyUI{history: map[string]string{"renamed": `{"renamed":{}}`}}
			j.Resumed = false
			if seen, err := exec.Look(t.Context(), j); err != nil || seen.Place != sidecar.PlaceDone {
				t.Errorf("%+v, %v", seen, err)
			}
		})
	})
}

type changing struct{ comfyUI }

func (c *changing) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.comfyUI.ServeHTTP(w, r) }
