package sqlite_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/comfygit-ai/studio-sidecar/internal/need"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

// shown is what both sides show of the file: what they share.
type shown struct {
	Runs  []shownRun             `json:"runs"`
	Items []shownItem            `json:"items"`
	Slots map[string][]shownSlot `json:"slots"`
}

type shownRun struct {
	ID      string          `json:"run_id"`
	Status  string          `json:"status"`
	Prompt  string          `json:"prompt_id"`
	Error   string          `json:"error"`
	Created string          `json:"createdAt"`
	Updated string          `json:"updatedAt"`
	Inputs  json.RawMessage `json:"inputs"`
	Result  json.RawMessage `json:"raw_result"`
}

type shownItem struct {
	ID       string          `json:"id"`
	Run      string          `json:"run_id"`
	Status   string          `json:"status"`
	Type     string          `json:"type"`
	Slot     string          `json:"slotId"`
	Filename string          `json:"filename"`
	URL      string          `json:"url"`
	Width    int             `json:"width"`
	Created  string          `json:"createdAt"`
	Artifact json.RawMessage `json:"artifact"`
}

type shownSlot struct {
	ID     string `json:"slot_id"`
	Name   string `json:"outputName"`
	Status string `json:"status"`
	Error  string `json:"error"`
}

// reference works on the file as the reference and returns what it then shows.
func reference(t *testing.T, python, path string, steps ...[2]any) shown {
	t.Helper()
	if steps == nil {
		steps = [][2]any{}
	}
	input, err := json.Marshal(steps)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, filepath.Join("testdata", "reference.py"), path)
	var failed bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), &failed
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, failed.String())
	}
	var s shown
	if err := json.Unmarshal(out, &s); err != nil {
		t.Fatal(err)
	}
	return s.normal(t)
}

// ours is what we show of the file.
func ours(t *testing.T, store *sqlite.Store) shown {
	t.Helper()
	page, err := store.Runs(context.Background(), sidecar.RunFilter{Scope: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	s := shown{Slots: map[string][]shownSlot{}}
	for _, r := range page.Runs {
		s.Runs = append(s.Runs, shownRun{
			string(r.ID), string(r.Status), string(r.PromptID), r.Error, sidecar.FormatTime(r.CreatedAt), sidecar.FormatTime(r.UpdatedAt), r.Inputs, r.Result,
		})
		slots := []shownSlot{}
		for _, o := range read(t, store, r.ID).Slots {
			slots = append(slots, shownSlot{string(o.ID), o.Name, string(o.Status), o.Error})
		}
		s.Slots[string(r.ID)] = slots
	}
	items, err := store.Items(context.Background(), sidecar.ItemFilter{Scope: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range items.Items {
		s.Items = append(s.Items, shownItem{
			string(i.ID), string(i.Run), string(i.Status), i.Type, string(i.Slot), i.Filename, i.URL, i.Width, sidecar.FormatTime(i.CreatedAt), i.Artifact,
		})
	}
	return s.normal(t)
}

// normal writes documents in one way: the two sides order members differently.
func (s shown) normal(t *testing.T) shown {
	t.Helper()
	same := func(raw *json.RawMessage) {
		if len(*raw) == 0 || string(*raw) == "null" {
			*raw = nil
			return
		}
		decoder := json.NewDecoder(bytes.NewReader(*raw))
		decoder.UseNumber()
		var value any
		err := decoder.Decode(&value)
		if err == nil {
			*raw, err = json.Marshal(value)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range s.Runs {
		same(&s.Runs[i].Inputs)
		same(&s.Runs[i].Result)
	}
	for i := range s.Items {
		same(&s.Items[i].Artifact)
	}
	return s
}

// TestThereAndBack hands one file from the reference to us and back, twice:
// each works on it, and both show the same of it each time.
func TestThereAndBack(t *testing.T) {
	python := need.Command(t, "python3")
	need.That(t, exec.Command(python, "-c", "import importlib.util as u, sys; sys.exit(u.find_spec('comfygit_studio') is None)").Run() == nil, "the reference, comfygit-studio, in "+python)
	path := filepath.Join(t.TempDir(), "serve.sqlite")
	type step = [2]any
	type fields = map[string]any
	at := func(n int) string { return sidecar.FormatTime(birth.Add(time.Duration(n) * time.Second)) }
	refRun := func(n int, id, status string, more fields) step {
		run := fields{"run_id": id, "status": status, "inputs": fields{"n": n}, "created_at": at(n), "updated_at": at(n)}
		for name, value := range more {
			run[name] = value
		}
		return step{"run", run}
	}
	refItem := func(n int, id, run string) step {
		return step{"item", fields{
			"item_id": id, "run_id": run, "status": "done", "output_type": "image", "inputs": fields{}, "filename": id + ".png",
			"url": "/outputs/view?filename=" + id + ".png", "width": 3, "artifact": fields{"filename": id + ".png"}, "created_at": at(n), "updated_at": at(n),
		}}
	}
	agree := func(when string, theirs, mine shown) {
		t.Helper()
		if d := cmpDiff(theirs, mine); d != "" {
			t.Errorf("%s: -theirs +ours:\n%s", when, d)
		}
	}

	theirs := reference(t, python, path,
		step{"session", "alice"},
		refRun(1, "run_a", "completed", fields{"prompt_id": "p1", "raw_result": fields{"outputs": []any{}, "big": 9007199254740993}}),
		refItem(1, "gallery_a", "run_a"), refItem(1, "gallery_a2", "run_a"),
		refRun(2, "run_b", "running", fields{"prompt_id": "p2"}),
		step{"slot", fields{"slot_id": "slot_run_b_0_image", "run_id": "run_b", "output_name": "image", "output_type": "image", "status": "running"}},
		refRun(3, "run_c", "error", fields{"error": "it broke"}),
	)
	store := open(t, path)
	agree("theirs at first", theirs, ours(t, store))
	ended := endedRun(t, store, "alice", 10)
	active := create(t, store, newRun("alice", 11)).ID
	deleteItem(t, store, "gallery_a2")
	if _, err := store.DeleteRun(context.Background(), "alice", "run_c"); err != nil {
		t.Error(err)
	}
	pin(t, store, ended)
	mine := ours(t, store)
	closeStore(t, store)
	agree("after our turn", reference(t, python, path), mine)

	theirs = reference(t, python, path,
		step{"end", fields{"run_id": string(active), "status": "error", "error": "theirs", "updated_at": at(20)}},
		step{"end", fields{"run_id": "run_b", "status": "completed", "raw_result": fields{"x": 1}, "updated_at": at(21)}},
		step{"delete_item", "gallery_a"},
		refRun(22, "run_d", "completed", fields{"prompt_id": "p4"}), refItem(22, "gallery_d", "run_d"),
		refRun(23, "run_e", "submitted", nil),
	)
	store = open(t, path)
	agree("after their second turn", theirs, ours(t, store))
	t.Run("we_follow_what_it_did", func(t *testing.T) {
		if run := read(t, store, active); run.Phase != sidecar.PhaseFinished || run.Outcome != sidecar.OutcomeFailed {
			t.Errorf("our active run: %+v", run.State)
		}
		if run := read(t, store, "run_e"); run.Phase != sidecar.PhaseSubmitting {
			t.Errorf("its new one: %+v", run.State)
		}
		if run := read(t, store, ended); !run.Pinned {
			t.Error("the pin is lost")
		}
	})
	prune(t, store, sidecar.Retention{Runs: 1}, time.Now())
	apply(t, store, "run_e", sidecar.Signal{Kind: sidecar.SignalCancel})
	consistent(t, store)
	mine = ours(t, store)
	closeStore(t, store)
	agree("at last", reference(t, python, path), mine)
	if len(mine.Runs) != 3 || len(mine.Items) == 0 {
		t.Errorf("left are %+v", mine)
	}
}

func deleteItem(t *testing.T, store *sqlite.Store, id sidecar.ItemID) {
	t.Helper()
	if item, err := store.DeleteItem(context.Background(), "alice", id); item == nil || err != nil {
		t.Fatal(item, err)
	}
}
