package sidecar

import (
	"encoding/json"
	"slices"

	"github.com/comfygit-ai/studio-sidecar/manifest"
)

// SignalKind says what a Signal tells of a run.
type SignalKind string

// The kinds of signals. Which of them move a run from where it is, is decided
// by Run.Apply alone.
const (
	// SignalAdopted: the run was left behind by the reference, which keeps no
	// slots of a run that is waited for. Outputs are those of its contract.
	SignalAdopted SignalKind = "adopted"
	// SignalHanding: the prompt is about to be handed over. Committed before
	// the executor is asked.
	SignalHanding SignalKind = "handing"
	// SignalAccepted: the backend has the prompt. PromptID is the id that it
	// keeps, Warnings what it dropped without harm.
	SignalAccepted SignalKind = "accepted"
	// SignalStarted: the prompt is being executed.
	SignalStarted SignalKind = "started"
	// SignalCached: Nodes need no execution.
	SignalCached SignalKind = "cached"
	// SignalNodeStarted and SignalNodeFinished tell of Node.
	SignalNodeStarted  SignalKind = "node_started"
	SignalNodeFinished SignalKind = "node_finished"
	// SignalCollecting: execution ended well, outputs are being looked at.
	SignalCollecting SignalKind = "collecting"
	// SignalFinished: execution ended well with Results.
	SignalFinished SignalKind = "finished"
	// SignalFailed: the run cannot end well, for Failure's reason. A failure
	// before acceptance leaves no slots, as with the reference.
	SignalFailed SignalKind = "failed"
	// SignalInterrupted: somebody stopped the prompt in the backend. Failure,
	// if set, says why in another sidecar's words.
	SignalInterrupted SignalKind = "interrupted"
	// SignalLost: the backend had the prompt and no longer knows it.
	SignalLost SignalKind = "lost"
	// SignalAgain: the backend lost the prompt, and the run is to be handed over
	// anew, under another prompt id. A run that may not ends as lost.
	SignalAgain SignalKind = "again"
	// SignalTimedOut: the run's own limit passed.
	SignalTimedOut SignalKind = "timed_out"
	// SignalCancel: its owner does not want it any more.
	SignalCancel SignalKind = "cancel"
	// SignalCancelRefused: the backend did not take the cancel, for Failure's
	// reason. It is tried again.
	SignalCancelRefused SignalKind = "cancel_refused"
	// SignalSettled: the backend no longer has the prompt of an ended run.
	SignalSettled SignalKind = "settled"
	// SignalHeld: the backend is away and cannot have heard of the run, which
	// waits until it is back.
	SignalHeld SignalKind = "held"
	// SignalReleased: what a held run waited for, Wait, has come. That of a
	// follow-up's parent brings what the run is made of, Bound.
	SignalReleased SignalKind = "released"
	// SignalApproved: somebody approved a run that waited for it.
	SignalApproved SignalKind = "approved"
	// SignalRejected: a held run will not be run, for Failure's reason.
	SignalRejected SignalKind = "rejected"
	// SignalFront: the run is to be the first of those that wait for a turn.
	SignalFront SignalKind = "front"
)

// SignalKinds lists all kinds, for tests that must not miss one.
var SignalKinds = []SignalKind{
	SignalAdopted, SignalHanding, SignalAccepted, SignalStarted, SignalCached, SignalNodeStarted,
	SignalNodeFinished, SignalCollecting, SignalFinished, SignalFailed, SignalInterrupted,
	SignalLost, SignalAgain, SignalTimedOut, SignalCancel, SignalCancelRefused, SignalSettled,
	SignalHeld, SignalReleased, SignalApproved, SignalRejected, SignalFront,
}

// Signal is news about a run. Only the fields that its kind names are set.
type Signal struct {
	Kind     SignalKind
	PromptID PromptID
	Outputs  []manifest.Output
	Node     NodeRef
	Nodes    []NodeRef
	Results  []Result
	Failure  *Failure
	Warnings json.RawMessage
	// Issues are further remarks, a JSON array of objects.
	Issues json.RawMessage
	// AllCached is set with SignalFinished when nothing was computed.
	AllCached bool
	Wait      WaitReason
	Bound     *Bound
}

// Bound is what a follow-up is made of once its parent has completed.
type Bound struct {
	Graph        Digest
	PromptDigest string
	Inputs       json.RawMessage
	Uploads      []UploadID
	Issues       json.RawMessage
}

// NodeRef names a node in news about a run.
type NodeRef struct {
	ID     NodeID
	Class  string
	Title  string
	Parent NodeID
	Error  string
}

// Failure is why something did not go well. It becomes the body of an error
// answer and the run's raw_result, in the reference's words.
type Failure struct {
	Code    string
	Message string
	Hint    string
	Outcome Outcome
	// Status, URL and Detail are what the backend answered, if it did.
	Status int
	URL    string
	Detail json.RawMessage
	// Issues are set when inputs could not be bound, a JSON array.
	Issues json.RawMessage
	// Proxy is set when the backend is another sidecar.
	Proxy bool
	// Told is that sidecar's report of the end, which becomes the result: a
	// JSON object.
	Told json.RawMessage
}

// Result is one declared output with the files found for it. Behind those of
// the declared outputs may stand what another sidecar told beyond them.
type Result struct {
	manifest.Result
	Files []File
	// Told is the output in the words of another sidecar, which are kept, a
	// JSON object; Place is where it stood among that sidecar's outputs.
	// Untold: that sidecar did not speak of the output.
	Told   json.RawMessage
	Place  int
	Untold bool
}

// hasFiles reports whether anything but texts was made.
func (r *Result) hasFiles() bool {
	return r != nil && slices.ContainsFunc(r.Artifacts, func(a manifest.Artifact) bool { return a.Text == "" })
}

// File is one artifact of a result, as it is shown. Exactly one File stands
// for each of manifest.Result.Artifacts, in order.
type File struct {
	// Width and Height in pixels; 0 when unknown.
	Width, Height int
	// Ref names the copy on our own disk ("PROMPT/NAME"); empty: ComfyUI's.
	Ref string
	// Bytes is the file's size; 0 when unknown.
	Bytes int64
	// ContentType of the copy.
	ContentType string
	// Told is the artifact in the words of another sidecar, which are kept; a
	// JSON object.
	Told json.RawMessage
}
