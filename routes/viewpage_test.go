package routes_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

// moved is a run of its own that signals chosen at random move.
type moved struct {
	r  *rig
	id sidecar.RunID
}

// alone is a rig of which the studio moves nothing that it did not launch: it
// has taken up what an earlier life left.
func alone(t *testing.T) *rig {
	r := setup{name: "demo", deaf: true}.start(t)
	r.run(`{"wait": true}`)
	return r
}

func newMoved(r *rig, n int) *moved {
	m := &moved{r, sidecar.RunID(fmt.Sprintf("run_%032d", n))}
	now := time.Now().UTC().Truncate(time.Millisecond)
	run := &sidecar.Run{
		ID: m.id, Session: "anna", Scope: "anna", Workflow: "solid", Contract: "default", Status: sidecar.StatusSubmitted,
		CreatedAt: now, UpdatedAt: now, State: sidecar.State{Phase: sidecar.PhaseSubmitting, Prompt: "3d3a3a2e-6a3f-4c4e-9df0-1a2b3c4d5e6f"},
	}
	for i, name := range []string{"image", "mask"} {
		run.Slots = append(run.Slots, sidecar.Slot{
			ID: sidecar.SlotID(fmt.Sprintf("slot_%s_%d_%s", m.id, i, name)), Index: i, Name: name, Type: "image",
			Status: sidecar.SlotPending, CreatedAt: now, UpdatedAt: now,
		})
	}
	run.Revision = 1
	must(r.t, r.store.Create(r.t.Context(), run, []sidecar.Event{{Run: m.id, Scope: "anna", Revision: 1, Type: sidecar.EventRunStarted, At: now, Targets: run.Targets()}}))
	return m
}

func (m *moved) move(choose *rand.Rand) {
	node := sidecar.NodeRef{ID: sidecar.NodeID(fmt.Sprint("7:", choose.IntN(3))), Class: "KSampler"}
	signals := []sidecar.Signal{
		{Kind: sidecar.SignalHanding}, {Kind: sidecar.SignalHanding},
		{Kind: sidecar.SignalAccepted, PromptID: "3d3a3a2e-6a3f-4c4e-9df0-1a2b3c4d5e6f"},
		{Kind: sidecar.SignalAccepted, PromptID: "3d3a3a2e-6a3f-4c4e-9df0-1a2b3c4d5e6f"},
		{Kind: sidecar.SignalStarted}, {Kind: sidecar.SignalCached, Nodes: []sidecar.NodeRef{node}},
		{Kind: sidecar.SignalNodeStarted, Node: node}, {Kind: sidecar.SignalNodeFinished, Node: node},
		{Kind: sidecar.SignalCollecting}, {Kind: sidecar.SignalSettled},
	}
	if choose.IntN(4) == 0 {
		signals = append(signals, sidecar.Signal{Kind: sidecar.SignalFinished}, sidecar.Signal{Kind: sidecar.SignalCancel},
			sidecar.Signal{Kind: sidecar.SignalFailed, Failure: &sidecar.Failure{Code: "comfyui_execution_failed", Message: "it broke"}})
	}
	signal := signals[choose.IntN(len(signals))]
	run, err := m.r.store.Update(m.r.t.Context(), m.id, func(run *sidecar.Run) ([]sidecar.Event, error) {
		return run.Apply(signal, run.UpdatedAt.Add(time.Second)), nil
	})
	must(m.r.t, err)
	if len(run.Items) > 0 && choose.IntN(10) == 0 {
		_, err := m.r.store.DeleteItem(m.r.t.Context(), "anna", run.Items[0].ID)
		must(m.r.t, err)
	}
}

// snapshot is the document that deltas are about.
type snapshot struct {
	Revision int64          `json:"revision"`
	Targets  map[string]any `json:"targets"`
}

func (m *moved) snapshot() (s snapshot) {
	m.r.t.Helper()
	must(m.r.t, json.Unmarshal(m.r.get("/runs/"+string(m.id)+"/view?include=targets").body, &s))
	return s
}

// at is the view of an earlier revision.
func (m *moved) at(revision int64) (s snapshot) {
	m.r.t.Helper()
	a := m.r.get(fmt.Sprintf("/runs/%s/view?at=%d", m.id, revision))
	if a.status != http.StatusOK {
		m.r.t.Fatalf("at %d: %d %s", revision, a.status, a.body)
	}
	must(m.r.t, json.Unmarshal(a.body, &s))
	return s
}

type deltas struct {
	Revision int64 `json:"revision"`
	Retained int64 `json:"retained_from"`
	Required bool  `json:"snapshot_required"`
	Deltas   []struct {
		Revision int64 `json:"revision"`
		Patch    []struct {
			Op    string `json:"op"`
			Path  string `json:"path"`
			Value any    `json:"value"`
		} `json:"patch"`
	} `json:"deltas"`
}

func (m *moved) deltas(after int64) (d deltas) {
	m.r.t.Helper()
	must(m.r.t, json.Unmarshal(m.r.get(fmt.Sprintf("/runs/%s/deltas?after=%d", m.id, after)).body, &d))
	return d
}

// patched applies the deltas up to a revision as RFC 6902 has it.
func patched(s snapshot, d deltas, to int64) (snapshot, error) {
	out := snapshot{s.Revision, map[string]any{}}
	for name, value := range s.Targets {
		out.Targets[name] = value
	}
	for _, delta := range d.Deltas {
		if delta.Revision > to {
			break
		}
		for _, p := range delta.Patch {
			name, target := strings.CutPrefix(p.Path, "/targets/")
			name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
			switch {
			case p.Op == "replace" && p.Path == "/revision":
				out.Revision = int64(p.Value.(float64))
			case p.Op == "add" && target:
				out.Targets[name] = p.Value
			case p.Op == "remove" && target && out.Targets[name] != nil:
				delete(out.Targets, name)
			default:
				return out, fmt.Errorf("%s of %s cannot be applied", p.Op, p.Path)
			}
		}
	}
	return out, nil
}

// A view patched with what followed is the later view, and one of an earlier
// revision is what it was then.
func TestDeltas(t *testing.T) {
	r := alone(t)
	choose := rand.New(rand.NewPCG(11, 12))
	compared := 0
	for n := range 12 {
		m := newMoved(r, n)
		seen := []snapshot{m.snapshot()}
		for range 15 {
			m.move(choose)
			if now := m.snapshot(); now.Revision > seen[len(seen)-1].Revision {
				seen = append(seen, now)
			}
		}
		for i, from := range seen {
			if diff := cmp.Diff(from, m.at(from.Revision)); diff != "" {
				t.Fatalf("run %d at %d: %s", n, from.Revision, diff)
			}
			d := m.deltas(from.Revision)
			if d.Required || d.Revision != seen[len(seen)-1].Revision {
				t.Fatalf("from %d: %+v", from.Revision, d)
			}
			for _, to := range seen[i:] {
				got, err := patched(from, d, to.Revision)
				if diff := cmp.Diff(to, got); diff != "" || err != nil {
					t.Fatalf("run %d from %d to %d: %v %s", n, from.Revision, to.Revision, err, diff)
				}
				compared++
			}
		}
	}
	t.Logf("%d pairs of views compared", compared)
	if compared < 200 {
		t.Error("too few moved")
	}
}

func TestDeltasThatAreNotKept(t *testing.T) {
	r := alone(t)
	m := newMoved(r, 1)
	for choose := rand.New(rand.NewPCG(1, 1)); m.snapshot().Revision < 6; {
		m.move(choose)
	}
	if d := m.deltas(99); !d.Required || len(d.Deltas) > 0 {
		t.Errorf("beyond the newest: %+v", d)
	}
	if d := m.deltas(0); d.Required || d.Retained != 1 {
		t.Errorf("from the beginning: %+v", d)
	}
	view := func(query string, session ...string) int {
		return r.get("/runs/"+string(m.id)+"/view"+query, session...).status
	}
	for query, status := range map[string]int{
		"?at=1": http.StatusOK, "?at=6": http.StatusOK, "?at=99": http.StatusBadRequest, "?at=0": http.StatusBadRequest,
		"?at=": http.StatusBadRequest, "?at=-1": http.StatusBadRequest, "?at=x": http.StatusBadRequest,
	} {
		if got := view(query); got != status {
			t.Errorf("view%s: %d, want %d", query, got, status)
		}
	}
	for _, query := range []string{"?at=1", "?at=0", "?at=99"} {
		if got := view(query, "X-ComfyGit-Studio-Session", "bert"); got != http.StatusNotFound {
			t.Errorf("a stranger's view%s: %d", query, got)
		}
	}
	gone(t, r, "DELETE FROM events WHERE run_id = ? AND revision < 4", string(m.id))
	if got := view("?at=5"); got != http.StatusGone {
		t.Errorf("of what is kept no more: %d", got)
	}
	for after, required := range map[int64]bool{0: true, 2: true, 3: false, 5: false} {
		if d := m.deltas(after); d.Required != required || d.Retained != 4 {
			t.Errorf("after %d: %+v", after, d)
		}
	}
	gone(t, r, "DELETE FROM events WHERE run_id = ? AND revision = 5", string(m.id))
	if d := m.deltas(3); !d.Required {
		t.Errorf("over a gap: %+v", d)
	}
	for path, status := range map[string]int{
		"/runs/none/deltas": http.StatusNotFound, "/runs/" + string(m.id) + "/deltas?after=x": http.StatusBadRequest,
	} {
		if a := r.get(path); a.status != status {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if a := r.get("/runs/"+string(m.id)+"/deltas", "X-ComfyGit-Studio-Session", "bert"); a.status != http.StatusNotFound {
		t.Errorf("a stranger: %d", a.status)
	}
}

func TestPages(t *testing.T) {
	r := alone(t)
	m := newMoved(r, 1)
	for n := range 150 {
		node := sidecar.NodeRef{ID: sidecar.NodeID(fmt.Sprint(n))}
		_, err := r.store.Update(t.Context(), m.id, func(run *sidecar.Run) (events []sidecar.Event, _ error) {
			for _, kind := range []sidecar.SignalKind{sidecar.SignalNodeStarted, sidecar.SignalNodeFinished} {
				events = append(events, run.Apply(sidecar.Signal{Kind: kind, Node: node}, time.Now())...)
			}
			return events, nil
		})
		must(t, err)
	}
	all := r.get("/runs/" + string(m.id) + "/events?format=json").json(t)["events"].([]any)
	all = append(all, r.get(fmt.Sprintf("/runs/%s/events?format=json&after=%v", m.id, all[len(all)-1].(map[string]any)["seq"])).json(t)["events"].([]any)...)
	page := func(query string) map[string]any {
		t.Helper()
		a := r.get("/runs/" + string(m.id) + "/pages/" + query)
		if a.status != http.StatusOK {
			t.Fatalf("%s: %d %s", query, a.status, a.body)
		}
		return a.json(t)
	}
	for query, start := range map[string]int{
		"events": len(all) - 256, "events?cursor=0": 0, "events?cursor=130": 2, "events?cursor=99999": len(all) - 256,
	} {
		doc := page(query)
		if diff := cmp.Diff(all[start:start+256], doc["events"]); diff != "" || doc["start"] != json.Number(fmt.Sprint(start)) || doc["total"] != json.Number(fmt.Sprint(len(all))) {
			t.Errorf("%s begins at %v of %v: %s", query, doc["start"], doc["total"], diff)
		}
	}
	if doc := page("nodes"); len(doc["nodes"].([]any)) != 150 || doc["revision"] != json.Number("301") {
		t.Errorf("%d nodes at revision %v", len(doc["nodes"].([]any)), doc["revision"])
	}
	if doc := page("slots?cursor=1"); len(doc["output_slots"].([]any)) != 2 {
		t.Errorf("%v", doc)
	}
	for path, status := range map[string]int{
		"/runs/" + string(m.id) + "/pages/secrets": http.StatusNotFound, "/runs/none/pages/nodes": http.StatusNotFound,
		"/runs/" + string(m.id) + "/pages/nodes?cursor=-1": http.StatusBadRequest,
	} {
		if a := r.get(path); a.status != status {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}

// gone removes events behind the store's back.
func gone(t *testing.T, r *rig, text, id string) {
	t.Helper()
	must(t, r.store.Do(t.Context(), func(tx *sqlite.Tx) error {
		_, err := tx.Exec(text, id)
		return err
	}))
}
