package routes_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

// Readers join anywhere in the history of a run, leave and come back, while
// events are written and old ones trimmed. Each gets every event of its run,
// in order and once, or is told where it has lost some.
func TestReadersWhileEventsAreTrimmed(t *testing.T) {
	events := 4000
	if os.Getenv("STUDIO_FULL") != "" {
		events = 100_000
	}
	const readers, runs = 50, 5
	r := setup{name: "demo", deaf: true}.start(t)
	log := newEventLog(r, runs)
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	joined := make([]*reader, readers)
	var group sync.WaitGroup
	for n := range readers {
		for log.total < events*(n+1)/readers {
			log.write(50)
		}
		log.trim()
		joined[n] = log.join(uint64(n))
		group.Go(func() { joined[n].err = joined[n].read(ctx, log) })
	}
	log.end()
	group.Wait()
	resets, messages, cuts := 0, 0, 0
	for n, rd := range joined {
		if err := errors.Join(rd.err, log.check(rd)); err != nil {
			t.Errorf("reader %d of run %s from %d on: %v", n, rd.run, rd.from, err)
		}
		messages += len(rd.got)
		cuts += rd.cuts
		resets += rd.resets()
	}
	t.Logf("%d events, of which %d were trimmed; %d readers got %d, came back %d times and were reset %d times",
		log.total, log.trimmed, readers, messages, cuts, resets)
	if resets == 0 || cuts == 0 || log.trimmed == 0 {
		t.Error("nothing was put to the test")
	}
}

// eventLog writes events and knows what it wrote.
type eventLog struct {
	r        *rig
	choose   *rand.Rand
	runs     []sidecar.RunID
	written  map[sidecar.RunID][]int64 // numbers, by run
	retained map[sidecar.RunID]int64
	last     atomic.Int64 // number of the newest event; 0 until there is one
	total    int
	trimmed  int
}

func newEventLog(r *rig, runs int) *eventLog {
	log := &eventLog{r: r, choose: rand.New(rand.NewPCG(3, 4)), written: map[sidecar.RunID][]int64{}, retained: map[sidecar.RunID]int64{}}
	eventually(r.t, "health is told", func() bool { return r.store.Head() > 0 })
	for n := range runs {
		id := sidecar.RunID(fmt.Sprintf("run_%032d", n))
		now := time.Now()
		must(r.t, r.store.Create(r.t.Context(), &sidecar.Run{
			ID: id, Session: "anna", Scope: "anna", Workflow: "solid", Contract: "default", Status: sidecar.StatusCompleted,
			CreatedAt: now, UpdatedAt: now, State: sidecar.State{Phase: sidecar.PhaseFinished},
		}, nil))
		log.runs = append(log.runs, id)
	}
	return log
}

// write commits events of runs chosen at random; each tells its place among
// those of its run.
func (log *eventLog) write(count int) {
	batch := make([]sidecar.Event, count)
	for i := range batch {
		batch[i] = log.event(log.runs[log.choose.IntN(len(log.runs))], sidecar.EventRunProgress, i)
	}
	log.commit(batch)
}

func (log *eventLog) event(run sidecar.RunID, kind sidecar.EventType, ahead int) sidecar.Event {
	seq := int64(log.r.store.Head()) + int64(ahead) + 1
	log.written[run] = append(log.written[run], seq)
	return sidecar.Event{
		Run: run, Scope: "anna", Revision: int64(len(log.written[run])), Type: kind, At: time.Now(), Targets: json.RawMessage(`{}`),
	}
}

func (log *eventLog) commit(batch []sidecar.Event) {
	log.r.t.Helper()
	before := log.r.store.Head()
	must(log.r.t, log.r.store.Append(log.r.t.Context(), batch...))
	if log.r.store.Head() != before+sidecar.Seq(len(batch)) {
		log.r.t.Fatal("somebody else writes events")
	}
	log.total += len(batch)
}

// end writes the last event of each run.
func (log *eventLog) end() {
	var batch []sidecar.Event
	for i, run := range log.runs {
		batch = append(batch, log.event(run, sidecar.EventRunCompleted, i))
	}
	log.last.Store(int64(log.r.store.Head()) + int64(len(batch)))
	log.commit(batch)
}

// trim removes all but the newest events of a run.
func (log *eventLog) trim() {
	run := log.runs[log.choose.IntN(len(log.runs))]
	numbers := log.written[run]
	from := numbers[max(0, len(numbers)-1-log.choose.IntN(100))]
	must(log.r.t, log.r.store.Do(log.r.t.Context(), func(tx *sqlite.Tx) error {
		_, err := tx.Exec(`UPDATE run_state SET retained_from = ?1, base_hash = (SELECT hash FROM events
			WHERE run_id = ?2 AND seq < ?1 ORDER BY seq DESC LIMIT 1) WHERE run_id = ?2`, from, string(run))
		if err != nil {
			return err
		}
		gone, err := tx.Exec("DELETE FROM events WHERE run_id = ? AND seq < ?", string(run), from)
		if err != nil {
			return err
		}
		count, err := gone.RowsAffected()
		log.trimmed += int(count)
		return err
	}))
	log.retained[run] = from
}

// reader is one client of a run's stream.
type reader struct {
	run    sidecar.RunID
	from   int64
	choose *rand.Rand
	got    []told
	cuts   int
	err    error
}

// told is what came over a stream: an event, or that some are lost.
type told struct {
	seq   int64
	place int64 // of the event among those of its run
	reset bool
}

func (log *eventLog) join(seed uint64) *reader {
	run := log.runs[log.choose.IntN(len(log.runs))]
	from := int64(0)
	if numbers := log.written[run]; log.choose.IntN(4) > 0 {
		from = numbers[log.choose.IntN(len(numbers))]
	}
	return &reader{run: run, from: from, choose: rand.New(rand.NewPCG(seed, 9))}
}

// read follows the stream to the last event of the run, over several
// connections.
func (rd *reader) read(ctx context.Context, log *eventLog) error {
	at := rd.from
	for {
		cut := 1 + rd.choose.IntN(2000)
		done, err := rd.connect(ctx, log, &at, cut)
		if done || err != nil {
			return err
		}
		rd.cuts++
	}
}

// connect reads until the run's end, or until cut messages came.
func (rd *reader) connect(ctx context.Context, log *eventLog, at *int64, cut int) (done bool, err error) {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	req, err := http.NewRequestWithContext(ctx, "GET", log.r.server.URL+"/runs/"+string(rd.run)+"/events", nil)
	if err != nil {
		return false, err
	}
	req.Header.Set("X-ComfyGit-Studio-Session", "anna")
	req.Header.Set("Last-Event-ID", strconv.FormatInt(*at, 10))
	resp, err := log.r.server.Client().Do(req)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode != http.StatusOK {
		return false, fmt.Errorf("status %d", resp.StatusCode)
	}
	lines, kind := bufio.NewScanner(resp.Body), ""
	for seq := int64(0); cut > 0 && lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "id":
			if seq, err = strconv.ParseInt(value, 10, 64); err != nil {
				return false, err
			}
		case "event":
			kind = value
		case "data":
			if kind == "progress" || kind == "preview" {
				continue
			}
			*at, cut = seq, cut-1
			rd.got = append(rd.got, told{seq, placeIn(value), kind == "reset"})
			if last := log.last.Load(); last > 0 && seq >= last || kind == string(sidecar.EventRunCompleted) {
				return true, nil
			}
		}
	}
	return false, lines.Err()
}

func placeIn(data string) int64 {
	_, rest, _ := strings.Cut(data, `"revision":`)
	digits, _, _ := strings.Cut(rest, ",")
	place, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0
	}
	return place
}

func (rd *reader) resets() (n int) {
	for _, m := range rd.got {
		if m.reset {
			n++
		}
	}
	return n
}

// check holds what a reader got against what was written.
func (log *eventLog) check(rd *reader) error {
	numbers := log.written[rd.run]
	next, _ := slices.BinarySearch(numbers, rd.from+1)
	for _, m := range rd.got {
		switch {
		case m.reset && numbers[next] >= log.retained[rd.run]:
			return fmt.Errorf("reset at %d, though %d was kept", m.seq, numbers[next])
		case m.reset:
			next, _ = slices.BinarySearch(numbers, m.seq+1)
		case next == len(numbers) || m.seq != numbers[next] || m.place != int64(next+1):
			return fmt.Errorf("got %d, the %d. of its run, where number %d was due", m.seq, m.place, next+1)
		default:
			next++
		}
	}
	if next != len(numbers) {
		return fmt.Errorf("%d events at the end were not told", len(numbers)-next)
	}
	return nil
}
