package sidecar

import (
	"encoding/json"
	"fmt"
	"time"
)

// TimeFormat is how times are written and stored: UTC, milliseconds, Z.
const TimeFormat = "2006-01-02T15:04:05.000Z"

// FormatTime writes a time as TimeFormat says; the zero time is empty.
func FormatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(TimeFormat)
}

// targets are the things that an event changed, with their new values.
type targets struct{ values map[string]any }

func (t *targets) put(name string, value any) {
	if t.values == nil {
		t.values = map[string]any{}
	}
	t.values[name] = value
}

func (t *targets) gone(name string) { t.put(name, nil) }

func (t *targets) run(r *Run) {
	t.put("run", runTarget{
		Status: r.Status, Phase: r.Phase, Outcome: r.Outcome, PromptID: r.PromptID, Code: r.Code,
		Error: r.Error, Workflow: r.Workflow, Contract: r.Contract, Attempt: r.Attempt,
		WaitReason: r.WaitReason(), Parent: r.Parent,
		CreatedAt: FormatTime(r.CreatedAt), StartedAt: FormatTime(r.StartedAt), FinishedAt: FormatTime(r.FinishedAt),
		Title: r.Title, Pinned: r.Pinned,
	})
}

func (t *targets) slot(s *Slot) {
	t.put("slots/"+string(s.ID), slotTarget{
		Name: s.Name, Type: s.Type, Status: s.Status, Width: s.Width, Height: s.Height, Error: s.Error,
	})
}

func (t *targets) item(i *Item) {
	t.put("items/"+string(i.ID), itemTarget{
		Slot: i.Slot, Output: i.Output, Type: i.Type, Status: i.Status, Filename: i.Filename,
		Width: i.Width, Height: i.Height, Error: i.Error,
	})
}

func (t *targets) node(n *NodeRun) {
	t.put(fmt.Sprintf("nodes/%s/%d", n.Node, n.Attempt), nodeTarget{
		Class: n.Class, Title: n.Title, Parent: n.Parent, Cached: n.Cached,
		StartedAt: FormatTime(n.StartedAt), FinishedAt: FormatTime(n.FinishedAt), Error: n.Error,
		Files: n.Files, Bytes: n.Bytes,
	})
}

func (t *targets) json() json.RawMessage { return mustJSON(t.values) }

type runTarget struct {
	Status     Status     `json:"status"`
	Phase      Phase      `json:"phase"`
	Outcome    Outcome    `json:"outcome,omitempty"`
	PromptID   PromptID   `json:"prompt_id,omitempty"`
	Code       string     `json:"code,omitempty"`
	Error      string     `json:"error,omitempty"`
	Workflow   string     `json:"workflow"`
	Contract   string     `json:"contract"`
	Attempt    int        `json:"attempt"`
	WaitReason WaitReason `json:"wait_reason,omitempty"`
	Parent     RunID      `json:"parent,omitempty"`
	CreatedAt  string     `json:"createdAt"`
	StartedAt  string     `json:"startedAt,omitempty"`
	FinishedAt string     `json:"finishedAt,omitempty"`
	Title      string     `json:"title,omitempty"`
	Pinned     bool       `json:"pinned,omitempty"`
}

type slotTarget struct {
	Name   string     `json:"outputName"`
	Type   string     `json:"type"`
	Status SlotStatus `json:"status"`
	Width  int        `json:"width"`
	Height int        `json:"height"`
	Error  string     `json:"error,omitempty"`
}

type itemTarget struct {
	Slot     SlotID     `json:"slotId,omitempty"`
	Output   string     `json:"outputName,omitempty"`
	Type     string     `json:"type"`
	Status   ItemStatus `json:"status"`
	Filename string     `json:"filename,omitempty"`
	Width    int        `json:"width"`
	Height   int        `json:"height"`
	Error    string     `json:"error,omitempty"`
}

type nodeTarget struct {
	Class      string `json:"class_type,omitempty"`
	Title      string `json:"title,omitempty"`
	Parent     NodeID `json:"parent,omitempty"`
	Cached     bool   `json:"cached,omitempty"`
	StartedAt  string `json:"startedAt,omitempty"`
	FinishedAt string `json:"finishedAt,omitempty"`
	Error      string `json:"error,omitempty"`
	Files      int    `json:"files,omitempty"`
	Bytes      int64  `json:"bytes,omitempty"`
}

// JSON writes the event as it is stored and sent.
func (e Event) JSON() []byte {
	return mustJSON(struct {
		Run      RunID           `json:"run_id,omitempty"`
		Revision int64           `json:"revision,omitempty"`
		Type     EventType       `json:"type"`
		At       string          `json:"at"`
		Targets  json.RawMessage `json:"targets"`
	}{e.Run, e.Revision, e.Type, FormatTime(e.At), e.Targets})
}
