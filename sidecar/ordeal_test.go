package sidecar_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

// full asks for the whole proof where a part of it is usual.
func full() bool { return os.Getenv("STUDIO_FULL") == "1" }

// healing is by when a run has to have ended once ComfyUI is well again.
const healing = 30 * time.Second

// ordeal is one kind of fault and the ends that a run may find in it.
type ordeal struct {
	name string
	ends string // outcomes, separated by blanks
	flow string // what is run; empty: pictures and slow ones in turn
	// forgets: what was queued may be handed over again. again: it cannot be told
	// from a restart, so that what had begun unheard may be begun anew.
	forgets, again bool
	// before arms the fault, n tells how bad; during acts on a run.
	before func(r *rig, n int)
	during func(r *rig, run sidecar.RunID, n int)
}

// toRoute arms faults for requests of one route, one for each kind in turn.
func toRoute(method, route string, times int, kinds ...comfyfake.Fault) func(*rig, int) {
	return func(r *rig, n int) {
		f := kinds[n%len(kinds)]
		f.Method, f.Route, f.Times = method, route, times
		r.fake.Fault(f)
	}
}

func always(f comfyfake.Fault) func(*rig, int) { return func(r *rig, _ int) { r.fake.Fault(f) } }

func status(kind comfyfake.Kind, codes ...int) (list []comfyfake.Fault) {
	for _, code := range codes {
		list = append(list, comfyfake.Fault{Kind: kind, Status: code, Body: "oops"})
	}
	return list
}

// executing calls do while the run executes, or has ended before.
func executing(do func(r *rig, n int)) func(*rig, sidecar.RunID, int) {
	return func(r *rig, id sidecar.RunID, n int) {
		r.until("it executes or ended", func() bool {
			run := r.read(id)
			return run.Phase == sidecar.PhaseExecuting || run.Status.Terminal()
		})
		do(r, n)
	}
}

// emptied: ComfyUI ends the runs while its history does not answer, and what it
// knew of them is emptied before we see it.
func emptied(r *rig, id sidecar.RunID, _ int) {
	r.fake.Fault(comfyfake.Fault{Kind: comfyfake.Hang, Method: http.MethodGet, Route: "/history/"})
	r.until("ComfyUI has it", func() bool { return r.read(id).Accepted })
	r.pass(6 * time.Second)
	r.ask(http.MethodPost, "/history", `{"clear":true}`)
}

// emptiedUnheard: the same while we are cut off. To us it looks like a restart,
// so that what waited is run again.
func emptiedUnheard(r *rig, _ sidecar.RunID, _ int) {
	r.until("ComfyUI has all", func() bool {
		return !slices.ContainsFunc(r.runs(anna), func(run *sidecar.Run) bool { return !run.Accepted })
	})
	r.net.setDown(true)
	r.pass(10 * time.Second)
	r.ask(http.MethodPost, "/history", `{"clear":true}`)
	r.net.setDown(false)
}

const post = http.MethodPost

var ordeals = []ordeal{
	{name: "prompts are answered late", ends: "completed", before: toRoute(post, "/prompt", 2,
		comfyfake.Fault{Kind: comfyfake.Delay, Delay: 3 * time.Second}, comfyfake.Fault{Kind: comfyfake.Delay, Delay: 13 * time.Second})},
	{name: "prompts are cut before they count", ends: "completed", before: toRoute(post, "/prompt", 1, comfyfake.Fault{Kind: comfyfake.Refuse})},
	{name: "prompts are cut after they count", ends: "completed", before: toRoute(post, "/prompt", 2, comfyfake.Fault{Kind: comfyfake.ActThenRefuse}, comfyfake.Fault{Kind: comfyfake.Cut, Bytes: 5})},
	{name: "all prompts are cut", ends: "failed completed", before: toRoute(post, "/prompt", 0, comfyfake.Fault{Kind: comfyfake.Refuse})},
	{name: "4xx", ends: "rejected completed", before: toRoute(post, "/prompt", 2, status(comfyfake.Answer, 400, 401, 413, 429)...)},
	{name: "5xx without effect", ends: "rejected completed", before: toRoute(post, "/prompt", 2, status(comfyfake.Answer, 500, 502, 503)...)},
	{name: "5xx that queued all the same", ends: "completed", before: toRoute(post, "/prompt", 0, status(comfyfake.ActThenAnswer, 500, 502, 504)...)},
	{name: "answers of half a JSON", ends: "completed", before: toRoute(post, "/prompt", 0, comfyfake.Fault{Kind: comfyfake.BrokenJSON})},
	{name: "prompts hang", ends: "completed failed", before: toRoute(post, "/prompt", 1, comfyfake.Fault{Kind: comfyfake.Hang})},
	{name: "history breaks", ends: "completed", before: toRoute(http.MethodGet, "/history/", 4, append(status(comfyfake.Answer, 500, 404),
		comfyfake.Fault{Kind: comfyfake.Refuse}, comfyfake.Fault{Kind: comfyfake.BrokenJSON}, comfyfake.Fault{Kind: comfyfake.Cut, Bytes: 20})...)},
	{name: "history hangs", ends: "completed", before: toRoute(http.MethodGet, "/history/", 0, comfyfake.Fault{Kind: comfyfake.Hang})},
	{name: "history comes late", ends: "completed", before: always(comfyfake.Fault{Kind: comfyfake.HistoryLag, Delay: 1200 * time.Millisecond})},
	{name: "history is emptied", ends: "completed lost", during: emptied},
	{name: "history is emptied unheard", ends: "completed cached lost failed", during: emptiedUnheard, forgets: true, again: true},
	{name: "the queue breaks", ends: "completed", before: toRoute(http.MethodGet, "/queue", 4, append(status(comfyfake.Answer, 500),
		comfyfake.Fault{Kind: comfyfake.Refuse}, comfyfake.Fault{Kind: comfyfake.BrokenJSON}, comfyfake.Fault{Kind: comfyfake.Hang})...)},
	{name: "it forgets", forgets: true, ends: "completed lost", during: executing(func(r *rig, _ int) { r.fake.Forget() })},
	{name: "it restarts", forgets: true, ends: "completed lost", during: executing(func(r *rig, _ int) { must(r, r.fake.Restart()) })},
	{name: "mute sockets", ends: "completed", before: func(r *rig, _ int) {
		r.fake.Fault(comfyfake.Fault{Kind: comfyfake.MuteSocket})
		r.fake.DropSockets()
	}},
	{name: "no sockets", ends: "completed", before: func(r *rig, _ int) {
		r.fake.Fault(comfyfake.Fault{Kind: comfyfake.Refuse, Route: "/ws"})
		r.fake.DropSockets()
	}},
	{name: "sockets drop", ends: "completed", during: executing(func(r *rig, n int) {
		for range 1 + n%4 {
			r.fake.DropSockets()
			r.pass(time.Duration(200+100*n) * time.Millisecond)
		}
	})},
	{name: "messages come twice", ends: "completed", before: always(comfyfake.Fault{Kind: comfyfake.DuplicateMessages})},
	{name: "messages come out of order", ends: "completed", before: always(comfyfake.Fault{Kind: comfyfake.ReorderMessages})},
	{name: "messages come late", ends: "completed", before: always(comfyfake.Fault{Kind: comfyfake.LateMessages, Delay: 700 * time.Millisecond})},
	{name: "the network goes", ends: "completed failed", during: executing(func(r *rig, n int) {
		r.net.setDown(true)
		r.pass(time.Duration(1+10*n) * time.Second)
		r.net.setDown(false)
	})},
	{name: "a forwarder without a ComfyUI behind it", ends: "completed failed", before: func(r *rig, n int) {
		if n%2 == 0 {
			r.net.setHalfOpen(true)
		}
	}, during: func(r *rig, id sidecar.RunID, n int) {
		if n%2 == 1 {
			executing(func(r *rig, _ int) { r.net.setHalfOpen(true) })(r, id, n)
		}
		r.pass(12 * time.Second)
	}},
	{name: "an output does not validate", ends: "rejected", flow: "touched", before: func(r *rig, n int) {
		if n%2 == 0 {
			r.fake.Fault(comfyfake.Fault{Kind: comfyfake.ActThenRefuse, Method: post, Route: "/prompt"})
		}
	}},
	{name: "a node raises", ends: "failed", flow: "broken"},
	{name: "somebody else interrupts", ends: "completed cancelled", during: executing(func(r *rig, _ int) { r.ask(post, "/interrupt", "{}") })},
	{name: "somebody else empties the queue", ends: "completed lost", during: executing(func(r *rig, _ int) { r.ask(post, "/queue", `{"clear":true}`) })},
	{name: "a node ignores the cancel", ends: "cancelled completed", flow: "deaf", during: executing(func(r *rig, n int) {
		if n%2 == 0 { // it may have ended by now
			run := r.runs(anna)[0]
			if _, err := r.studio.Cancel(context.Background(), run.Scope, run.ID); err != nil && codeOf(err) != sidecar.CodeNotCancellable {
				r.Error(err)
			}
		}
	})},
}

// tally is what became of all runs.
type tally struct {
	runs, twice, stuck int
	ends               map[sidecar.Outcome]int
	slowest            time.Duration
}

// TestOrdeals puts runs through each kind of fault. Once it is over each is in
// one terminal state within 30 s, none was handed over or begun twice.
func TestOrdeals(t *testing.T) {
	rounds, each := 1, 2
	if full() {
		rounds, each = 4, 4
	}
	sum := tally{ends: map[sidecar.Outcome]int{}}
	for _, o := range ordeals {
		t.Run(strings.ReplaceAll(o.name, " ", "_"), func(t *testing.T) {
			for round := range rounds {
				generation := []comfyfake.Generation{comfyfake.V0_3_64, comfyfake.V0_33_0}[round%2]
				synctest.Test(t, func(t *testing.T) {
					inRig(t, setup{fake: comfyfake.Options{Generation: generation, StepDelay: 50 * time.Millisecond}}, func(r *rig) {
						r.pass(time.Second)
						o.play(r, round, each, &sum)
					})
				})
			}
		})
	}
	var ends []string
	for _, outcome := range slices.Sorted(maps.Keys(sum.ends)) {
		ends = append(ends, fmt.Sprintf("%d %s", sum.ends[outcome], outcome))
	}
	t.Logf("%d runs in %d kinds of fault: %s; %d twice, %d stuck; slowest end %v after it was well again",
		sum.runs, len(ordeals), strings.Join(ends, ", "), sum.twice, sum.stuck, sum.slowest.Round(time.Millisecond))
}

func (o ordeal) play(r *rig, round, each int, sum *tally) {
	if o.before != nil {
		o.before(r, round)
	}
	var ids []sidecar.RunID
	var answers []<-chan *sidecar.Run
	for n := range each {
		flow := o.flow
		if flow == "" {
			flow = []string{"slow", "picture"}[n%2]
		}
		id, answered := r.launching(anna, flow, 1+n)
		ids, answers = append(ids, id), append(answers, answered)
	}
	if o.during != nil {
		o.during(r, ids[round%len(ids)], round)
	}
	r.pass(3 * time.Second)
	r.fake.ClearFaults()
	r.net.setHalfOpen(false)
	r.net.setDown(false)
	well := time.Now()
	for _, id := range ids {
		o.judge(r, id, well, sum)
	}
	for _, answered := range answers {
		<-answered
	}
}

// judge holds one run to its end.
func (o ordeal) judge(r *rig, id sidecar.RunID, well time.Time, sum *tally) {
	sum.runs++
	run := r.finished(id)
	if took := time.Since(well); took > healing {
		sum.stuck++
		r.Errorf("run %s ended %v after ComfyUI was well again", id, took)
	} else {
		sum.slowest = max(sum.slowest, took)
	}
	sum.ends[run.Outcome]++
	if !run.Status.Terminal() || !slices.Contains(strings.Fields(o.ends), string(run.Outcome)) {
		r.Errorf("it ended as %s, %q: %s", run.Status, run.Outcome, run.Error)
	}
	if c := r.executed(run); c.Queued > 1 && !o.forgets || r.begun(run) > 1 && !o.again {
		sum.twice++
		r.Errorf("prompt %s was handed over %d times, and begun %d times", run.Prompt, c.Queued, r.begun(run))
	}
	r.gapless(run)
}
