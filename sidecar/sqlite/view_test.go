package sqlite_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

func view(t testing.TB, store *sqlite.Store, id sidecar.RunID, parts sidecar.ViewParts) *sidecar.RunView {
	t.Helper()
	v, err := store.View(context.Background(), id, parts)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// made ends a run whose node 2 made two files.
func made() sidecar.Signal {
	name := func(s string) *string { return &s }
	res := sidecar.Result{Files: []sidecar.File{{Bytes: 1000}, {}}}
	res.Name, res.Type, res.NodeID = "image", "image", "2"
	res.Artifacts = append(res.Artifacts, manifest.Artifact{Filename: name("a.png")}, manifest.Artifact{Filename: name("b.png")})
	return sidecar.Signal{Kind: sidecar.SignalFinished, Results: []sidecar.Result{res}}
}

func TestView(t *testing.T) {
	store := fresh(t)
	run := create(t, store, newRun("alice", 1))
	node := func(kind sidecar.SignalKind, id sidecar.NodeID) sidecar.Signal {
		return sidecar.Signal{Kind: kind, Node: sidecar.NodeRef{ID: id}}
	}
	run = apply(t, store, run.ID, sidecar.Signal{Kind: sidecar.SignalHanding}, accepted(),
		node(sidecar.SignalNodeStarted, "1"), node(sidecar.SignalNodeFinished, "1"), made())
	v := view(t, store, run.ID, sidecar.ViewParts{Contract: true, Graph: true})

	t.Run("is_the_run_with_what_belongs_to_it", func(t *testing.T) {
		diff(t, read(t, store, run.ID), v.Run)
		if string(v.Contract) != "contract" || string(v.Graph) != "graph" {
			t.Errorf("contract %q, graph %q", v.Contract, v.Graph)
		}
		if v := view(t, store, run.ID, sidecar.ViewParts{}); v.Contract != nil || v.Graph != nil {
			t.Error("documents that nobody asked for")
		}
	})
	t.Run("leads_through_the_phases", func(t *testing.T) {
		var to []sidecar.Phase
		for _, step := range v.Steps {
			to = append(to, step.To)
		}
		diff(t, []sidecar.Phase{sidecar.PhaseSubmitting, sidecar.PhaseQueued, sidecar.PhaseExecuting, sidecar.PhaseFinished}, slices.Compact(to))
		if last := v.Steps[len(v.Steps)-1]; last.Seq > v.Last || v.Last != store.Head() || last.Status != sidecar.StatusCompleted {
			t.Errorf("ends with %+v, the newest event is %d", last, store.Head())
		}
	})
	t.Run("a_node_of_which_nothing_was_heard_has_its_files", func(t *testing.T) {
		diff(t, sidecar.Metrics{Nodes: 2, Files: 2, Bytes: 1000, Took: run.FinishedAt.Sub(run.StartedAt)}, v.Run.Metrics())
	})
	t.Run("nodes_of_earlier_attempts_are_left_out", func(t *testing.T) {
		run := create(t, store, newRun("alice", 2))
		handing := sidecar.Signal{Kind: sidecar.SignalHanding}
		apply(t, store, run.ID, handing, node(sidecar.SignalNodeStarted, "old"), handing, accepted(), node(sidecar.SignalNodeStarted, "new"))
		nodes := view(t, store, run.ID, sidecar.ViewParts{}).Run.Nodes
		if len(nodes) != 1 || nodes[0].Node != "new" {
			t.Errorf("%+v", nodes)
		}
	})
	t.Run("names_parent_and_children", func(t *testing.T) {
		child := newRun("alice", 9)
		child.Parent = run.ID
		create(t, store, child)
		if v := view(t, store, child.ID, sidecar.ViewParts{}); v.Parent != run.ID || len(v.Children) != 0 {
			t.Errorf("parent %q, children %v", v.Parent, v.Children)
		}
		diff(t, []sidecar.RunID{child.ID}, view(t, store, run.ID, sidecar.ViewParts{}).Children)
	})
	t.Run("an_unknown_run_is_not_found", func(t *testing.T) {
		if _, err := store.View(context.Background(), "run_none", sidecar.ViewParts{}); !errors.Is(err, sidecar.ErrNotFound) {
			t.Error(err)
		}
	})
}

// Whatever is asked for, a list has the runs that a walk over all of them would
// choose, page by page, and the counts are theirs.
func TestRunFilters(t *testing.T) {
	store := fresh(t)
	random := rand.New(rand.NewPCG(1, 2))
	var all []*sidecar.Run
	for n := range 60 {
		run := newRun([]sidecar.Scope{"alice", "bertie"}[n%2], n)
		run.Workflow, run.Contract = pick(random, "solid", "blur"), pick(random, "default", "preview")
		run.CreatedAt = birth.Add(time.Duration(n/4) * 4 * time.Second) // two of a scope at once
		if n > 10 && random.IntN(2) == 0 {
			run.Parent = all[random.IntN(2)].ID
		}
		create(t, store, run)
		switch random.IntN(4) {
		case 3:
			apply(t, store, run.ID, sidecar.Signal{Kind: sidecar.SignalHanding}, accepted(),
				sidecar.Signal{Kind: sidecar.SignalNodeStarted, Node: sidecar.NodeRef{ID: "1"}})
		case 0:
			apply(t, store, run.ID, sidecar.Signal{Kind: sidecar.SignalCancel})
		case 1:
			apply(t, store, run.ID, sidecar.Signal{Kind: sidecar.SignalHanding}, accepted(), made())
		}
		all = append(all, read(t, store, run.ID))
	}
	slices.Reverse(all)
	for range 300 {
		f := sidecar.RunFilter{
			Scope: "alice", Status: pick(random, "", sidecar.StatusCancelled, sidecar.StatusCompleted, sidecar.StatusSubmitted, sidecar.StatusRunning),
			Workflow: pick(random, "", "solid", "blur"), Active: random.IntN(4) == 0, RootOnly: random.IntN(2) == 0,
			Since: pick(random, time.Time{}, birth.Add(20*time.Second)), Until: pick(random, time.Time{}, birth.Add(40*time.Second)),
			Parent: pick(random, "", "", all[59].ID, all[58].ID),
			Limit:  1 + random.IntN(5), Metrics: random.IntN(2) == 0,
		}
		if f.Workflow != "" {
			f.Contract = pick(random, "", "preview")
		}
		var want []sidecar.RunID
		counts := map[sidecar.Status]int{}
		for _, run := range all {
			if chosen(f, run) {
				want = append(want, run.ID)
				counts[run.Status]++
			}
		}
		got, err := store.CountRuns(context.Background(), f)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmpDiff(counts, got) + cmpDiff(want, pagesOf(t, store, f)); d != "" {
			t.Fatalf("%+v: %s", f, d)
		}
	}
}

// Children that were launched at once may have ids in another order than times:
// pages have them all the same.
func TestPagesOfChildren(t *testing.T) {
	store := fresh(t)
	parent := newRun("alice", 0)
	create(t, store, parent)
	var want []sidecar.RunID
	for n := range 6 {
		child := newRun("alice", n+1)
		child.Parent = parent.ID
		child.CreatedAt = birth.Add(time.Duration(n^1) * time.Second) // 1 0 3 2 5 4
		create(t, store, child)
		want = append(want, child.ID)
	}
	slices.Reverse(want)
	for limit := range 4 {
		diff(t, want, pagesOf(t, store, sidecar.RunFilter{Scope: "alice", Parent: parent.ID, Limit: limit + 1}))
	}
}

func pick[T any](random *rand.Rand, from ...T) T { return from[random.IntN(len(from))] }

func chosen(f sidecar.RunFilter, run *sidecar.Run) bool {
	return run.Scope == f.Scope && (f.Status == "" || run.Status == f.Status) && (!f.Active || !run.Status.Terminal()) &&
		(f.Workflow == "" || run.Workflow == f.Workflow) && (f.Contract == "" || run.Contract == f.Contract) &&
		(f.Parent == "" || run.Parent == f.Parent) && (!f.RootOnly || run.Parent == "") &&
		!run.CreatedAt.Before(f.Since) && (f.Until.IsZero() || run.CreatedAt.Before(f.Until))
}

// pagesOf walks a list to its end and compares metrics with those of the runs.
func pagesOf(t *testing.T, store *sqlite.Store, f sidecar.RunFilter) (ids []sidecar.RunID) {
	t.Helper()
	for {
		page, err := store.Runs(context.Background(), f)
		if err != nil {
			t.Fatal(err)
		}
		for i, run := range page.Runs {
			ids = append(ids, run.ID)
			if f.Metrics {
				diff(t, read(t, store, run.ID).Metrics(), page.Metrics[i])
			}
		}
		if !page.More {
			return ids
		}
		last := page.Runs[len(page.Runs)-1]
		f.After = sidecar.Cursor{CreatedAt: last.CreatedAt, ID: string(last.ID)}
	}
}
