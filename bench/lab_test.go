package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func newLab(t *testing.T) *lab {
	t.Helper()
	back, err := newBackend(t.Context(), filepath.Join(t.TempDir(), "ComfyUI"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := back.close(); err != nil {
			t.Error(err)
		}
	})
	return &lab{dir: t.TempDir(), back: back, seconds: 50 * time.Millisecond, say: t.Logf}
}

// handOver gives the example graph to the built-in ComfyUI and returns the
// prompt's id.
func handOver(ctx context.Context, addr string) (string, error) {
	graph, err := environmentFiles.ReadFile("environment/workflow_api/solid.api.json")
	if err != nil {
		return "", err
	}
	body, err := once(ctx, addr, request("POST", addr, "/prompt", "", []byte(`{"prompt":`+string(graph)+`}`)))
	if err != nil {
		return "", err
	}
	var answer struct {
		ID string `json:"prompt_id"`
	}
	return answer.ID, json.Unmarshal(body, &answer)
}

// lateServer answers a waiting call a while after history has the result.
func lateServer(t *testing.T, comfy string, late time.Duration) string {
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		id, err := handOver(r.Context(), comfy)
		if err != nil {
			t.Error(err)
			return
		}
		for {
			body, err := get(r.Context(), comfy, "/history/"+id, "")
			if err != nil {
				t.Error(err)
				return
			}
			if strings.Contains(string(body), id) {
				break
			}
		}
		if err := pause(r.Context(), late); err != nil {
			t.Error(err)
		}
		io.WriteString(w, "{}") //nolint:errcheck // the client counts
	})
}

func TestWaitOnce_counts_from_the_result_in_history(t *testing.T) {
	l := newLab(t)
	const late, length = 30 * time.Millisecond, 200 * time.Millisecond
	addr := lateServer(t, l.back.addr, late)
	conn, err := dial(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.close()
	for range 2 {
		start := time.Now()
		lag, err := l.waitOnce(t.Context(), conn, launchRun(addr, fullSession, 1, true), length)
		whole := time.Since(start)
		if err != nil {
			t.Fatal(err)
		}
		// The news of the result may itself come a little late.
		if lag < late/2 || lag > whole-length {
			t.Errorf("lag %v of a call of %v, want about %v or more, and the run's %v not counted", lag, whole, late, length)
		}
	}
}

func TestWaitOnce_fails_when_the_call_does(t *testing.T) {
	l := newLab(t)
	addr := serve(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no such contract", http.StatusNotFound) })
	conn, err := dial(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.close()
	_, err = l.waitOnce(t.Context(), conn, launchRun(addr, fullSession, 1, true), 0)
	if err == nil || !strings.Contains(err.Error(), "no such contract") {
		t.Errorf("error %v", err)
	}
}

func TestBackend_serves_big_files_and_forgets_runs(t *testing.T) {
	l := newLab(t)
	if err := l.back.bigFile("big.bin", 5<<20); err != nil {
		t.Fatal(err)
	}
	got, err := fetch(t.Context(), l.back.addr, viewRequest(l.back.addr, "/view", "big.bin"), true)
	if err != nil || got.bytes != 5<<20 {
		t.Errorf("%d bytes, error %v", got.bytes, err)
	}
	if _, err := handOver(t.Context(), l.back.addr); err != nil {
		t.Fatal(err)
	}
	<-l.back.stored
	l.back.forget()
	body, err := get(t.Context(), l.back.addr, "/history", "")
	if err != nil || string(body) != "{}" {
		t.Errorf("history %s, error %v", body, err)
	}
}

func TestSettle_waits_until_nothing_is_active(t *testing.T) {
	var asked atomic.Int64
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "active=true" || r.Header.Get("X-ComfyGit-Studio-Session") != "me" {
			t.Errorf("asked %s for %q", r.URL, r.Header.Get("X-ComfyGit-Studio-Session"))
		}
		if asked.Add(1) < 3 {
			io.WriteString(w, `{"runs":[{}]}`) //nolint:errcheck // the client reads
			return
		}
		io.WriteString(w, `{"runs":[]}`) //nolint:errcheck // as above
	})
	if err := settle(t.Context(), addr, "me"); err != nil || asked.Load() != 3 {
		t.Errorf("asked %d times, error %v; want 3", asked.Load(), err)
	}
}

func TestSeeded_wants_every_run_completed(t *testing.T) {
	run := func(status string, n int) string {
		return strings.TrimSuffix(strings.Repeat(`{"status":"`+status+`"},`, n), ",")
	}
	for name, c := range map[string]struct {
		body string
		good bool
	}{
		"all":               {`{"runs":[` + run("completed", seedRuns) + `]}`, true},
		"one missing":       {`{"runs":[` + run("completed", seedRuns-1) + `]}`, false},
		"one failed":        {`{"runs":[` + run("completed", seedRuns-1) + `,` + run("error", 1) + `]}`, false},
		"nothing":           {`{"runs":[]}`, false},
		"another structure": {`[]`, false},
	} {
		t.Run(name, func(t *testing.T) {
			addr := serve(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, c.body) }) //nolint:errcheck // the client reads
			if err := seeded(t.Context(), addr); (err == nil) != c.good {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestAcceptDirectly_piles_runs_up(t *testing.T) {
	l := newLab(t)
	l.back.fake.Hold()
	defer l.back.fake.Release()
	rate, err := l.acceptDirectly(t.Context(), 2)
	if err != nil || rate <= 0 || math.IsInf(rate, 0) {
		t.Errorf("rate %v, error %v", rate, err)
	}
	if n := len(l.back.fake.Submissions().ByPrompt); n == 0 {
		t.Error("ComfyUI heard of no run")
	}
}

func TestFsyncs_counts_until_its_time(t *testing.T) {
	rate, err := fsyncs(t.Context(), filepath.Join(t.TempDir(), "file"), 20*time.Millisecond)
	if err != nil || rate <= 0 {
		t.Errorf("rate %v, error %v", rate, err)
	}
}

func TestParse(t *testing.T) {
	t.Run("all groups without flags", func(t *testing.T) {
		o, err := parse(nil, io.Discard)
		if err != nil || len(o.groups) != len(groups) {
			t.Errorf("%d groups, error %v", len(o.groups), err)
		}
	})
	t.Run("the named groups in their order", func(t *testing.T) {
		o, err := parse([]string{"-only", "view, rate"}, io.Discard)
		var names []string
		for _, g := range o.groups {
			names = append(names, g.name)
		}
		if diff := cmp.Diff([]string{"view", "rate"}, names); err != nil || diff != "" {
			t.Errorf("error %v, groups (-want +got):\n%s", err, diff)
		}
	})
	t.Run("all faults at once", func(t *testing.T) {
		_, err := parse([]string{"-only", "speed", "-seconds", "0", "-state", "cloud", "-limit", "0s", "-reference-mib", "0", "more"}, io.Discard)
		for _, want := range []string{`"speed"`, "-seconds", "-state", "-limit", "-reference-mib", `"more"`} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s is not in %v", want, err)
			}
		}
	})
	t.Run("help is no failure", func(t *testing.T) {
		if _, err := parse([]string{"-help"}, io.Discard); !errors.Is(err, flag.ErrHelp) {
			t.Errorf("error %v", err)
		}
	})
}

func TestRun_wants_something_to_measure_and_leaves_nothing_behind(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	var out strings.Builder
	err := run(t.Context(), []string{"-sidecar", "none", "-python", ""}, &out, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "nothing to measure") {
		t.Errorf("error %v", err)
	}
	left, err := os.ReadDir(tmp)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, error %v", left, err)
	}
}

func TestMeasureAll_goes_on_after_a_group_that_fails(t *testing.T) {
	broken := errors.New("no such server")
	got := measureAll(t.Context(), &lab{say: t.Logf}, []group{
		{"first", "one", func(context.Context, *lab) ([]row, error) { return []row{blank("first", "a", "", goal{})}, broken }},
		{"second", "two", func(context.Context, *lab) ([]row, error) { return []row{blank("second", "b", "", goal{})}, nil }},
	})
	var names []string
	for _, r := range got {
		names = append(names, r.measure)
	}
	if diff := cmp.Diff([]string{"a", "one", "b"}, names); diff != "" || !errors.Is(got[1].err, broken) {
		t.Errorf("error %v, rows (-want +got):\n%s", got[1].err, diff)
	}
}

func TestMeasureAll_says_what_the_time_limit_left_out(t *testing.T) {
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errLimit)
	defer cancel()
	untilLimit := func(ctx context.Context, _ *lab) ([]row, error) { <-ctx.Done(); return nil, ctx.Err() }
	never := func(context.Context, *lab) ([]row, error) { t.Error("measured after the limit"); return nil, nil }
	got := measureAll(ctx, &lab{say: t.Logf}, []group{{"first", "one", untilLimit}, {"second", "two", never}})
	if len(got) != 2 || !errors.Is(got[0].err, errLimit) || !errors.Is(got[1].err, errLimit) {
		t.Errorf("rows %v", got)
	}
}
