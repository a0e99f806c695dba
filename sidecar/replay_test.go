package sidecar_test

import (
	"encoding/json"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

type told struct {
	Run      sidecar.RunID              `json:"run_id"`
	Revision int64                      `json:"revision"`
	Type     sidecar.EventType          `json:"type"`
	Targets  map[string]json.RawMessage `json:"targets"`
}

func decodeEvent(r *rig, rec sidecar.Record) told {
	r.Helper()
	var e told
	must(r, json.Unmarshal(rec.JSON, &e))
	return e
}

// picture is what a reader of events knows of a run.
type picture struct {
	Status  sidecar.Status
	Phase   sidecar.Phase
	Outcome sidecar.Outcome
	Code    string
	Slots   map[string]sidecar.SlotStatus
	Items   map[string]sidecar.ItemStatus
}

func pictureOf(run *sidecar.Run) picture {
	p := picture{run.Status, run.Phase, run.Outcome, run.Code, map[string]sidecar.SlotStatus{}, map[string]sidecar.ItemStatus{}}
	for _, s := range run.Slots {
		p.Slots[string(s.ID)] = s.Status
	}
	for _, i := range run.Items {
		p.Items[string(i.ID)] = i.Status
	}
	return p
}

// replays: who reads all events of a run knows what its row says.
func (r *rig) replays(run *sidecar.Run, records []sidecar.Record) {
	r.Helper()
	got := picture{Slots: map[string]sidecar.SlotStatus{}, Items: map[string]sidecar.ItemStatus{}}
	for _, rec := range records {
		for name, raw := range decodeEvent(r, rec).Targets {
			var value struct{ Status, Phase, Outcome, Code string }
			must(r, json.Unmarshal(raw, &value))
			kind, id, _ := strings.Cut(name, "/")
			gone := string(raw) == "null"
			switch {
			case kind == "run":
				got.Status, got.Phase = sidecar.Status(value.Status), sidecar.Phase(value.Phase)
				got.Outcome, got.Code = sidecar.Outcome(value.Outcome), value.Code
			case kind == "slots" && gone:
				delete(got.Slots, id)
			case kind == "slots":
				got.Slots[id] = sidecar.SlotStatus(value.Status)
			case kind == "items" && gone:
				delete(got.Items, id)
			case kind == "items":
				got.Items[id] = sidecar.ItemStatus(value.Status)
			}
		}
	}
	if diff := cmp.Diff(pictureOf(run), got); diff != "" {
		r.Errorf("row and events differ: %s", diff)
	}
}
