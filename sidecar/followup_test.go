package sidecar_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/artifact"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

const sayFlow = `
[tool.comfygit.workflows.say.execution_contract]
version = 1
api_prompt_file = "workflow_api/say.json"
[tool.comfygit.workflows.say.execution_contract.contracts.default]
inputs = [ { name = "words", type = "string", node_id = "1", required = true, api_field_key = "value" } ]
outputs = [ { name = "out", type = "string", node_id = "2" }, { name = "none", type = "image", node_id = "2" }, { name = "void", type = "image", node_id = "2" } ]
`

const sayGraph = `{"1":{"class_type":"PrimitiveString","inputs":{"value":"?"}},"2":{"class_type":"PreviewAny","inputs":{"source":["1",0]}}}`

// withFollowUps runs test in a rig whose environment has contracts that take a
// picture and a text, and that keeps copies of what ComfyUI forgets.
func withFollowUps(t *testing.T, test func(*rig)) {
	t.Helper()
	withUploads(t, false, func(r *rig, _ string) {
		path := filepath.Join(r.env.Dir, ".cec", "pyproject.toml")
		text, err := os.ReadFile(path)
		must(r, err)
		must(r, os.WriteFile(path, append(text, sayFlow...), 0o644))
		must(r, os.WriteFile(filepath.Join(r.env.Dir, ".cec", "workflow_api", "say.json"), []byte(sayGraph), 0o644))
		copies, err := artifact.Open(r.TempDir())
		must(r, err)
		defer func() {
			r.stop()
			must(r, copies.Close())
		}()
		r.copies = copies
		r.opts.OpenCopy = func(ref string) (io.ReadCloser, error) {
			file, err := copies.Open(ref)
			if errors.Is(err, os.ErrNotExist) {
				return nil, sidecar.ErrNotFound
			}
			return file, err
		}
		r.restart()
		test(r)
	})
}

// following asks for a run that gets an input from the output of another.
func (r *rig) following(parent *sidecar.Run, flow, input, output string) sidecar.LaunchRequest {
	req := r.request(sidecar.SessionID(parent.Session), flow, 0)
	req.Values = nil
	req.After = &sidecar.After{Run: parent.ID}
	if input != "" {
		req.After.Inputs = []sidecar.Feed{{Input: input, Output: output}}
	}
	return req
}

func (r *rig) follow(parent *sidecar.Run, flow, input, output string) *sidecar.Run {
	r.Helper()
	run, err := r.studio.Launch(context.Background(), r.following(parent, flow, input, output))
	must(r, err)
	return run
}

func inputOf(t testing.TB, run *sidecar.Run, name string) string {
	t.Helper()
	var inputs map[string]any
	must(t, json.Unmarshal(run.Inputs, &inputs))
	text, _ := inputs[name].(string)
	return text
}

func TestFollowUp(t *testing.T) {
	for name, flow := range map[string]string{"a_picture": "slow", "a_copy_of_what_comfyui_forgets": "temp"} {
		t.Run("it_gets_"+name, func(t *testing.T) {
			withFollowUps(t, func(r *rig) {
				r.fake.Hold()
				parent := r.launch(anna, flow, 1)
				child := r.follow(parent, "load", "picture", "out")
				r.isHeld(child, sidecar.WaitParent)
				r.pass(time.Minute)
				r.isHeld(child, sidecar.WaitParent)
				r.fake.Release()
				r.finished(parent.ID)
				got := r.ends(child, completed())
				if got.Parent != parent.ID || len(got.Uploads) != 1 || !strings.HasPrefix(inputOf(t, got, "picture"), "upload_") {
					t.Errorf("parent %s, uploads %v, inputs %s", got.Parent, got.Uploads, got.Inputs)
				}
				if got.Slots[0].Width != 16 || got.Slots[0].Height != 8 {
					t.Errorf("it made something else: %+v", got.Slots[0])
				}
				if n := r.executed(got); n.Queued != 1 {
					t.Errorf("ComfyUI had it %+v", n)
				}
				page, err := r.studio.Children(context.Background(), "anna", parent.ID)
				if err != nil || len(page.Runs) != 1 || page.Runs[0].ID != child.ID {
					t.Errorf("children: %v %v", page.Runs, err)
				}
				r.idle()
			})
		})
	}
	t.Run("a_chain_of_texts", func(t *testing.T) {
		withFollowUps(t, func(r *rig) {
			r.fake.Hold()
			last := r.launch(anna, "text", 1)
			for range 3 {
				last = r.follow(last, "say", "words", "out")
			}
			r.fake.Release()
			got := r.finished(last.ID)
			if words := inputOf(t, got, "words"); got.Status != sidecar.StatusCompleted || words != "hello" {
				t.Errorf("%s %s: %q", got.Outcome, got.Error, words)
			}
		})
	})
	t.Run("of_one_that_has_completed_or_failed_before", func(t *testing.T) {
		withFollowUps(t, func(r *rig) {
			done, bad := r.launch(anna, "picture", 1), r.launch(anna, "broken", 2)
			r.finished(done.ID)
			r.finished(bad.ID)
			r.ends(r.follow(done, "load", "picture", "out"), completed())
			r.ends(r.follow(done, "picture", "", ""), completed()) // for its order alone
			r.ends(r.follow(bad, "load", "picture", "out"), refusal(sidecar.OutcomeRejected, sidecar.CodeRunRejected))
		})
	})
	t.Run("it_keeps_contract_and_inputs_of_its_acceptance", func(t *testing.T) {
		withFollowUps(t, func(r *rig) {
			r.fake.Hold()
			parent := r.launch(anna, "slow", 1)
			child := r.follow(parent, "load", "picture", "out")
			must(r, os.Remove(filepath.Join(r.env.Dir, ".cec", "workflow_api", "load.json")))
			must(r, os.WriteFile(filepath.Join(r.env.Dir, ".cec", "pyproject.toml"), []byte("[project]\nname = \"x\"\n"), 0o644))
			r.restart()
			r.fake.Release()
			r.ends(child, completed())
		})
	})
}

// TestFollowUpIsRejected: what it was to get does not come.
func TestFollowUpIsRejected(t *testing.T) {
	rejected := refusal(sidecar.OutcomeRejected, sidecar.CodeRunRejected)
	for name, end := range map[string]func(*rig, *sidecar.Run){
		"its_parent_is_cancelled": func(r *rig, parent *sidecar.Run) { r.cancel(parent) },
		"its_parent_is_interrupted": func(r *rig, _ *sidecar.Run) {
			r.ask("POST", "/interrupt", "")
			r.fake.Release()
		},
		"comfyui_forgets_its_parent": func(r *rig, _ *sidecar.Run) { must(r, r.fake.Restart()) },
		"its_parent_ends_while_we_are_away": func(r *rig, _ *sidecar.Run) {
			r.stop()
			must(r, r.fake.Restart())
			r.pass(time.Hour)
			r.start()
		},
	} {
		t.Run(name, func(t *testing.T) {
			withFollowUps(t, func(r *rig) {
				r.fake.Hold()
				parent := r.launch(anna, "slow", 1)
				r.inPhase(parent.ID, sidecar.PhaseExecuting)
				child := r.follow(parent, "load", "picture", "out")
				grandchild := r.follow(child, "load", "picture", "out")
				end(r, parent)
				r.ends(child, rejected)
				r.ends(grandchild, rejected)
				r.fake.Release()
				r.idle()
			})
		})
	}
	t.Run("the_output_is_empty", func(t *testing.T) {
		withFollowUps(t, func(r *rig) {
			req := r.request(anna, "say", 0)
			req.Values = manifest.Values{{Name: "words", Value: json.RawMessage(`"x"`)}}
			parent, err := r.studio.Launch(context.Background(), req)
			must(r, err)
			r.ends(r.follow(parent, "load", "picture", "none"), rejected)
			r.finished(parent.ID)
			req = r.following(parent, "load", "picture", "none")
			req.After.Inputs = append(req.After.Inputs, sidecar.Feed{Input: "picture", Output: "void"})
			run, err := r.studio.Launch(context.Background(), req)
			must(r, err)
			if got := r.ends(run, rejected); !strings.Contains(got.Error, "Output 'none'") {
				t.Errorf("of two empty ones it does not name the first: %q", got.Error)
			}
		})
	})
	t.Run("the_file_is_gone", func(t *testing.T) {
		withFollowUps(t, func(r *rig) {
			parent := r.finished(r.launch(anna, "picture", 1).ID)
			must(r, os.Remove(filepath.Join(r.fake.Dir("output"), parent.Items[0].Filename)))
			r.ends(r.follow(parent, "load", "picture", "out"), rejected)
		})
	})
	t.Run("comfyui_does_not_show_a_file_of_such_a_name", func(t *testing.T) {
		withFollowUps(t, func(r *rig) {
			parent := r.finished(r.launch(anna, "picture", 1).ID)
			r.fake.Fault(comfyfake.Fault{Kind: comfyfake.Answer, Method: http.MethodGet, Route: "/view", Status: http.StatusBadRequest})
			got := r.ends(r.follow(parent, "load", "picture", "out"), rejected)
			if !strings.Contains(got.Error, "does not show") {
				t.Errorf("it says %q", got.Error)
			}
		})
	})
	t.Run("what_cannot_be_is_refused_at_once", func(t *testing.T) {
		withFollowUps(t, func(r *rig) {
			parent := r.launch(anna, "picture", 1)
			other := r.launch(bert, "picture", 2)
			before := len(r.runs(anna))
			for name, change := range map[string]func(*sidecar.LaunchRequest){
				"no such run":    func(q *sidecar.LaunchRequest) { q.After.Run = "run_none" },
				"another's run":  func(q *sidecar.LaunchRequest) { q.After.Run = other.ID },
				"no such output": func(q *sidecar.LaunchRequest) { q.After.Inputs[0].Output = "x" },
				"no such input":  func(q *sidecar.LaunchRequest) { q.After.Inputs[0].Input = "x" },
				"given both ways": func(q *sidecar.LaunchRequest) {
					q.Values = manifest.Values{{Name: "picture", Value: json.RawMessage(`"a.png"`)}}
				},
			} {
				req := r.following(parent, "load", "picture", "out")
				change(&req)
				if _, err := r.studio.Launch(context.Background(), req); codeOf(err) != sidecar.CodeBadRequest {
					t.Errorf("%s: %v", name, err)
				}
			}
			if n := len(r.runs(anna)); n != before {
				t.Errorf("%d runs were stored", n-before)
			}
			run := r.follow(parent, "picture", "", "")
			r.ends(run, completed())
		})
	})
}

func TestFollowUpWaitsForItsFile(t *testing.T) {
	for name, fault := range map[string]comfyfake.Fault{
		"nobody_answers":          {Kind: comfyfake.Refuse},
		"it_is_cut":               {Kind: comfyfake.Cut, Bytes: 20},
		"comfyui_restarts":        {Kind: comfyfake.Answer, Status: http.StatusBadGateway},
		"comfyui_is_not_ready":    {Kind: comfyfake.Answer, Status: http.StatusServiceUnavailable},
		"what_is_between_says_no": {Kind: comfyfake.Answer, Status: http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			withFollowUps(t, func(r *rig) {
				parent := r.launch(anna, "picture", 1)
				r.finished(parent.ID)
				fault.Method, fault.Route = http.MethodGet, "/view"
				r.fake.Fault(fault)
				child := r.follow(parent, "load", "picture", "out")
				r.pass(time.Minute)
				r.isHeld(child, sidecar.WaitParent)
				r.restart()
				r.pass(time.Minute)
				r.isHeld(child, sidecar.WaitParent)
				r.fake.ClearFaults()
				r.ends(child, completed())
			})
		})
	}
}

// TestFollowUpIsDamaged: what a follow-up is to be built of cannot be used.
func TestFollowUpIsDamaged(t *testing.T) {
	contract := func(run *sidecar.Run) sidecar.Digest { return run.ContractRef }
	graph := func(run *sidecar.Run) sidecar.Digest { return run.Graph }
	for name, c := range map[string]struct {
		part func(*sidecar.Run) sidecar.Digest
		text string // in its place; empty: nothing
		says string
	}{
		"no_contract":     {contract, "", "contract that was stored with the run is there no more"},
		"no_graph":        {graph, "", "graph that was stored with the run is there no more"},
		"broken_contract": {contract, "{", "contract that was stored with the run cannot be read"},
		"broken_graph":    {graph, "[]", "graph that was stored with the run cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			withFollowUps(t, func(r *rig) {
				r.fake.Hold()
				parent := r.launch(anna, "slow", 1)
				child := r.follow(parent, "load", "picture", "out")
				r.store.damaged.Store(&damage{c.part(child), c.text})
				r.fake.Release()
				got := r.ends(child, refusal(sidecar.OutcomeFailed, sidecar.CodeRecovery))
				if !strings.Contains(got.Error, c.says) {
					t.Errorf("it says %q", got.Error)
				}
				r.idle()
			})
		})
	}
}
