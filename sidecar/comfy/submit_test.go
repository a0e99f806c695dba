package comfy_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfy"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

func TestSubmit(t *testing.T) {
	t.Run("sends_the_graph_as_it_is", func(t *testing.T) {
		bubble(t, comfyfake.Options{}, comfy.Options{}, func(r *rig) {
			r.watch()
			graph := strings.Replace(picture(5), `"color":5`, `"color":  5, "note":"<&>", "seed":18446744073709551615, "cfg":1.0`, 1)
			a := r.submit(job(promptA, graph))
			if diff := cmp.Diff(sidecar.Acceptance{PromptID: promptA}, a); diff != "" {
				r.Error(diff)
			}
			body := r.requests(http.MethodPost, "/prompt")[0].Body
			if !bytes.Contains(body, []byte(graph)) {
				r.Errorf("graph was changed: %s", body)
			}
			var doc map[string]json.RawMessage
			if err := json.Unmarshal(body, &doc); err != nil {
				r.Fatal(err)
			}
			if got := string(doc["prompt_id"]) + string(doc["extra_data"]); got != `"`+string(promptA)+`"{"studio_run":"run_aaaaaaaa000040008000000000000001"}` {
				r.Errorf("prompt_id and extra_data: %s", got)
			}
			socket := r.requests(http.MethodGet, "/ws")[0].Query
			client := strings.Trim(string(doc["client_id"]), `"`)
			if !regexp.MustCompile(`^comfygit-serve-[0-9a-f]{32}$`).MatchString(client) || socket != "clientId="+client {
				r.Errorf("client_id %q, socket %q", client, socket)
			}
		})
	})
	t.Run("waits_a_second_for_the_socket_and_goes_on_without", func(t *testing.T) {
		bubble(t, comfyfake.Options{}, comfy.Options{}, func(r *rig) {
			defer r.fake.Fault(comfyfake.Fault{Kind: comfyfake.Hang, Route: "/ws"})()
			r.listen()
			synctest.Wait()
			began := time.Now()
			r.submit(job(promptA, picture(1)))
			if took := time.Since(began); took != time.Second {
				r.Errorf("took %v, want 1s", took)
			}
		})
	})
	t.Run("does_not_wait_when_nobody_dials", func(t *testing.T) {
		bubble(t, comfyfake.Options{}, comfy.Options{}, func(r *rig) {
			began := time.Now()
			r.submit(job(promptA, picture(1)))
			if took := time.Since(began); took > 100*time.Millisecond {
				r.Errorf("took %v", took)
			}
		})
	})
	t.Run("news_of_a_prompt_submitted_before_the_socket_come_when_it_is_open", func(t *testing.T) {
		bubble(t, comfyfake.Options{}, comfy.Options{}, func(r *rig) {
			r.fake.Hold()
			r.submit(job(promptA, picture(1)))
			r.watch()
			r.fake.Release()
			r.await(job(promptA, picture(1)), sidecar.PlaceDone)
			synctest.Wait()
			if line := r.news.line(promptA); !strings.HasSuffix(line, "node_done:2 ending") {
				r.Errorf("news: %s", line)
			}
		})
	})
	t.Run("a_graph_may_hold_what_only_python_calls_a_number", func(t *testing.T) {
		bubble(t, comfyfake.Options{}, comfy.Options{}, func(r *rig) {
			graph := strings.Replace(picture(5), `"color":5`, `"color":5,"odd":NaN,"text":"NaN \" -Infinity"`, 1)
			defer r.fake.Fault(comfyfake.Fault{Kind: comfyfake.ActThenAnswer, Status: 200, Method: http.MethodPost, Route: "/prompt",
				Header: http.Header{"Content-Type": {"application/json"}}, Body: `{"prompt_id":"x","node_errors":{"7":{"errors":[{"extra_info":{"received_value":NaN}}]}}}`})()
			a := r.submit(job(promptA, graph))
			if a.PromptID != "x" || string(a.Warnings) != `{"7":{"errors":[{"extra_info":{"received_value":null}}]}}` {
				r.Errorf("%s %s", a.PromptID, a.Warnings)
			}
			if body := r.requests(http.MethodPost, "/prompt")[0].Body; !bytes.Contains(body, []byte(graph)) {
				r.Errorf("graph was changed: %s", body)
			}
		})
	})
	t.Run("a_job_that_cannot_be_sent_is_told_before_anything_is", func(t *testing.T) {
		bubble(t, comfyfake.Options{}, comfy.Options{}, func(r *rig) {
			for _, j := range []sidecar.Job{job(promptA, `[1]`), job(promptA, ``), job("", picture(1))} {
				if _, err := r.exec.Submit(r.Context(), j); err == nil {
					r.Error("no error")
				}
			}
			if n := len(r.fake.Requests()); n != 0 {
				r.Errorf("%d requests: %+v", n, r.fake.Requests())
			}
		})
	})
}

// answers gives each request to /prompt the same answer.
func answers(status int, kind, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		if status == http.StatusFound {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	})
}

func TestSubmitRefused(t *testing.T) {
	const kind = "application/json; charset=utf-8"
	for name, c := range map[string]struct {
		status     int
		kind, body string
		message    string
		detail     string
	}{
		"error_and_first_node": {400, kind, `{"error":{"type":"prompt_outputs_failed_validation","message":"Prompt outputs failed validation","details":""},` +
			`"node_errors":{"9":{"errors":[]},"1":{"errors":[{"message":"Value 99 bigger than max of 5","details":"width"}]},"0":{"errors":[{"details":"last"}]}}}`,
			"Prompt outputs failed validation: width", ""},
		"type_only":         {400, kind, `{"error":{"type":"just_type"}}`, "just_type", ""},
		"text_error":        {401, kind, `{"error":"text only"}`, "text only", ""},
		"message_only":      {401, kind, `{"message":"no key"}`, "no key", ""},
		"node_message_only": {400, kind, `{"node_errors":{"1":{"errors":[{"message":"only message"}]}}}`, "only message", ""},
		"json_text":         {404, kind, `"str"`, "str", ""},
		"empty_object":      {400, kind, `{}`, "ComfyUI returned HTTP 400", ""},
		"empty_list":        {418, kind, `[]`, "ComfyUI returned HTTP 418", ""},
		"plain_text":        {403, "text/plain", "go <away>", "go <away>", `{"message":"go <away>"}`},
		"no_body":           {413, "text/plain", "", "ComfyUI returned HTTP 413", "{}"},
		"broken_json":       {400, kind, `{"error":`, `{"error":`, `{"message":"{\"error\":"}`},
		"redirect":          {302, "text/plain", "", "ComfyUI returned HTTP 302", "{}"},
		"odd_types":         {400, kind, `{"error":{"message":[1]},"node_errors":[7]}`, "ComfyUI returned HTTP 400", ""},
	} {
		t.Run(name, func(t *testing.T) {
			scripted(t, answers(c.status, c.kind, c.body), comfy.Options{}, func(t *testing.T, exec *comfy.Executor) {
				_, err := exec.Submit(t.Context(), job(promptA, picture(1)))
				refused, ok := errors.AsType[*sidecar.RefusedError](err)
				if !ok {
					t.Fatalf("err = %#v", err)
				}
				detail := c.detail
				if detail == "" {
					detail = c.body
				}
				want := sidecar.Failure{
					Code: "comfyui_rejected_request", Message: c.message, Status: c.status, URL: base + "/prompt",
					Detail: json.RawMessage(detail), Outcome: sidecar.OutcomeRejected,
				}
				if diff := cmp.Diff(want, refused.Failure); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
	t.Run("hints_where_the_type_leaves_no_doubt", func(t *testing.T) {
		for body, want := range map[string]string{
			`{"error":{"type":"missing_node_type","message":"Node 'X' not found."}}`:                                                                                                        "Install the custom nodes",
			`{"node_errors":{"4":{"errors":[{"type":"value_not_in_list","details":"x","extra_info":{"input_name":"ckpt_name","received_value":"sd.SafeTensors"}}]}}}`:                       "does not have the model sd.SafeTensors",
			`{"node_errors":{"4":{"errors":[{"type":"value_not_in_list","details":"x","extra_info":{"input_name":"sampler_name","received_value":"euler2"}}]}}}`:                            "",
			`{"node_errors":{"4":{"errors":[{"type":"custom_validation_failed","details":"x","extra_info":{"input_name":"image","received_value":"sd.safetensors"}}]}}}`:                    "",
			`{"node_errors":{"3":7,"4":{"errors":[{"type":"value_not_in_list","details":"x","extra_info":{"received_value":["a"]}},{"type":"t","extra_info":{"received_value":"a.pt"}}]}}}`: "",
		} {
			scripted(t, answers(400, kind, body), comfy.Options{}, func(t *testing.T, exec *comfy.Executor) {
				_, err := exec.Submit(t.Context(), job(promptA, picture(1)))
				refused, ok := errors.AsType[*sidecar.RefusedError](err)
				if !ok || !strings.Contains(refused.Failure.Hint, want) || want == "" && refused.Failure.Hint != "" {
					t.Errorf("%s: %+v", body, err)
				}
			})
		}
	})
}

func TestSubmitUnsure(t *testing.T) {
	const kind = "application/json"
	for name, c := range map[string]struct {
		status  int
		body    string
		message string
	}{
		"server_error":    {500, `{"error":"text only"}`, "text only"},
		"gateway":         {502, ``, "ComfyUI returned HTTP 502"},
		"gave_up_waiting": {408, ``, "ComfyUI returned HTTP 408"},
		"no_id":           {200, `{}`, "ComfyUI did not return a prompt id."},
		"empty_id":        {200, `{"prompt_id":""}`, "ComfyUI did not return a prompt id."},
		"null_id":         {200, `{"prompt_id":null,"node_errors":{"a":true}}`, "ComfyUI did not return a prompt id."},
		"zero_id":         {200, `{"prompt_id":0}`, "ComfyUI did not return a prompt id."},
		"a_list":          {200, `[1]`, "ComfyUI did not return a prompt id."},
		"broken":          {200, `{"prompt_id":"a`, "ComfyUI did not return a prompt id."},
		"html":            {200, `<html>`, "ComfyUI did not return a prompt id."},
	} {
		t.Run(name, func(t *testing.T) {
			order := answers(c.status, kind, c.body)
			scripted(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				if req.Method == http.MethodPost {
					order.ServeHTTP(w, req)
					return
				}
				answers(200, kind, "{}").ServeHTTP(w, req)
			}), comfy.Options{}, func(t *testing.T, exec *comfy.Executor) {
				_, err := exec.Submit(t.Context(), job(promptA, picture(1)))
				unsure, ok := errors.AsType[*sidecar.UnsureError](err)
				if !ok || unsure.Failure.Message != c.message || unsure.Failure.Status != c.status || unsure.Failure.Code != "comfyui_rejected_request" {
					t.Errorf("err = %#v", err)
				}
			})
		})
	}
	for name, fault := range map[string]comfyfake.Fault{
		"cut_before_the_answer": {Kind: comfyfake.ActThenRefuse},
		"cut_in_the_answer":     {Kind: comfyfake.Cut, Bytes: 5},
		"half_an_answer":        {Kind: comfyfake.BrokenJSON},
		"accepted_yet_500":      {Kind: comfyfake.ActThenAnswer},
		"answer_too_late":       {Kind: comfyfake.Delay, Delay: 15 * time.Second},
	} {
		t.Run(name+"_and_it_is_found_by_looking", func(t *testing.T) {
			bubble(t, comfyfake.Options{}, comfy.Options{}, func(r *rig) {
				fault.Method, fault.Route = http.MethodPost, "/prompt"
				defer r.fake.Fault(fault)()
				j := job(promptA, picture(1))
				_, err := r.exec.Submit(r.Context(), j)
				if _, ok := errors.AsType[*sidecar.UnsureError](err); !ok {
					r.Fatalf("err = %#v", err)
				}
				j.Resumed = true
				if fault.Kind != comfyfake.Delay {
					r.await(j, sidecar.PlaceDone)
				}
				if n := len(r.requests(http.MethodPost, "/prompt")); n != 1 {
					r.Errorf("%d submits", n)
				}
			})
		})
	}
}

func TestSubmitAdoptsTheAnsweredID(t *testing.T) {
	for body, want := range map[string]sidecar.PromptID{
		`{"prompt_id":"other","node_errors":{}}`: "other",
		`{"prompt_id":42}`:                       "42",
	} {
		scripted(t, answers(200, "application/json", body), comfy.Options{}, func(t *testing.T, exec *comfy.Executor) {
			a, err := exec.Submit(t.Context(), job(promptA, picture(1)))
			if err != nil || a.PromptID != want || a.Warnings != nil {
				t.Errorf("%+v, %v", a, err)
			}
		})
	}
}

// twoOutputs is a graph whose node 3 is fine and whose node 2 cannot be: its
// source is too wide.
const twoOutputs = `{"1":{"class_type":"EmptyImage","inputs":{"width":99999999,"height":8,"batch_size":1,"color":1}},` +
	`"2":{"class_type":"SaveImage","inputs":{"images":["1",0],"filename_prefix":"bad"}},` +
	`"4":{"class_type":"EmptyImage","inputs":{"width":8,"height":8,"batch_size":1,"color":1}},` +
	`"3":{"class_type":"SaveImage","inputs":{"images":["4",0],"filename_prefix":"good"}}}`

func TestSubmitPartlyInvalid(t *testing.T) {
	for _, generation := range []comfyfake.Generation{comfyfake.V0_3_64, comfyfake.V0_33_0} {
		t.Run(fmt.Sprint("touching_a_declared_output_refuses_and_drops_", generation), func(t *testing.T) {
			bubble(t, comfyfake.Options{Generation: generation}, comfy.Options{}, func(r *rig) {
				r.fake.Hold()
				r.submit(job(promptB, picture(7)))
				r.await(job(promptB, picture(7)), sidecar.PlaceExecuting)
				j := job(promptA, twoOutputs, manifest.Output{Name: "image", Type: "image", NodeID: "2"})
				_, err := r.exec.Submit(r.Context(), j)
				refused, ok := errors.AsType[*sidecar.RefusedError](err)
				if !ok || refused.Failure.Status != 400 || !strings.HasPrefix(refused.Failure.Message, "Prompt outputs failed validation: ") {
					r.Errorf("err = %#v", err)
				}
				if place := r.look(j).Place; place != sidecar.PlaceAbsent {
					r.Errorf("the prompt is %s", place)
				}
				r.fake.Release()
				r.await(job(promptB, picture(7)), sidecar.PlaceDone)
				if n := r.fake.Submissions().ByPrompt[string(promptA)].Executed; n != 0 {
					r.Errorf("it was executed %d times", n)
				}
			})
		})
	}
	t.Run("touching_none_is_a_warning", func(t *testing.T) {
		bubble(t, comfyfake.Options{}, comfy.Options{}, func(r *rig) {
			j := job(promptA, twoOutputs, manifest.Output{Name: "image", Type: "image", NodeID: "3"})
			a := r.submit(j)
			var nodes map[string]any
			if err := json.Unmarshal(a.Warnings, &nodes); err != nil || nodes["1"] == nil {
				r.Errorf("warnings: %s", a.Warnings)
			}
			if seen := r.await(j, sidecar.PlaceDone); seen.Outputs["3"] == nil {
				r.Errorf("outputs: %v", seen.Outputs)
			}
		})
	})
}
