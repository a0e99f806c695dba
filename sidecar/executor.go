package sidecar

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/comfygit-ai/studio-sidecar/manifest"
)

// Job is what an executor needs to know of a run.
type Job struct {
	Run     RunID
	Prompt  PromptID // the id to ask for, or the one that the backend answered
	Graph   json.RawMessage
	Outputs []manifest.Output
	// Resumed is set when an earlier life of this process, or an attempt whose
	// answer was lost, may have handed the prompt over.
	Resumed bool
	// Accepted is set once the backend is known to have taken the prompt.
	Accepted bool
	// Manner is how the run was asked for, where it is known, and Limit how
	// long it may take in all; 0: no end.
	Manner Manner
	Limit  time.Duration
	// Due is when the run is given up; zero: never.
	Due time.Time
	// EnvironmentRef says which state of an environment the graph was made from.
	EnvironmentRef json.RawMessage
}

// Executor runs jobs on a backend: a ComfyUI, or another sidecar. Its methods
// may be called from many goroutines at once. A backend that does not answer
// is an *UnreachableError from every method that asks it something.
type Executor interface {
	// Stage makes sure that the backend can load a file that the job's graph
	// names, and returns the name that it loads it by. It may be called again:
	// what is there already stays. Errors as those of Submit, about the file.
	Stage(ctx context.Context, job Job, file InputFile) (string, error)
	// Submit hands a job over once. It returns the id that the backend keeps
	// the prompt under and what the backend dropped without harm. Errors:
	// *RefusedError when the backend said no and does not have the prompt,
	// *UnreachableError when the backend cannot have heard of it, *UnsureError
	// when it may or may not have the prompt.
	Submit(ctx context.Context, job Job) (Acceptance, error)
	// Look says where a prompt is now. Absent is proven, not guessed: it was
	// neither in history, nor in the queue, nor in history after that.
	Look(ctx context.Context, job Job) (Sighting, error)
	// Results collects the declared outputs of a prompt that was seen done:
	// sizes of pictures, copies of what the backend will forget.
	Results(ctx context.Context, job Job, seen Sighting) ([]Result, error)
	// Discard removes the copies that Results made, when nothing came of them.
	Discard(results []Result) error
	// Cancel asks the backend to drop or stop a prompt, and no other. It
	// returns when the backend has taken the wish, which is not yet the end
	// of the prompt. *RefusedError when the backend refused.
	Cancel(ctx context.Context, job Job) error
	// Watch reports news until ctx ends, reconnecting by itself, and returns
	// ctx's error. report must not block.
	Watch(ctx context.Context, report func(News)) error
	// Health asks the backend how it is.
	Health(ctx context.Context) (Health, error)
	// Fetch opens a file that the backend holds; the caller closes its Body.
	Fetch(ctx context.Context, query FileQuery) (*Content, error)
}

// Acceptance is a backend's yes.
type Acceptance struct {
	PromptID PromptID
	// Warnings is a JSON object of ComfyUI's node_errors that touch no declared
	// output; nil when there are none.
	Warnings json.RawMessage
	// Issues are remarks of another sidecar, a JSON array of objects.
	Issues json.RawMessage
}

// Place says where a prompt is.
type Place string

// The places of a prompt.
const (
	PlaceAbsent    Place = "absent"
	PlaceQueued    Place = "queued"
	PlaceExecuting Place = "executing"
	PlaceDone      Place = "done"        // ended well
	PlaceFailed    Place = "failed"      // ended badly, see Sighting.Failure
	PlaceStopped   Place = "interrupted" // somebody interrupted it
	// PlaceUnknown is no absence: the backend may have the prompt under an id
	// that nobody was told. It must not be handed over again.
	PlaceUnknown Place = "unknown"
)

func (p Place) over() bool { return p == PlaceDone || p == PlaceFailed || p == PlaceStopped }

// Sighting is what Look saw.
type Sighting struct {
	Place Place
	// Position is the number of prompts before a queued one.
	Position int
	// Outputs are history's outputs by node, raw; set when Done.
	Outputs map[string]json.RawMessage
	// AllCached is set when Done and nothing was computed.
	AllCached bool
	// Dropped are the declared outputs that the backend leaves out of a prompt
	// whose answer was lost; the answer would have told.
	Dropped []manifest.Output
	Failure *Failure
	// Detail is the backend's own answer, when it is a sidecar, and Issues are
	// its remarks.
	Detail json.RawMessage
	Issues json.RawMessage
}

// NewsKind says what a News is about.
type NewsKind string

// The kinds of news. They are hints: none of them ends a run.
const (
	NewsConnected    NewsKind = "connected"    // a new epoch began; look at everything
	NewsDisconnected NewsKind = "disconnected" // nothing is heard until connected
	NewsAway         NewsKind = "away"         // a connection could not be made
	NewsQueue        NewsKind = "queue"        // the queue moved; Remaining is its length
	NewsStarted      NewsKind = "started"
	NewsCached       NewsKind = "cached"
	NewsNode         NewsKind = "node" // Node began
	NewsNodeDone     NewsKind = "node_done"
	NewsProgress     NewsKind = "progress"
	NewsPreview      NewsKind = "preview"
	NewsEnding       NewsKind = "ending" // history has it, or will in a moment
)

// News is what a backend says unasked. Prompt is empty when it concerns all.
type News struct {
	Kind      NewsKind
	Prompt    PromptID
	Epoch     int // number of the connection that it came over
	Node      NodeRef
	Nodes     []NodeRef
	Progress  Progress
	Preview   Preview
	Remaining int
}

// Progress is how far a run is: Value of Max steps of Node, and Done of Total
// nodes where they are known.
type Progress struct {
	Node  NodeRef
	Value float64
	Max   float64
	Done  int
	Total int
	// Stepped are the nodes that have counted steps so far, Node among them: a
	// reader of latest values may have missed them. An executor gives those
	// alone that it does not tell one by one.
	Stepped []NodeID
}

// Preview is a picture of what is being made. Data must not be changed.
type Preview struct {
	Type string // image/jpeg or image/png
	Data []byte
}

// Health is what a backend says of itself.
type Health struct {
	Version string
	Queue   int
	// Doubt is a sentence about a backend that answers well, but not as one
	// does; else empty.
	Doubt string
	// Detail is the backend's own health answer, when it is a sidecar.
	Detail json.RawMessage
}

// FileQuery names a file that a backend holds and the part that is wanted.
type FileQuery struct {
	Filename  string
	Subfolder string
	Type      string
	// Method is GET or HEAD; Header holds Range and the conditional headers.
	Method string
	Header map[string][]string
}

// Content is an answered file: Status is 200, 206, 304, 400, 403, 404, 412 or
// 416 with the headers that go with it.
type Content struct {
	Status int
	Header map[string][]string
	Size   int64 // -1 when unknown
	Body   io.ReadCloser
}

// RefusedError is a backend's no.
type RefusedError struct{ Failure Failure }

func (e *RefusedError) Error() string { return e.Failure.Message }

// UnreachableError means that the backend cannot have heard of the call.
type UnreachableError struct {
	Failure Failure
	Err     error
}

func (e *UnreachableError) Error() string { return e.Failure.Message }
func (e *UnreachableError) Unwrap() error { return e.Err }

// UnsureError means that the backend may or may not have done what was asked.
type UnsureError struct {
	Failure Failure
	Err     error
}

func (e *UnsureError) Error() string { return e.Failure.Message }
func (e *UnsureError) Unwrap() error { return e.Err }

// lookPause is how long the first silent look waits; it doubles up to
// lookPauseMax. Short enough for people, long enough for a busy ComfyUI.
const (
	lookPause    = 100 * time.Millisecond
	lookPauseMax = 2 * time.Second
)
