package sidecar_test

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

// deed is one thing that happens to the studio or to ComfyUI.
type deed struct {
	name string
	do   func(*rig, *world, int)
}

// world is what a scenario has made so far.
type world struct {
	runs     map[sidecar.RunID]*sidecar.Run
	seed     int
	restarts int // of ComfyUI
}

func (w *world) pick(n int) *sidecar.Run {
	ids := make([]string, 0, len(w.runs))
	for id := range w.runs {
		ids = append(ids, string(id))
	}
	if len(ids) == 0 {
		return nil
	}
	slices.Sort(ids)
	return w.runs[sidecar.RunID(ids[n%len(ids)])]
}

func faulty(name, method, route string, kind comfyfake.Kind, status int) deed {
	return deed{name, func(r *rig, _ *world, n int) {
		r.fake.Fault(comfyfake.Fault{Kind: kind, Method: method, Route: route, Times: 1 + n%2, Status: status, Delay: time.Duration(n%4) * 400 * time.Millisecond})
	}}
}

var launchDeeds = []deed{
	{"launch", func(r *rig, w *world, n int) {
		w.seed++
		who := []sidecar.SessionID{anna, bert}[n%2]
		flow := []string{"picture", "slow", "deaf", "broken", "slow", "temp"}[n%6]
		ctx, stop := context.WithTimeout(context.Background(), time.Duration(n%5)*200*time.Millisecond+time.Millisecond)
		defer stop()
		run, err := r.studio.Launch(ctx, r.request(who, flow, w.seed))
		if err == nil {
			w.runs[run.ID] = run
		}
	}},
	{"launch one that waits", launchWaiting},
}

var deeds = slices.Concat(launchDeeds, heldDeeds, []deed{
	{"cancel", func(r *rig, w *world, n int) {
		if run := w.pick(n); run != nil {
			_, _ = r.studio.Cancel(context.Background(), run.Scope, run.ID) // it may have ended
		}
	}},
	{"time passes", func(r *rig, _ *world, n int) { r.pass(time.Duration(n%40) * 100 * time.Millisecond) }},
	{"the studio restarts", func(r *rig, _ *world, _ int) { r.restart() }},
	{"the network goes", func(r *rig, _ *world, _ int) { r.net.setDown(true) }},
	{"the network comes", func(r *rig, _ *world, _ int) { r.net.setDown(false) }},
	{"sockets drop", func(r *rig, _ *world, _ int) { r.fake.DropSockets() }},
	{"ComfyUI restarts", func(r *rig, w *world, _ int) { w.restarts++; must(r, r.fake.Restart()) }},
	{"runs are held", func(r *rig, _ *world, _ int) { r.fake.Hold() }},
	{"runs go on", func(r *rig, _ *world, _ int) { r.fake.Release() }},
	{"the disk is full", func(r *rig, _ *world, _ int) { r.store.writes.Store(true) }},
	{"the disk has room", func(r *rig, _ *world, _ int) { r.store.writes.Store(false) }},
	faulty("prompts are queued and cut", http.MethodPost, "/prompt", comfyfake.ActThenRefuse, 0),
	faulty("prompts are queued and 500", http.MethodPost, "/prompt", comfyfake.ActThenAnswer, 500),
	faulty("prompts are refused", http.MethodPost, "/prompt", comfyfake.Refuse, 0),
	faulty("prompts are late", http.MethodPost, "/prompt", comfyfake.Delay, 0),
	faulty("prompts are answered by half", http.MethodPost, "/prompt", comfyfake.BrokenJSON, 0),
	faulty("history breaks", http.MethodGet, "/history/", comfyfake.Answer, 500),
	faulty("history is cut", http.MethodGet, "/history/", comfyfake.Refuse, 0),
	faulty("the queue breaks", http.MethodGet, "/queue", comfyfake.BrokenJSON, 0),
	faulty("history lags", "", "", comfyfake.HistoryLag, 0),
	faulty("a socket is mute", "", "", comfyfake.MuteSocket, 0),
	faulty("messages come twice", "", "", comfyfake.DuplicateMessages, 0),
	faulty("messages are swapped", "", "", comfyfake.ReorderMessages, 0),
	faulty("interrupts are ignored", "", "", comfyfake.IgnoreInterrupt, 0),
})

type step struct{ Deed, N int }

func (s step) String() string { return fmt.Sprintf("%s(%d)", deeds[s.Deed].name, s.N) }

// TestAnything: whatever happens, every run ends once ComfyUI is well again,
// each prompt was executed at most once and by no run that may not, and the
// events tell it all.
func TestAnything(t *testing.T) {
	budget(t, 25)
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
			kind := rapid.IntRange(0, len(deeds)-1)
			if rapid.IntRange(0, 2).Draw(rt, "launch") == 0 {
				kind = rapid.IntRange(0, len(launchDeeds)-1) // they come first
			}
			return step{kind.Draw(rt, "deed"), rapid.IntRange(0, 100).Draw(rt, "n")}
		}), 3, 25).Draw(rt, "steps")
		lost := rapid.SampledFrom([]sidecar.LostPolicy{sidecar.LostFail, sidecar.LostAgain}).Draw(rt, "lost")
		generation := rapid.SampledFrom([]comfyfake.Generation{comfyfake.V0_3_64, comfyfake.V0_33_0}).Draw(rt, "generation")
		failed := ""
		synctest.Test(t, func(t *testing.T) {
			tb := &noting{TB: t}
			s := setup{fake: comfyfake.Options{Generation: generation}, window: 2, lost: lost}
			inRig(tb, s, func(r *rig) { play(r, steps) })
			failed = tb.said
		})
		if failed != "" {
			rt.Fatal(failed)
		}
	})
}

// budget bounds how many scenarios are played, unless the caller says how many.
func budget(t *testing.T, checks int) {
	t.Helper()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "rapid.checks" })
	if set {
		return
	}
	before := flag.Lookup("rapid.checks").Value.String()
	must(t, flag.Lookup("rapid.checks").Value.Set(strconv.Itoa(checks)))
	t.Cleanup(func() { must(t, flag.Lookup("rapid.checks").Value.Set(before)) })
}

// noting keeps what a test complains of, so that rapid may look for a smaller
// scenario.
type noting struct {
	testing.TB
	said string
}

func (n *noting) Errorf(format string, args ...any) { n.said += fmt.Sprintf(format, args...) + "\n" }
func (n *noting) Error(args ...any)                 { n.said += fmt.Sprintln(args...) }
func (n *noting) Fatal(args ...any)                 { n.Error(args...) }
func (n *noting) Fatalf(format string, args ...any) { n.Errorf(format, args...) }

func play(r *rig, steps []step) {
	w := &world{runs: map[sidecar.RunID]*sidecar.Run{}}
	for _, s := range steps {
		deeds[s.Deed].do(r, w, s.N)
	}
	r.store.writes.Store(false)
	r.fake.ClearFaults()
	r.net.setDown(false)
	r.fake.Release()
	r.letGo()
	for _, who := range []sidecar.SessionID{anna, bert} {
		for _, run := range r.runs(who) {
			r.until("run "+string(run.ID)+" ends", func() bool { return r.read(run.ID).Phase == sidecar.PhaseFinished })
			run = r.read(run.ID)
			if !run.Status.Terminal() || run.Outcome == "" {
				r.Errorf("it ended as %q, %q", run.Status, run.Outcome)
			}
			if run.Outcome == sidecar.OutcomeLost && w.restarts == 0 {
				r.Errorf("it is lost though ComfyUI never forgot it")
			}
			if c := r.begun(run); c > 1+w.restarts {
				r.Errorf("it was begun %d times, with %d restarts of ComfyUI", c, w.restarts)
			}
			r.waitedRightly(run)
			r.gapless(run)
		}
	}
	r.queueEmpty()
	r.idle()
	r.wholeLog()
}

var coloured = regexp.MustCompile(`"color":\s*(\d+)`)

// begun is how often ComfyUI began the graph of a run, under whatever ids: each
// has a colour of its own.
func (r *rig) begun(run *sidecar.Run) (n int) {
	r.Helper()
	graph, err := r.store.Store.Blob(context.Background(), run.Graph)
	must(r, err)
	mine := coloured.FindStringSubmatch(string(graph))
	for other, c := range r.fake.Submissions().ByGraph {
		if its := coloured.FindStringSubmatch(other); mine != nil && its != nil && its[1] == mine[1] {
			n += c.Executed
		}
	}
	return n
}

// wholeLog: the numbers of all events have no gap.
func (r *rig) wholeLog() {
	r.Helper()
	seen := map[sidecar.Seq]bool{}
	for _, scope := range []sidecar.Scope{"anna", "bert"} {
		records, err := r.studio.Events(context.Background(), scope, "", 0, 0)
		must(r, err)
		for _, rec := range records {
			seen[rec.Seq] = true
		}
	}
	if head := int(r.studio.Head()); head != len(seen) {
		r.Errorf("%d events up to number %d", len(seen), head)
	}
}
