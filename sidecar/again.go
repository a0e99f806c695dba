package sidecar

import (
	"context"
	"encoding/json"
	"errors"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/comfygit-ai/studio-sidecar/manifest"
)

// LostPolicy says what becomes of a run that the backend had begun and lost.
// What only waited in a backend that restarted is handed over anew in any case:
// it is in our queue still, as its owner sees it.
type LostPolicy string

// The policies for lost runs.
const (
	LostFail  LostPolicy = "fail"  // it ends as an error, outcome lost
	LostAgain LostPolicy = "again" // it is run once more, and fails when that is lost too
)

// reconnectPatience is how long a waiting run that is nowhere is not given up
// while the socket is down: when it stands again, it tells whether the backend
// was restarted.
const reconnectPatience = 10 * time.Second

// lose draws the consequence of a proven absence.
func (f *follower) lose(ctx context.Context) {
	kind := SignalLost
	if f.studio.lost == LostAgain {
		kind = SignalAgain
	} else if f.run.Phase == PhaseQueued {
		if f.missed.IsZero() {
			f.missed = time.Now()
		}
		renewed, known := f.studio.live.renewed(f.id)
		if !known && time.Since(f.missed) < reconnectPatience {
			return
		}
		if renewed {
			kind = SignalAgain
		}
	}
	f.missed = time.Time{}
	if f.apply(ctx, Signal{Kind: kind}) && f.goesOn(ctx) && !f.run.Accepted {
		f.startAnew()
	}
}

// startAnew follows the run under its new prompt id, of which no backend has
// heard.
func (f *follower) startAnew() {
	f.log.Warn("the backend lost a run; it is handed over again", "prompt", f.job.Prompt, "next", f.run.Prompt)
	f.job.Prompt, f.job.Resumed, f.job.Accepted = f.run.Prompt, false, false
	f.ending = false
	f.studio.boxes.address(f.job.Prompt, f.box)
}

// renewed reports whether the backend was away since the run was handed over:
// the connection of then broke, none could be made for a while, and another
// stands. A break alone proves no restart. It is not known while none stands; of
// a run that an earlier life handed over it never is.
func (l *live) renewed(id RunID) (renewed, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, ok := l.runs[id]
	if !ok || r.epoch == 0 {
		return false, true
	}
	return l.up && r.epoch < l.renewal, l.up
}

// noteRefusal: where nothing listens, the backend is away. It may be back
// before the socket is tried again.
func (s *Studio) noteRefusal(err error) {
	if errors.Is(err, syscall.ECONNREFUSED) {
		s.live.unreached()
	}
}

// again takes an accepted run back to where it is handed over. What had begun
// is repeated once, what had not as often as the backend loses it.
func (t *transition) again() {
	r := t.run
	begun := r.Phase != PhaseQueued
	if !r.Accepted || r.Graph == "" || begun && r.Prompt.second() {
		t.stop(Signal{Kind: SignalLost})
		return
	}
	t.closeNodes()
	r.Issues = withIssues(r.Issues, mustJSON([]manifest.Issue{lostIssue(r.PromptID)}))
	r.Accepted, r.StartedAt = false, time.Time{}
	r.Prompt, r.PromptID = r.Prompt.next(begun), ""
	r.Result = runningResult(r)
	t.phase(PhaseSubmitting)
}

// repeated reports whether the run was accepted once and lost.
func (r *Run) repeated() bool { return !r.Accepted && r.Status == StatusRunning && r.Attempt > 0 }

func lostIssue(prompt PromptID) manifest.Issue {
	return manifest.Issue{
		Code: "comfyui_lost_prompt", Severity: manifest.SeverityWarning,
		Message: "ComfyUI lost this run (prompt " + string(prompt) + "); it was handed over again.",
	}
}

// next is the prompt id that follows a lost one. It is derived, so that a crash
// does not draw another; its version tells whether a begun run was lost.
func (p PromptID) next(begun bool) PromptID {
	id := uuid.NewSHA1(uuid.NameSpaceOID, []byte(p))
	if !begun && !p.second() {
		id[6] = id[6]&0x0f | 0x40
	}
	return PromptID(id.String())
}

// second reports whether p follows the prompt id of a run that had begun.
func (p PromptID) second() bool {
	id, err := uuid.Parse(string(p))
	return err == nil && id.Version() == 5
}

// refuse ends a run whose prompt the backend took without a declared output, as
// if the answer that was lost had told so.
func (f *follower) refuse(ctx context.Context, dropped []manifest.Output) {
	if err := f.studio.exec.Cancel(ctx, f.job); err != nil {
		f.warn(ctx, "drop a prompt that lacks an output", err)
	}
	f.fail(ctx, droppedFailure(dropped))
}

func droppedFailure(dropped []manifest.Output) *Failure {
	issues := make([]manifest.Issue, 0, len(dropped))
	for _, out := range dropped {
		issues = append(issues, manifest.Issue{
			Code: "comfyui_node_error", Severity: manifest.SeverityError, NodeID: out.NodeID, APINodeID: out.NodeID,
			Message: "ComfyUI leaves out output '" + out.Name + "': its node " + out.NodeID + " does not validate.",
		})
	}
	return &Failure{
		Code: string(CodeRejected), Status: 400, Outcome: OutcomeRejected, Issues: mustJSON(issues),
		Message: "Prompt outputs failed validation: " + issues[0].Message,
		Hint:    "ComfyUI's answer, which says why, was lost. See its log, or run it again.",
	}
}

// explained adds to a refusal which inputs of the contract ComfyUI complains of.
func (f *follower) explained(ctx context.Context, why *Failure) *Failure {
	if len(why.Issues) > 0 || f.run.ContractRef == "" || !hasNodeErrors(why.Detail) {
		return why
	}
	contract, err := f.studio.store.Blob(ctx, f.run.ContractRef)
	if err != nil {
		f.warn(ctx, "read the contract of a refused run", err)
		return why
	}
	if issues := complaints(contract, why.Detail); len(issues) > 0 {
		told := *why
		told.Issues = mustJSON(issues)
		return &told
	}
	return why
}

func hasNodeErrors(detail json.RawMessage) bool { return len(nodeErrorsOf(detail)) > 0 }
