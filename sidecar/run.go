package sidecar

import (
	"encoding/json"
	"time"
	"unicode"
)

// Status is a run's public status.
type Status string

// The statuses of a run. Completed, Error and Cancelled are terminal.
const (
	StatusSubmitted Status = "submitted"
	StatusRunning   Status = "running"
	StatusCompleted Status = "completed"
	StatusError     Status = "error"
	StatusCancelled Status = "cancelled"
)

// Terminal reports whether a run with this status has ended. A status that
// another program wrote counts as an end.
func (s Status) Terminal() bool { return s != StatusSubmitted && s != StatusRunning }

// known reports whether a terminal status is one that clients know.
func (s Status) known() bool {
	return s == StatusCompleted || s == StatusError || s == StatusCancelled || s == "failed"
}

// Phase says what a run is doing, more finely than its status.
type Phase string

// The phases of a run. Finished may come after the run has ended: a cancelled
// run is Cancelling until ComfyUI no longer has its prompt.
const (
	PhaseHeld       Phase = "held"       // waits for something other than its turn
	PhaseSubmitting Phase = "submitting" // waits for its turn, or is being handed over
	PhaseQueued     Phase = "queued"     // in ComfyUI's queue
	PhaseExecuting  Phase = "executing"
	PhaseCollecting Phase = "collecting" // ComfyUI is done, the outputs are looked at
	PhaseCancelling Phase = "cancelling"
	PhaseFinished   Phase = "finished"
)

// Outcome says how a run ended; empty while it has not.
type Outcome string

// The outcomes of a run.
const (
	OutcomeCompleted Outcome = "completed"
	OutcomeCached    Outcome = "cached"   // completed, and ComfyUI computed nothing new
	OutcomeRejected  Outcome = "rejected" // never accepted: its inputs, its graph, or ComfyUI said no
	OutcomeFailed    Outcome = "failed"
	OutcomeCancelled Outcome = "cancelled"
	OutcomeLost      Outcome = "lost" // ComfyUI no longer knows it
	OutcomeTimedOut  Outcome = "timed_out"
)

// SlotStatus is the status of one declared output of a run.
type SlotStatus string

// The statuses of a slot.
const (
	SlotPending   SlotStatus = "pending"
	SlotRunning   SlotStatus = "running"
	SlotDone      SlotStatus = "done"
	SlotEmpty     SlotStatus = "empty"
	SlotError     SlotStatus = "error"
	SlotCancelled SlotStatus = "cancelled"
)

// ItemStatus is the status of a gallery item.
type ItemStatus string

// The statuses of a gallery item.
const (
	ItemPending ItemStatus = "pending"
	ItemDone    ItemStatus = "done"
	ItemError   ItemStatus = "error"
)

// Run is one execution of a contract. The upper fields are those that the
// reference keeps too; State is ours. A Run that a store returned is a copy.
type Run struct {
	ID       RunID
	Session  SessionID
	Scope    Scope
	Workflow string
	Contract string
	Status   Status
	// PromptID is empty until ComfyUI has been asked.
	PromptID PromptID
	// Inputs is what the caller gave, as it is shown: a JSON object.
	Inputs json.RawMessage
	// Result is the answer in the reference's shape ("raw_result").
	Result    json.RawMessage
	Error     string
	CreatedAt time.Time
	UpdatedAt time.Time

	State

	Slots []Slot
	Items []Item
	Nodes []NodeRun

	// Callback is who is to be told of the run. The store keeps it apart, as a
	// Delivery: it is set when a run is created, never when it is read.
	Callback *Callback
}

// State is what we keep of a run beyond the reference's columns.
type State struct {
	// Revision grows by one with each applied signal that changed something.
	Revision int64
	Phase    Phase
	Outcome  Outcome
	// Code is the error code of a run that failed: "comfyui_unavailable" …
	Code string
	// Prompt is the prompt id that the run was given at its creation.
	Prompt PromptID
	// Attempt counts how often the prompt has been handed over.
	Attempt int
	// Accepted is set once ComfyUI is known to have taken the prompt.
	Accepted bool
	// Graph and ContractRef are the digests of the blobs that hold the prompt
	// and the contract as launched.
	Graph       Digest
	ContractRef Digest
	// EnvironmentRef, ManifestRevision and PromptDigest say what was run.
	EnvironmentRef   json.RawMessage
	ManifestRevision string
	PromptDigest     string
	// Issues are the warnings of binding, a JSON array.
	Issues json.RawMessage
	// Uploads are those that the run's inputs name.
	Uploads []UploadID
	// DueAt is when an unfinished run is cancelled as timed out; zero: never.
	DueAt time.Time
	// Hold is what the run waits for beside its turn, or waited for; nil:
	// nothing.
	Hold *Hold
	// Parent is the run that this one came from; empty: none.
	Parent RunID
	// Position is above 0 when the run was moved before all others that wait
	// for a turn; the highest comes first.
	Position   int64
	StartedAt  time.Time
	FinishedAt time.Time
	// Deleted are the items that were deleted while the run was unfinished.
	Deleted []ItemID
	// Title is what people call the run; Pinned runs are kept whatever
	// retention says.
	Title  string
	Pinned bool
	// HeadHash is the hash of the run's newest event.
	HeadHash []byte
}

// Slot is one declared output of a run.
type Slot struct {
	ID        SlotID
	Index     int
	Name      string
	Type      string // image, video, audio or json
	Status    SlotStatus
	PromptID  PromptID
	Width     int
	Height    int
	Error     string
	Result    json.RawMessage
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Item is one tile of the gallery: a file, a text, a fault, or the place of
// something to come.
type Item struct {
	ID        ItemID
	Run       RunID
	Session   SessionID
	Scope     Scope
	Workflow  string
	Contract  string
	Status    ItemStatus
	Type      string // image, video, audio or json
	Slot      SlotID // empty for a failed run that has no slots
	Output    string
	PromptID  PromptID
	Filename  string
	URL       string // without any prefix: "/outputs/view?…"
	Width     int
	Height    int
	Inputs    json.RawMessage
	Artifact  json.RawMessage
	Result    json.RawMessage
	Error     string
	CreatedAt time.Time
	UpdatedAt time.Time
}

// NodeRun is one execution of one node within a run.
type NodeRun struct {
	Node       NodeID
	Attempt    int
	Class      string
	Title      string
	Parent     NodeID // the node that a subgraph's or expanded node belongs to
	Cached     bool
	StartedAt  time.Time
	FinishedAt time.Time
	Error      string
	// Files are those that it made for a declared output, Bytes the size of
	// those whose size is known.
	Files int
	Bytes int64
}

func isAlnum(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
