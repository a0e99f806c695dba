package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

// newCommand is the n-th command of a session, n hours after birth.
func newCommand(owner sidecar.SessionID, n int) *sidecar.Command {
	return &sidecar.Command{
		Owner: owner, Key: fmt.Sprintf("key%d", n), Hash: []byte{0, 1, 255}, Session: owner, Kind: "run_contract",
		At: birth.Add(time.Duration(n) * time.Hour),
	}
}

func answered(owner sidecar.SessionID, n int) *sidecar.Command {
	c := newCommand(owner, n)
	c.Answer = &sidecar.Answer{Status: 200, Header: map[string][]string{"Content-Type": {"a"}, "X": {"b", "c"}}, Body: []byte("{}\x00")}
	return c
}

// ordering is a context whose first change carries out the command.
func ordering(c *sidecar.Command, expect ...int64) (context.Context, *sidecar.Order) {
	order := &sidecar.Order{Command: c, Expect: expect}
	return sidecar.WithOrder(context.Background(), order), order
}

func command(t *testing.T, store *sqlite.Store, owner sidecar.SessionID, n int) *sidecar.Command {
	t.Helper()
	c, err := store.Command(context.Background(), owner, newCommand(owner, n).Key)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCommands(t *testing.T) {
	ctx := context.Background()
	started := func(run *sidecar.Run) []sidecar.Event {
		return []sidecar.Event{told(run, sidecar.EventRunStarted)}
	}
	cancel := func(r *sidecar.Run) ([]sidecar.Event, error) {
		return r.Apply(sidecar.Signal{Kind: sidecar.SignalCancel}, r.UpdatedAt), nil
	}

	t.Run("is_committed_with_the_run_and_survives_a_restart", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state.db")
		store := open(t, path)
		run := newRun("alice", 1)
		before := store.Stats().Transactions
		ordered, order := ordering(newCommand("alice", 1))
		if err := store.Create(ordered, run, started(run), blobsOfRuns()...); err != nil || !order.Settled() {
			t.Fatal(err, order.Settled())
		}
		if n := store.Stats().Transactions - before; n != 1 {
			t.Errorf("%d transactions", n)
		}
		closeStore(t, store)
		want := newCommand("alice", 1)
		want.Seq, want.Run = 1, run.ID
		diff(t, want, command(t, open(t, path), "alice", 1))
	})
	t.Run("a_second_effect_is_refused_whole", func(t *testing.T) {
		store := fresh(t)
		one, two := newRun("alice", 1), newRun("alice", 2)
		ordered, _ := ordering(newCommand("alice", 1))
		if err := store.Create(ordered, one, started(one), blobsOfRuns()...); err != nil {
			t.Fatal(err)
		}
		again, order := ordering(newCommand("alice", 1))
		if err := store.Create(again, two, started(two), blobsOfRuns()...); !errors.Is(err, sidecar.ErrCommandTaken) || order.Settled() {
			t.Error(err, order.Settled())
		}
		if _, err := store.Run(ctx, two.ID); !errors.Is(err, sidecar.ErrNotFound) || store.Head() != 1 {
			t.Error(err, store.Head())
		}
		other, _ := ordering(newCommand("bobby", 1))
		if err := store.Create(other, two, started(two), blobsOfRuns()...); err != nil {
			t.Errorf("another's key: %v", err)
		}
		sound(t, store)
	})
	t.Run("later_changes_of_the_call_are_not_concerned", func(t *testing.T) {
		store := fresh(t)
		run := create(t, store, newRun("alice", 1))
		ordered, _ := ordering(newCommand("alice", 1), run.Revision)
		_, err := store.Update(ordered, run.ID, func(r *sidecar.Run) ([]sidecar.Event, error) {
			r.Revision++
			return []sidecar.Event{told(r, sidecar.EventRunProgress)}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := store.Update(ordered, run.ID, cancel); err != nil || got.Status != sidecar.StatusCancelled {
			t.Error(err, got)
		}
	})
	t.Run("a_failed_change_leaves_none", func(t *testing.T) {
		store := fresh(t)
		run := create(t, store, newRun("alice", 1))
		ordered, order := ordering(newCommand("alice", 1))
		refused := errors.New("refused")
		_, err := store.Update(ordered, run.ID, func(*sidecar.Run) ([]sidecar.Event, error) { return nil, refused })
		_, idle := store.Update(ordered, run.ID, func(*sidecar.Run) ([]sidecar.Event, error) { return nil, nil })
		if err != refused || idle != nil || order.Settled() {
			t.Error(err, idle, order.Settled())
		}
		if _, err := store.Command(ctx, "alice", "key1"); !errors.Is(err, sidecar.ErrNotFound) {
			t.Error(err)
		}
	})
	t.Run("of_many_at_once_one_has_an_effect", func(t *testing.T) {
		store := fresh(t)
		var all sync.WaitGroup
		var won, lost atomic.Int32
		for n := range 64 {
			all.Go(func() {
				ordered, _ := ordering(newCommand("alice", n%4))
				run := newRun("alice", n)
				switch err := store.Create(ordered, run, started(run), blobsOfRuns()...); {
				case err == nil:
					won.Add(1)
				case errors.Is(err, sidecar.ErrCommandTaken):
					lost.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		all.Wait()
		if won.Load() != 4 || lost.Load() != 60 || count(t, store, "SELECT count(*) FROM runs") != 4 {
			t.Errorf("%d won, %d lost", won.Load(), lost.Load())
		}
		sound(t, store)
	})
	t.Run("a_revision_of_nothing_is_refused", func(t *testing.T) {
		store := fresh(t)
		run := apply(t, store, create(t, store, newRun("alice", 1)).ID, sidecar.Signal{Kind: sidecar.SignalHanding}, accepted())
		row(t, store, "DELETE FROM runs WHERE run_id = ?", string(run.ID))
		expecting := func(err error) {
			t.Helper()
			if refused := (*sidecar.Error)(nil); !errors.As(err, &refused) || refused.Code != sidecar.CodeCondition {
				t.Errorf("got %v", err)
			}
		}
		ordered, order := ordering(newCommand("alice", 1), run.Revision)
		_, err := store.DeleteItem(ordered, "alice", run.Items[0].ID)
		expecting(err)
		expecting(store.AddUpload(ordered, newUpload(1)))
		other := newRun("alice", 2)
		expecting(store.Create(ordered, other, started(other), blobsOfRuns()...))
		for table, want := range map[string]int{"gallery_items": len(run.Items), "files": 0, "runs": 0, "commands": 0} {
			if n := count(t, store, "SELECT count(*) FROM "+table); n != want {
				t.Errorf("%d %s, want %d", n, table, want)
			}
		}
		if order.Settled() {
			t.Error("the order is settled")
		}
	})
	t.Run("an_item_and_an_upload", func(t *testing.T) {
		store := fresh(t)
		run := apply(t, store, create(t, store, newRun("alice", 1)).ID, sidecar.Signal{Kind: sidecar.SignalHanding}, accepted())
		ordered, _ := ordering(answered("alice", 1))
		if item, err := store.DeleteItem(ordered, "alice", run.Items[0].ID); item == nil || err != nil {
			t.Fatal(item, err)
		}
		ordered, _ = ordering(newCommand("alice", 2))
		if err := store.AddUpload(ordered, newUpload(1)); err != nil {
			t.Fatal(err)
		}
		if c := command(t, store, "alice", 1); c.Run != run.ID || c.Answer == nil {
			t.Errorf("%+v", c)
		}
		if c := command(t, store, "alice", 2); c.Run != "" {
			t.Errorf("%+v", c)
		}
	})
}

func TestAnswers(t *testing.T) {
	ctx := context.Background()
	answer := func(t *testing.T, store *sqlite.Store, c *sidecar.Command) *sidecar.Command {
		t.Helper()
		stored, err := store.AnswerCommand(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		return stored
	}
	t.Run("the_first_stays", func(t *testing.T) {
		store := fresh(t)
		want := answered("alice", 1)
		want.Seq = 1
		diff(t, want, answer(t, store, answered("alice", 1)))
		other := answered("alice", 1)
		other.Answer.Status = 500
		diff(t, want, answer(t, store, other))
		diff(t, want, command(t, store, "alice", 1))
	})
	t.Run("comes_to_the_command_that_is_there", func(t *testing.T) {
		store := fresh(t)
		run := newRun("alice", 1)
		ordered, _ := ordering(newCommand("alice", 1))
		if err := store.Create(ordered, run, []sidecar.Event{told(run, sidecar.EventRunStarted)}, blobsOfRuns()...); err != nil {
			t.Fatal(err)
		}
		want := answered("alice", 1)
		want.Seq, want.Run = 1, run.ID
		diff(t, want, answer(t, store, answered("alice", 1)))
	})
	t.Run("lists_go_on_where_they_ended", func(t *testing.T) {
		store := fresh(t)
		for n := range 5 {
			answer(t, store, answered("alice", n))
			answer(t, store, answered("bobby", n))
		}
		var seen []string
		filter := sidecar.CommandFilter{Session: "bobby", Limit: 2}
		for more := true; more; {
			page, err := store.Commands(ctx, filter)
			if err != nil || len(page.Commands) == 0 {
				t.Fatal(err, page)
			}
			for _, c := range page.Commands {
				seen = append(seen, c.Key)
				if c.Answer == nil || c.Answer.Status != 200 || c.Answer.Body != nil {
					t.Errorf("%+v", c.Answer)
				}
			}
			filter.After, more = page.Commands[len(page.Commands)-1].Seq, page.More
		}
		diff(t, []string{"key0", "key1", "key2", "key3", "key4"}, seen)
		if page, err := store.Commands(ctx, sidecar.CommandFilter{}); err != nil || len(page.Commands) != 10 || page.More {
			t.Error(err, len(page.Commands), page.More)
		}
	})
	t.Run("old_ones_expire_and_their_numbers_are_not_given_again", func(t *testing.T) {
		store := fresh(t)
		for n := range 1100 {
			answer(t, store, answered("alice", n))
		}
		if n, err := store.ExpireCommands(ctx, newCommand("alice", 1050).At); n != 1050 || err != nil {
			t.Error(n, err)
		}
		if _, err := store.Command(ctx, "alice", "key1049"); !errors.Is(err, sidecar.ErrNotFound) {
			t.Error(err)
		}
		if c := command(t, store, "alice", 1050); c.Seq != 1051 {
			t.Errorf("number %d", c.Seq)
		}
		if n, err := store.ExpireCommands(ctx, birth.AddDate(1, 0, 0)); n != 50 || err != nil {
			t.Error(n, err)
		}
		if c := answer(t, store, answered("alice", 1)); c.Seq != 1101 {
			t.Errorf("number %d", c.Seq)
		}
	})
}

// TestRevisions: of many who read one revision, one changes it; the others
// are told, and nothing is lost.
func TestRevisions(t *testing.T) {
	store := fresh(t)
	const clients, each = 16, 10
	id := create(t, store, newRun("alice", 1)).ID
	var all sync.WaitGroup
	var won, lost atomic.Int32
	for range clients {
		all.Go(func() {
			for range each {
				seen, err := store.Run(context.Background(), id)
				if err != nil {
					t.Error(err)
					return
				}
				ordered, _ := ordering(nil, seen.Revision)
				_, err = store.Update(ordered, id, func(r *sidecar.Run) ([]sidecar.Event, error) {
					r.Revision++
					return []sidecar.Event{told(r, sidecar.EventRunProgress)}, nil
				})
				var refused *sidecar.Error
				switch {
				case err == nil:
					won.Add(1)
				case errors.As(err, &refused) && refused.Code == sidecar.CodeCondition && refused.Run.Revision > seen.Revision:
					lost.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d updates: %d won, %d were refused", clients*each, won.Load(), lost.Load())
	if got := read(t, store, id).Revision; got != int64(won.Load()) || won.Load()+lost.Load() != clients*each || won.Load() == 0 {
		t.Errorf("revision %d", got)
	}
	sound(t, store)
}
