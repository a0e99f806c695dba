package sidecar_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

func (r *rig) pause(paused bool) {
	r.Helper()
	must(r, r.studio.PauseQueue(context.Background(), paused))
}

// line are the waiting runs of a scope as the dispatcher shows them, held to
// the positions that each is told.
func (r *rig) line(who sidecar.SessionID) (ids []sidecar.RunID) {
	r.Helper()
	for _, e := range r.studio.Queue(sidecar.Scope(who)).Waiting {
		ids = append(ids, e.Run)
		if place, waits := r.studio.QueuePlace(r.read(e.Run)); !waits || place != e.Position {
			r.Errorf("run %s is shown at %d and told %d", e.Run, e.Position, place)
		}
	}
	return ids
}

func TestPause(t *testing.T) {
	bubble(t, setup{}, func(r *rig) {
		r.withoutSocket()
		flying := r.launch(anna, "slow", 1)
		r.pause(true)
		r.pause(true)
		began := time.Now()
		waiting := []*sidecar.Run{r.launch(anna, "picture", 2), r.launch(bert, "picture", 3)}
		if took := time.Since(began); took > time.Second {
			r.Errorf("the launches took %v", took)
		}
		r.ends(flying, completed())
		for range 2 {
			r.pass(time.Hour)
			for _, run := range waiting {
				if got := r.read(run.ID); got.Phase != sidecar.PhaseSubmitting || got.Attempt != 0 {
					r.Errorf("it is %s", got.Phase)
				}
			}
			if q := r.studio.Queue("anna"); !q.Paused || q.QueueState.Waiting != 2 || len(q.Waiting) != 1 {
				r.Errorf("the queue is %+v", q)
			}
			r.restart()
			r.until("it is taken up", func() bool { return r.studio.Queue("anna").QueueState.Waiting == 2 })
		}
		r.cancel(waiting[1])
		r.pause(false)
		r.pause(false)
		r.ends(waiting[0], completed())
		r.ends(waiting[1], cancelled())
		r.idle()
		records, err := r.studio.Events(context.Background(), "anna", "", 0, 0)
		must(r, err)
		told := 0
		for _, rec := range records {
			if rec.Type == sidecar.EventQueueChanged {
				told++
			}
		}
		if told != 2 {
			r.Errorf("it was told %d times", told)
		}
	})
	t.Run("a_run_whose_time_is_up_ends_all_the_same", func(t *testing.T) {
		bubble(t, setup{limit: time.Minute}, func(r *rig) {
			r.pause(true)
			run := r.launch(anna, "picture", 1)
			r.ends(run, refusal(sidecar.OutcomeTimedOut, sidecar.CodeTimeout))
		})
	})
}

// TestPauseInPlace: a run that has a place is not handed over either.
func TestPauseInPlace(t *testing.T) {
	t.Run("lost_by_comfyui", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			r.pass(time.Second) // the socket stands
			r.fake.Hold()
			first, second := r.launch(anna, "slow", 1), r.launch(anna, "slow", 2)
			r.inPhase(first.ID, sidecar.PhaseExecuting)
			r.pause(true)
			r.comfyRestarts()
			r.fake.Release()
			r.ends(first, errored(sidecar.OutcomeLost, sidecar.CodeLost))
			r.inPhase(second.ID, sidecar.PhaseSubmitting)
			r.pass(time.Hour)
			r.notHandedOver(second, 2)
			r.pause(false)
			r.ends(second, completed())
			r.idle()
		})
	})
	for name, c := range map[string]struct {
		meanwhile func(*rig, *sidecar.Run)
		want      end
	}{
		"alive":                {func(r *rig, _ *sidecar.Run) { r.pause(false) }, completed()},
		"with_a_restart":       {func(r *rig, _ *sidecar.Run) { r.restart(); r.pass(time.Hour); r.pause(false) }, completed()},
		"cancelled":            {func(r *rig, run *sidecar.Run) { r.cancel(run) }, cancelled()},
		"until_its_time_is_up": {func(r *rig, _ *sidecar.Run) { r.pass(12 * time.Hour) }, refusal(sidecar.OutcomeTimedOut, sidecar.CodeTimeout)},
	} {
		t.Run("its_answer_lost/"+name, func(t *testing.T) {
			bubble(t, setup{}, func(r *rig) {
				r.withoutSocket()
				r.fake.Fault(onPrompt(comfyfake.Refuse))
				id, answered := r.launching(anna, "picture", 1)
				r.until("its answer is lost", func() bool { return r.posts(http.MethodPost, "/prompt") == 1 })
				r.pause(true)
				<-answered
				r.pass(time.Hour)
				run := r.read(id)
				r.notHandedOver(run, 1)
				c.meanwhile(r, run)
				r.ends(run, c.want)
				r.idle()
			})
		})
	}
}

// notHandedOver: a run waits, and ComfyUI got no more prompts than so many.
func (r *rig) notHandedOver(run *sidecar.Run, posts int) {
	r.Helper()
	if got := r.read(run.ID); got.Phase != sidecar.PhaseSubmitting || got.Accepted || r.posts(http.MethodPost, "/prompt") != posts {
		r.Errorf("it is %s, ComfyUI got %d prompts", got.Phase, r.posts(http.MethodPost, "/prompt"))
	}
}

func TestFront(t *testing.T) {
	bubble(t, setup{window: 1}, func(r *rig) {
		r.fake.Hold()
		first := r.launch(bert, "slow", 1)
		r.inPhase(first.ID, sidecar.PhaseExecuting)
		var line []sidecar.RunID
		for seed := range 3 {
			line = append(line, r.launch(anna, "slow", 2+seed).ID)
		}
		theirs := r.launch(bert, "slow", 5)
		front := func(id sidecar.RunID) error {
			_, err := r.studio.Front(context.Background(), "anna", id)
			return err
		}
		must(r, front(line[2]))
		r.pass(time.Second)
		must(r, front(line[1]))
		want := []sidecar.RunID{line[1], line[2], line[0]}
		for range 2 {
			r.until("all wait", func() bool { return len(r.line(anna)) == 3 })
			if diff := cmp.Diff(want, r.line(anna)); diff != "" {
				r.Error(diff)
			}
			r.restart()
		}
		if code := codeOf(front(first.ID)); code != sidecar.CodeNotFound {
			r.Errorf("another's run: %q", code)
		}
		r.fake.Release()
		var started []time.Time
		for _, id := range append(want, theirs.ID) {
			started = append(started, r.finished(id).StartedAt)
		}
		if !started[0].Before(started[1]) || !started[1].Before(started[2]) || !started[1].Before(started[3]) {
			r.Errorf("they started at %v", started)
		}
		if code := codeOf(front(line[0])); code != sidecar.CodeNotWaiting {
			r.Errorf("one that has ended: %q", code)
		}
	})
}

func TestLimits(t *testing.T) {
	bubble(t, setup{window: 2}, func(r *rig) {
		r.opts.Limits = sidecar.Limits{Waiting: 5, PerSession: 3}
		r.restart()
		r.fake.Hold()
		try := func(who sidecar.SessionID, seed int) sidecar.Code {
			req := r.request(who, "slow", seed)
			if seed%3 == 2 {
				inAnHour(&req)
			}
			_, err := r.studio.Launch(context.Background(), req)
			return codeOf(err)
		}
		var wg sync.WaitGroup
		for _, who := range []sidecar.SessionID{anna, bert, "carl"} {
			wg.Go(func() {
				for seed := range 10 {
					try(who, seed)
				}
			})
		}
		wg.Wait()
		q := r.studio.Queue("anna").QueueState
		if q.InFlight != 2 || q.Waiting != 5 || q.Held > 5 {
			r.Errorf("the queue is %+v", q)
		}
		stored := 0
		for _, who := range []sidecar.SessionID{anna, bert, "carl"} {
			n := len(r.runs(who))
			if stored += n; n > 3+2+3 {
				r.Errorf("%s has %d", who, n)
			}
			if code := try(who, 20); code != sidecar.CodeQueueFull {
				r.Errorf("%s: %q", who, code)
			}
		}
		if stored != 7+q.Held {
			r.Errorf("%d runs are stored", stored)
		}
		r.restart()
		r.until("they are taken up", func() bool { q := r.studio.Queue("anna").QueueState; return q.Waiting == 5 })
		if code := try(anna, 21); code != sidecar.CodeQueueFull {
			r.Errorf("after a restart: %q", code)
		}
		r.fake.Release()
		r.pass(2 * time.Hour)
		r.idle()
		if code := try(anna, 30); code != "" {
			r.Errorf("an empty queue: %q", code)
		}
		r.idle()
	})
}

// TestHeldShutNobodyOut: held runs have limits of their own, to the letter.
func TestHeldShutNobodyOut(t *testing.T) {
	bubble(t, setup{window: 4}, func(r *rig) {
		r.opts.Limits = sidecar.Limits{Waiting: 5, PerSession: 3}
		r.restart()
		hold := func(who sidecar.SessionID) sidecar.Code {
			req := r.request(who, "slow", 1)
			req.NeedsApproval = true
			_, err := r.studio.Launch(context.Background(), req)
			return codeOf(err)
		}
		for n, want := range []sidecar.Code{"", "", "", sidecar.CodeQueueFull} {
			if got := hold(anna); got != want {
				r.Errorf("held run %d of one session: %q", n+1, got)
			}
		}
		for n, want := range []sidecar.Code{"", "", sidecar.CodeQueueFull} {
			if got := hold(bert); got != want {
				r.Errorf("held run %d of another session: %q", n+1, got)
			}
		}
		for _, who := range []sidecar.SessionID{anna, "carl"} {
			if run := r.finished(r.launch(who, "picture", 1).ID); run.Status != sidecar.StatusCompleted {
				r.Errorf("%s: %s", who, run.Status)
			}
		}
	})
}
