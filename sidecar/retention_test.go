package sidecar_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/artifact"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
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

// stubborn are copies of which some cannot be removed.
type stubborn struct {
	stuck   func(ref string) bool
	removed []string
}

func (c *stubborn) Size(string) int64 { return 0 }

func (c *stubborn) RemoveAll(refs ...string) error {
	for _, ref := range refs {
		if c.stuck(ref) {
			return os.ErrPermission
		}
		c.removed = append(c.removed, ref)
	}
	return nil
}

// doom puts n copies on the list of those to remove.
func (r *rig) doom(n int) {
	r.Helper()
	must(r, r.store.Do(context.Background(), func(tx *sqlite.Tx) error {
		_, err := tx.Exec(`
			WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?)
			INSERT INTO files (id, kind, name, path, state, created_at, expires_at)
			SELECT printf('doomed/p/%04d', i), 'doomed', '', printf('p/%04d', i), '', '', '' FROM n`, n)
		return err
	}))
}

func TestCopiesThatCannotBeRemoved(t *testing.T) {
	ctx := context.Background()
	bubble(t, setup{}, func(r *rig) {
		copies := &stubborn{stuck: func(ref string) bool { return ref < "p/0600" }}
		r.opts.Copies = copies
		r.restart()
		r.doom(1100)
		must(t, r.store.Do(ctx, func(tx *sqlite.Tx) error {
			_, err := tx.Exec("INSERT INTO commands (owner, key, hash, session_id, kind, at) VALUES ('anna', 'k', x'00', 'anna', 'run', '1999-01-01T00:00:00.000Z')")
			return err
		}))
		pruned, err := r.studio.Prune(ctx, sidecar.Retention{})
		if !errors.Is(err, os.ErrPermission) {
			t.Errorf("got %v", err)
		}
		if pruned.Copies != 500 || len(copies.removed) != 500 {
			t.Errorf("%d of the 500 that can be removed went: %+v", len(copies.removed), pruned)
		}
		left, err := r.store.Doomed(ctx, "", 2000)
		must(t, err)
		if len(left) != 600 || left[599] != "p/0599" {
			t.Errorf("%d wait still", len(left))
		}
		page, err := r.store.Commands(ctx, sidecar.CommandFilter{Limit: 10})
		must(t, err)
		if len(page.Commands) != 0 {
			t.Error("a command of long ago is kept")
		}
	})
}

// TestDeleteRunLeavesOtherCopies to those who prune: a request is not the place
// for thousands of them.
func TestDeleteRunLeavesOtherCopies(t *testing.T) {
	bubble(t, setup{}, func(r *rig) {
		_, done := r.copying(sidecar.Retention{})
		defer done()
		run := r.finished(r.launch(anna, "temp", 1).ID)
		copies := &stubborn{stuck: func(string) bool { return false }}
		r.opts.Copies = copies
		r.restart()
		r.doom(3)
		must(t, r.studio.DeleteRun(context.Background(), run.Scope, run.ID))
		if len(copies.removed) != 1 || !strings.HasPrefix(copies.removed[0], string(run.Prompt)+"/") {
			t.Errorf("removed %v", copies.removed)
		}
		left, err := r.store.Doomed(context.Background(), "", 10)
		must(t, err)
		if len(left) != 3 {
			t.Errorf("%v wait", left)
		}
	})
}

// TestItemDeletedBeforeItsRunEnds: its copy goes with the run.
func TestItemDeletedBeforeItsRunEnds(t *testing.T) {
	ctx := context.Background()
	bubble(t, setup{}, func(r *rig) {
		dir, done := r.copying(sidecar.Retention{})
		defer done()
		r.launch(anna, "slow", 1)
		run := r.inPhase(r.launch(anna, "temp", 2).ID, sidecar.PhaseQueued)
		if ok, err := r.studio.DeleteItem(ctx, run.Scope, run.Items[0].ID); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if run = r.finished(run.ID); len(run.Items) != 0 || run.Status != sidecar.StatusCompleted {
			t.Fatalf("%s with %d items", run.Status, len(run.Items))
		}
		if n := len(files(t, dir)); n != 2 {
			t.Fatalf("nothing was copied: %v", files(t, dir))
		}
		must(t, r.studio.DeleteRun(ctx, run.Scope, run.ID))
		_, err := r.studio.Prune(ctx, sidecar.Retention{})
		must(t, err)
		if diff := cmp.Diff([]string{".partial"}, files(t, dir)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestDeletedItemWhoseCopyStays(t *testing.T) {
	ctx := context.Background()
	bubble(t, setup{}, func(r *rig) {
		dir, done := r.copying(sidecar.Retention{})
		defer done()
		run := r.finished(r.launch(anna, "temp", 1).ID)
		folder := dir + "/" + string(run.Prompt)
		name := files(t, folder)[0]
		must(t, os.Remove(folder+"/"+name))
		must(t, os.MkdirAll(folder+"/"+name+"/x", 0o755))
		if ok, err := r.studio.DeleteItem(ctx, run.Scope, run.Items[0].ID); !ok || err != nil {
			t.Fatal(ok, err)
		}
		must(t, os.Remove(folder+"/"+name+"/x"))
		pruned, err := r.studio.Prune(ctx, sidecar.Retention{})
		must(t, err)
		if pruned.Copies != 1 || len(files(t, dir)) != 1 {
			t.Errorf("%+v, left %v", pruned, files(t, dir))
		}
		if pruned, err = r.studio.Prune(ctx, sidecar.Retention{}); err != nil || pruned.Copies != 0 {
			t.Errorf("then %+v, %v", pruned, err)
		}
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
