package sidecar_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

// available asks for health and holds the answer to its time.
func (r *rig) available() bool {
	r.Helper()
	began := time.Now()
	c := r.studio.Health(context.Background())
	if took := time.Since(began); took > 250*time.Millisecond {
		r.Errorf("health took %v", took)
	}
	if c.Available != (c.Error == "") {
		r.Errorf("available %v, error %q", c.Available, c.Error)
	}
	return c.Available
}

// healthTold lists what the health events said, in order.
func (r *rig) healthTold() (told []bool) {
	r.Helper()
	synctest.Wait()
	records, err := r.studio.Events(context.Background(), "nobody", "", 0, 0)
	must(r, err)
	for _, rec := range records {
		if rec.Type == sidecar.EventHealthChanged {
			told = append(told, bytes.Contains(rec.JSON, []byte(`"available":true`)))
		}
	}
	return told
}

func TestHealth(t *testing.T) {
	t.Run("fresh", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			if !r.available() {
				r.Error("it is not available")
			}
			if v := r.studio.Health(context.Background()).Version; v != "0.3.64" {
				r.Errorf("version %q", v)
			}
			synctest.Wait()
			before := len(r.fake.Requests())
			for range 50 {
				r.studio.Health(context.Background())
			}
			if n := len(r.fake.Requests()) - before; n > 2 {
				r.Errorf("50 questions within a moment were %d to ComfyUI", n)
			}
		})
	})
	t.Run("going_and_coming_are_told_once_each", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			r.pass(time.Second)
			r.net.setDown(true)
			r.pass(time.Minute)
			for range 3 {
				if r.available() {
					r.Error("it is available while away")
				}
			}
			r.net.setDown(false)
			r.pass(time.Minute)
			if !r.available() {
				r.Error("it did not come back")
			}
			if diff := cmp.Diff([]bool{true, false, true}, r.healthTold()); diff != "" {
				r.Error(diff)
			}
		})
	})
	t.Run("one_that_hangs_is_not_waited_for", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			r.pass(time.Second)
			release := r.fake.Fault(comfyfake.Fault{Kind: comfyfake.Hang, Route: "/system_stats"})
			if !r.available() {
				r.Error("the last known state is not told at first")
			}
			r.pass(5 * time.Second)
			if r.available() {
				r.Error("it is available though it hangs")
			}
			r.pass(5 * time.Second)
			release()
			r.pass(time.Second)
			if !r.available() {
				r.Error("it did not come back")
			}
			if diff := cmp.Diff([]bool{true, false, true}, r.healthTold()); diff != "" {
				r.Error(diff)
			}
		})
	})
	t.Run("one_that_was_just_seen_is_not_called_slow", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			r.pass(time.Second)
			r.available()
			defer r.fake.Fault(comfyfake.Fault{Kind: comfyfake.Hang, Route: "/system_stats"})()
			r.fake.DropSockets() // what is known counts no more
			r.pass(100 * time.Millisecond)
			if c := r.studio.Health(context.Background()); !c.Available {
				r.Error(c.Error)
			}
		})
	})
	t.Run("it_is_told_later_when_it_could_not_be_written", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			r.pass(time.Second)
			r.store.writes.Store(true)
			r.net.setDown(true)
			r.pass(time.Second)
			r.available()
			r.store.writes.Store(false)
			r.available()
			r.pass(time.Second)
			if diff := cmp.Diff([]bool{true, false}, r.healthTold()); diff != "" {
				r.Error(diff)
			}
		})
	})
	t.Run("before_the_studio_runs_nothing_is_known", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			o := r.opts
			o.Catalog = manifest.Open(r.env)
			began := time.Now()
			c := sidecar.New(o).Health(context.Background())
			if c.Available || c.Error == "" || time.Since(began) > 250*time.Millisecond {
				r.Errorf("%+v after %v", c, time.Since(began))
			}
		})
	})
}

// TestStorage: the state database cannot be used for a while.
func TestStorage(t *testing.T) {
	t.Run("a_launch_is_refused_and_nothing_runs", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			r.store.writes.Store(true)
			_, err := r.studio.Launch(context.Background(), r.request(anna, "picture", 1))
			var told *sidecar.Error
			if !errors.As(err, &told) || told.Code != sidecar.CodeStorage {
				r.Errorf("got %v", err)
			}
			r.store.writes.Store(false)
			r.pass(time.Minute)
			if n := len(r.runs(anna)); n != 0 || len(r.fake.Submissions().ByPrompt) != 0 {
				r.Errorf("%d runs", n)
			}
		})
	})
	t.Run("a_launch_that_was_stored_is_not_refused", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			r.store.reads.Store(true)
			run, err := r.studio.Launch(context.Background(), r.request(anna, "picture", 1))
			if err != nil {
				r.Fatalf("refused: %v", err)
			}
			r.pass(3 * time.Second)
			r.store.reads.Store(false)
			if diff := cmp.Diff(completed(), endOf(r.finished(run.ID))); diff != "" {
				r.Error(diff)
			}
			r.heldOnce(r.read(run.ID), true)
		})
	})
	t.Run("a_cancel_is_not_acknowledged", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			run := r.inPhase(r.launch(anna, "slow", 1).ID, sidecar.PhaseExecuting)
			r.store.writes.Store(true)
			if _, err := r.studio.Cancel(context.Background(), run.Scope, run.ID); err == nil {
				r.Error("acknowledged")
			}
			r.store.writes.Store(false)
			if diff := cmp.Diff(completed(), endOf(r.finished(run.ID))); diff != "" {
				r.Error(diff)
			}
		})
	})
	t.Run("an_answer_that_came_meanwhile_is_not_forgotten", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			r.fake.Fault(comfyfake.Fault{Kind: comfyfake.Delay, Method: "POST", Route: "/prompt", Times: 1, Delay: time.Second})
			id, _ := r.launching(anna, "slow", 1)
			r.until("it is handed over", func() bool { return r.read(id).Attempt == 1 })
			r.store.writes.Store(true)
			r.pass(time.Minute)
			r.store.writes.Store(false)
			run := r.finished(id)
			if diff := cmp.Diff(completed(), endOf(run)); diff != "" {
				r.Error(diff)
			}
			r.heldOnce(run, true)
			r.gapless(run)
		})
	})
	t.Run("an_end_that_came_meanwhile_is_not_forgotten", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			run := r.inPhase(r.launch(anna, "slow", 1).ID, sidecar.PhaseExecuting)
			r.store.writes.Store(true)
			r.pass(time.Minute)
			if s := r.read(run.ID).Status; s != sidecar.StatusRunning {
				r.Errorf("it is %s", s)
			}
			r.store.writes.Store(false)
			got := r.finished(run.ID)
			if diff := cmp.Diff(completed(), endOf(got)); diff != "" {
				r.Error(diff)
			}
			r.heldOnce(got, true)
			r.gapless(got)
		})
	})
	t.Run("what_is_damaged_ends_its_run_and_holds_no_turn", func(t *testing.T) {
		bubble(t, setup{window: 1}, func(r *rig) {
			r.fake.Hold()
			first, second := r.launch(anna, "slow", 1), r.launch(anna, "slow", 2)
			r.stop()
			r.sql("UPDATE blobs SET data = x'00' WHERE sha256 = '" + string(r.read(second.ID).Graph) + "'")
			r.start()
			r.fake.Release()
			r.finished(first.ID)
			run := r.finished(second.ID)
			if diff := cmp.Diff(refusal(sidecar.OutcomeFailed, sidecar.CodeRecovery), endOf(run)); diff != "" {
				r.Error(diff)
			}
			if run.Error != "What is stored of this run cannot be used." {
				r.Error(run.Error)
			}
			r.finished(r.launch(anna, "picture", 3).ID)
		})
	})
	t.Run("what_can_never_be_written_ends_its_run", func(t *testing.T) {
		bubble(t, setup{window: 1}, func(r *rig) {
			r.sql("CREATE TRIGGER no BEFORE INSERT ON events WHEN NEW.type = 'node_finished' BEGIN SELECT RAISE(ABORT, 'no'); END")
			run := r.finished(r.launch(anna, "slow", 1).ID) // slow enough for its nodes to be heard of
			if diff := cmp.Diff(errored(sidecar.OutcomeFailed, sidecar.CodeRecovery), endOf(run)); diff != "" {
				r.Error(diff)
			}
			r.sql("DROP TRIGGER no")
			if diff := cmp.Diff(completed(), endOf(r.finished(r.launch(anna, "picture", 2).ID))); diff != "" {
				r.Error(diff)
			}
		})
	})
	t.Run("the_studio_ends_though_it_cannot_write", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			run := r.inPhase(r.launch(anna, "slow", 1).ID, sidecar.PhaseExecuting)
			r.store.writes.Store(true)
			r.pass(10 * time.Second)
			r.stop()
			r.store.writes.Store(false)
			r.start()
			if diff := cmp.Diff(completed(), endOf(r.finished(run.ID))); diff != "" {
				r.Error(diff)
			}
		})
	})
	t.Run("a_run_of_an_earlier_life_is_taken_up_once_it_can_be_read", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			run := r.inPhase(r.launch(anna, "slow", 1).ID, sidecar.PhaseExecuting)
			r.stop()
			r.store.reads.Store(true)
			r.store.blobs.Store(true)
			r.start()
			r.pass(30 * time.Second)
			r.store.reads.Store(false)
			r.pass(30 * time.Second)
			r.store.blobs.Store(false)
			if diff := cmp.Diff(completed(), endOf(r.finished(run.ID))); diff != "" {
				r.Error(diff)
			}
		})
	})
}

// sql changes the database behind the studio's back.
func (r *rig) sql(text string) {
	r.Helper()
	must(r, r.store.Do(context.Background(), func(tx *sqlite.Tx) error {
		_, err := tx.Exec(text)
		return err
	}))
}
