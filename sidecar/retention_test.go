package sidecar_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/artifact"
)

// copying gives a rig a folder of copies and begins anew.
func (r *rig) copying(keep sidecar.Retention) (folder string, done func()) {
	folder = r.TempDir()
	copies, err := artifact.Open(folder)
	must(r, err)
	r.copies, r.opts.Copies, r.opts.Keep = copies, copies, keep
	r.restart()
	return folder, func() { must(r, copies.Close()) }
}

func TestRetention(t *testing.T) {
	t.Run("a_server_prunes_at_its_start_and_hourly", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			dir, done := r.copying(sidecar.Retention{Runs: 2})
			defer done()
			var runs []*sidecar.Run
			more := func(n int) {
				for range n {
					runs = append(runs, r.finished(r.launch(anna, "temp", len(runs)).ID))
				}
			}
			left := func(want ...int) {
				t.Helper()
				folders := []string{".partial"}
				for _, i := range want {
					folders = append(folders, string(runs[i].Prompt))
				}
				slices.Sort(folders)
				if diff := cmp.Diff(folders, files(t, dir)); diff != "" {
					t.Errorf("copies: %s", diff)
				}
				if got := len(r.runs(anna)); got != len(want) {
					t.Errorf("%d runs are left, want %d", got, len(want))
				}
			}
			more(3)
			left(0, 1, 2)
			r.restart()
			left(0, 1, 2) // who asks first does not wait for it
			r.pass(6 * time.Second)
			left(1, 2)
			more(1)
			left(1, 2, 3)
			r.pass(time.Hour)
			left(2, 3)
		})
	})
	t.Run("a_copy_that_could_not_be_removed_is_tried_again", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			dir, done := r.copying(sidecar.Retention{})
			defer done()
			run := r.finished(r.launch(anna, "temp", 1).ID)
			folder := dir + "/" + string(run.Prompt)
			name := files(t, folder)[0]
			// A folder that holds something cannot be removed as a file.
			must(t, os.Remove(folder+"/"+name))
			must(t, os.MkdirAll(folder+"/"+name+"/x", 0o755))
			must(t, r.studio.DeleteRun(context.Background(), run.Scope, run.ID))
			must(t, os.Remove(folder+"/"+name+"/x"))
			pruned, err := r.studio.Prune(context.Background(), sidecar.Retention{})
			must(t, err)
			if pruned.Copies != 1 || len(files(t, dir)) != 1 {
				t.Errorf("%+v, left %v", pruned, files(t, dir))
			}
		})
	})
}

func TestDeleteRun(t *testing.T) {
	ctx := context.Background()
	codeOf := func(err error) sidecar.Code {
		var told *sidecar.Error
		errors.As(err, &told)
		if told == nil {
			return ""
		}
		return told.Code
	}
	bubble(t, setup{}, func(r *rig) {
		dir, done := r.copying(sidecar.Retention{})
		defer done()
		ended := r.finished(r.launch(anna, "temp", 1).ID)
		other := r.finished(r.launch(anna, "temp", 2).ID)
		active := r.launch(anna, "slow", 3)
		if code := codeOf(r.studio.DeleteRun(ctx, sidecar.Scope(bert), ended.ID)); code != sidecar.CodeNotFound {
			t.Errorf("somebody else's: %q", code)
		}
		if code := codeOf(r.studio.DeleteRun(ctx, active.Scope, active.ID)); code != sidecar.CodeUnfinished {
			t.Errorf("an active one: %q", code)
		}
		must(t, r.studio.DeleteRun(ctx, ended.Scope, ended.ID))
		if code := codeOf(r.studio.DeleteRun(ctx, ended.Scope, ended.ID)); code != sidecar.CodeNotFound {
			t.Errorf("again: %q", code)
		}
		if diff := cmp.Diff([]string{".partial", string(other.Prompt)}, files(t, dir)); diff != "" {
			t.Errorf("copies: %s", diff)
		}
		if run := r.finished(active.ID); run.Status != sidecar.StatusCompleted {
			t.Errorf("the active one ended %s", run.Status)
		}
	})
}

func TestEditRun(t *testing.T) {
	bubble(t, setup{}, func(r *rig) {
		title, pinned := "Dunes", true
		run := r.launch(anna, "slow", 1)
		edited, err := r.studio.EditRun(context.Background(), run.Scope, run.ID, sidecar.Edit{Title: &title, Pinned: &pinned})
		must(t, err)
		if edited.Title != title || !edited.Pinned {
			t.Errorf("got %q, %v", edited.Title, edited.Pinned)
		}
		done := r.finished(run.ID)
		if done.Status != sidecar.StatusCompleted || done.Title != title || !done.Pinned {
			t.Errorf("at the end %s, %q, %v", done.Status, done.Title, done.Pinned)
		}
		r.gapless(done)
	})
}
