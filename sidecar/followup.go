package sidecar

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/comfygit-ai/studio-sidecar/manifest"
)

const (
	// fedFileMax is how large a file may be that a follow-up gets, in bytes.
	fedFileMax = 4 << 30
	// valuesDepth bounds the nesting of stored inputs: they were read with
	// less.
	valuesDepth = 128
)

// checkAfter refuses a follow-up of a run that is not there, or that has no
// such output, and one for inputs that the contract does not have.
func (s *Studio) checkAfter(ctx context.Context, req LaunchRequest, contract *manifest.Contract) error {
	if req.After == nil {
		return nil
	}
	parent, err := s.store.Run(ctx, req.After.Run)
	if errors.Is(err, ErrNotFound) || err == nil && parent.Scope != req.Session.Scope {
		return afterFault(fmt.Sprintf("'after.run_id': run '%s' was not found.", req.After.Run), "Name a run of this session.")
	}
	if err != nil {
		return storageError(err)
	}
	outputs, err := s.launchedOutputs(ctx, parent)
	if err != nil {
		return afterFault(fmt.Sprintf("'after.run_id': the outputs of run '%s' are not known any more.", parent.ID), "Name another run.")
	}
	for _, feed := range req.After.Inputs {
		if err := checkFeed(feed, contract, req.Values, outputs); err != nil {
			return err
		}
	}
	return nil
}

func checkFeed(feed Feed, contract *manifest.Contract, values manifest.Values, outputs []manifest.Output) error {
	_, given := values.Get(feed.Input)
	switch {
	case !slices.ContainsFunc(contract.Inputs, func(in manifest.Input) bool { return in.Name == feed.Input }):
		return afterFault(fmt.Sprintf("'after.inputs': the contract has no input '%s'.", feed.Input), "Look at the contract for its inputs.")
	case !slices.ContainsFunc(outputs, func(out manifest.Output) bool { return out.Name == feed.Output }):
		return afterFault(fmt.Sprintf("'after.inputs': the run to follow has no output '%s'.", feed.Output), "Look at that run's output_slots for its outputs.")
	case given:
		return afterFault(fmt.Sprintf("Input '%s' is given in 'inputs' and in 'after.inputs'.", feed.Input), "Give it once.")
	}
	return nil
}

func afterFault(message, hint string) *Error {
	return &Error{Code: CodeBadRequest, Message: message, Hint: hint}
}

// prepareFollowUp keeps what a follow-up will be built of: contract, graph and
// inputs as they are now. What is wrong with them already is told at once.
func (r *Run) prepareFollowUp(snap *manifest.Snapshot, contract *manifest.Contract, values manifest.Values) ([]Blob, *Failure, error) {
	graph, _, err := snap.Graph(contract)
	if failure := buildFailure(manifest.Built{}, err); failure != nil {
		return nil, failure, nil
	}
	trial := contract.Bind(graph, values)
	trial.Issues = slices.DeleteFunc(trial.Issues, func(issue manifest.Issue) bool { return r.Hold.After.feeds(issue.InputName) })
	if failure := buildFailure(trial, nil); failure != nil {
		return nil, failure, nil
	}
	blobs, err := r.prepare(contract, trial)
	if err != nil {
		return nil, nil, err
	}
	raw, err := values.MarshalJSON()
	if err != nil {
		return nil, nil, fmt.Errorf("encode inputs: %w", err)
	}
	h, after := *r.Hold, *r.Hold.After
	after.Values, h.After = raw, &after
	r.Hold, r.Parent = &h, after.Run
	unbound := NewBlob(graph.Bytes())
	r.Graph, r.PromptDigest = unbound.Digest, ""
	return []Blob{unbound, blobs[1]}, nil, nil
}

func (a *After) feeds(input string) bool {
	return slices.ContainsFunc(a.Inputs, func(feed Feed) bool { return feed.Input == input })
}

// bindFollowUp builds a follow-up when its parent has completed, or ends it
// when that ended otherwise. What may pass is tried again.
func (s *Studio) bindFollowUp(ctx context.Context, id RunID) {
	sig, blobs, err := s.followUp(ctx, id)
	var refused *RefusedError
	switch {
	case errors.As(err, &refused):
		why := refused.Failure
		why.Outcome = OutcomeRejected
		sig = Signal{Kind: SignalRejected, Failure: &why}
	case ctx.Err() != nil:
		return
	case err != nil && (errors.Is(err, ErrLasting) || errors.As(err, new(recoveryError))):
		s.log.Error("build a follow-up", "run", id, "err", err)
		sig = Signal{Kind: SignalFailed, Failure: recoveryFailure(err)}
	case err != nil:
		s.log.Warn("build a follow-up", "run", id, "err", err)
		s.queue.lookLater(id, time.Now().Add(heldAgain))
		return
	case sig.Kind == "":
		return
	}
	s.releaseHeld(ctx, id, sig, blobs...)
}

// followUp is what to tell a follow-up now; an empty signal: nothing yet.
func (s *Studio) followUp(ctx context.Context, id RunID) (Signal, []Blob, error) {
	run, err := s.store.Run(ctx, id)
	if err != nil || !run.Awaits(WaitParent) {
		return Signal{}, nil, err
	}
	parent, err := s.completedParent(ctx, run)
	if parent == nil {
		return Signal{}, nil, err
	}
	bound, blobs, err := newFeeder(s, run, parent).bind(ctx)
	return Signal{Kind: SignalReleased, Wait: WaitParent, Bound: bound}, blobs, err
}

// completedParent is the run that a follow-up follows; nil while that has not
// ended. One that ended otherwise, or is gone, is a *RefusedError.
func (s *Studio) completedParent(ctx context.Context, run *Run) (*Run, error) {
	parent, err := s.store.Run(ctx, run.Hold.After.Run)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, notFed("The run that this one follows is there no more.", "Run it again by itself.")
	case err != nil:
		return nil, err
	case !parent.Status.Terminal():
		return nil, nil
	case parent.Status != StatusCompleted:
		return nil, notFed(fmt.Sprintf("Run '%s', which this one follows, did not complete: it is %s.", parent.ID, parent.Status), "Run that one again, then this one.")
	}
	return parent, nil
}

// hopeless is why a new follow-up will never be fed; nil when it may be.
func (s *Studio) hopeless(ctx context.Context, run *Run) (*Failure, error) {
	parent, err := s.completedParent(ctx, run)
	if parent != nil {
		err = newFeeder(nil, run, parent).check()
	}
	var refused *RefusedError
	if errors.As(err, &refused) {
		return &refused.Failure, nil
	}
	if err != nil {
		return nil, storageError(err)
	}
	return nil, nil
}

func notFed(message, hint string) *RefusedError {
	return &RefusedError{Failure: Failure{Code: string(CodeRunRejected), Message: message, Hint: hint, Outcome: OutcomeRejected}}
}

// feeder fills a follow-up's inputs from its parent.
type feeder struct {
	studio      *Studio
	run, parent *Run
	firsts      map[string]made // of the parent's outputs that are not empty
	uploads     []UploadID
}

func newFeeder(s *Studio, run, parent *Run) *feeder {
	return &feeder{studio: s, run: run, parent: parent, firsts: firstsOf(parent), uploads: slices.Clone(run.Uploads)}
}

// check refuses a follow-up whose parent made nothing of what it would be fed.
func (f *feeder) check() error {
	for _, feed := range f.run.Hold.After.Inputs {
		if _, ok := f.firsts[feed.Output]; !ok {
			return f.empty(feed)
		}
	}
	return nil
}

func (f *feeder) bind(ctx context.Context) (*Bound, []Blob, error) {
	contract, graph, values, err := f.kept(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, feed := range f.run.Hold.After.Inputs {
		value, err := f.value(ctx, feed)
		if err != nil {
			return nil, nil, err
		}
		values = append(values, manifest.Field{Name: feed.Input, Value: value})
	}
	built := contract.Bind(graph, values)
	if failure := buildFailure(built, nil); failure != nil {
		return nil, nil, &RefusedError{Failure: *failure}
	}
	made := *f.run
	made.Inputs, made.Uploads = manifest.DisplayInputs(values), f.uploads
	blobs, err := made.prepare(contract, built)
	if err != nil {
		return nil, nil, err
	}
	return &Bound{
		Graph: made.Graph, PromptDigest: made.PromptDigest, Inputs: made.Inputs, Uploads: made.Uploads, Issues: made.Issues,
	}, blobs, nil
}

// kept reads what was stored when the follow-up was accepted.
func (f *feeder) kept(ctx context.Context) (*manifest.Contract, manifest.Graph, manifest.Values, error) {
	var contract manifest.Contract
	data, err := f.blob(ctx, "contract", f.run.ContractRef)
	if err != nil {
		return nil, manifest.Graph{}, nil, err
	}
	if err := json.Unmarshal(data, &contract); err != nil {
		return nil, manifest.Graph{}, nil, recoveryError(fmt.Sprintf("The contract that was stored with the run cannot be read: %v.", err))
	}
	text, err := f.blob(ctx, "graph", f.run.Graph)
	if err != nil {
		return nil, manifest.Graph{}, nil, err
	}
	graph, _, err := manifest.ParseGraph(text)
	if err != nil {
		return nil, graph, nil, recoveryError(fmt.Sprintf("The graph that was stored with the run cannot be read: %v.", err))
	}
	values, err := manifest.ParseObject(f.run.Hold.After.Values, manifest.Limits{Depth: valuesDepth})
	if err != nil {
		return nil, graph, nil, recoveryError(fmt.Sprintf("The inputs that were stored with the run cannot be read: %v.", err))
	}
	return &contract, graph, values, nil
}

// blob reads a part of what was stored. One that is gone does not come back.
func (f *feeder) blob(ctx context.Context, part string, digest Digest) ([]byte, error) {
	data, err := f.studio.store.Blob(ctx, digest)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, recoveryError(fmt.Sprintf("The %s that was stored with the run is there no more.", part))
	case err != nil:
		return nil, fmt.Errorf("read the %s of run %s: %w", part, f.run.ID, err)
	}
	return data, nil
}

// made is the first artifact of an output, as a completed run keeps it.
type made struct {
	Filename    string          `json:"filename"`
	Subfolder   string          `json:"subfolder"`
	Type        string          `json:"type"`
	Text        *string         `json:"text"`
	Raw         json.RawMessage `json:"raw"`
	Ref         string          `json:"serve_artifact"`
	ContentType string          `json:"content_type"`
}

func firstsOf(run *Run) map[string]made {
	var doc struct {
		Outputs []struct {
			Name      string `json:"name"`
			Artifacts []made `json:"artifacts"`
		} `json:"outputs"`
	}
	firsts := map[string]made{}
	if json.Unmarshal(run.Result, &doc) != nil {
		return firsts
	}
	for _, out := range doc.Outputs {
		if _, twice := firsts[out.Name]; !twice && len(out.Artifacts) > 0 {
			firsts[out.Name] = out.Artifacts[0]
		}
	}
	return firsts
}

func (f *feeder) empty(feed Feed) *RefusedError {
	return notFed(fmt.Sprintf("Output '%s' of run '%s', which this one follows, is empty.", feed.Output, f.parent.ID), "Run that one again, then this one.")
}

// value is what an input gets: a text as it is, a file as the name of an
// upload.
func (f *feeder) value(ctx context.Context, feed Feed) (json.RawMessage, error) {
	empty := f.empty(feed)
	artifact, ok := f.firsts[feed.Output]
	switch {
	case !ok:
		return nil, empty
	case artifact.Filename != "" || artifact.Ref != "":
		return f.file(ctx, artifact)
	case artifact.Text != nil:
		return mustJSON(*artifact.Text), nil
	}
	var raw struct {
		Value json.RawMessage `json:"value"`
	}
	if json.Unmarshal(artifact.Raw, &raw) != nil || len(raw.Value) == 0 {
		return nil, empty
	}
	return raw.Value, nil
}

// file keeps a file of the parent's as an upload. Whoever knows its id knows
// its bytes: it is made of them.
func (f *feeder) file(ctx context.Context, artifact made) (json.RawMessage, error) {
	s := f.studio
	if s.uploads == nil {
		return nil, notFed("This server keeps no files for a run that follows another.", "Run it again with a file that ComfyUI has.")
	}
	body, err := s.openMade(ctx, artifact)
	if err != nil {
		return nil, err
	}
	u, err := s.TakeInput(ctx, InputRequest{Name: artifact.Filename, Type: artifact.ContentType, Limit: fedFileMax, Body: body})
	if closing := body.Close(); closing != nil {
		s.log.Debug("close a file of a run", "run", f.parent.ID, "err", closing)
	}
	var told *Error
	if errors.As(err, &told) && told.Code == CodeTooLarge {
		return nil, notFed(fmt.Sprintf("The file of run '%s', which this one follows, is too large.", f.parent.ID), "Run it again with a smaller one.")
	}
	if err != nil {
		return nil, fmt.Errorf("keep a file of run %s: %w", f.parent.ID, err)
	}
	if !slices.Contains(f.uploads, u.ID) {
		f.uploads = append(f.uploads, u.ID)
	}
	return mustJSON(u.StoredName()), nil
}

// openMade opens a file that a run made: our copy, or the backend's.
func (s *Studio) openMade(ctx context.Context, artifact made) (io.ReadCloser, error) {
	gone := notFed(fmt.Sprintf("The file '%s' of the run that this one follows is there no more.", artifact.Filename), "Run that one again, then this one.")
	if artifact.Ref != "" {
		if s.openCopy == nil {
			return nil, gone
		}
		body, err := s.openCopy(artifact.Ref)
		if errors.Is(err, ErrNotFound) {
			return nil, gone
		}
		return body, err
	}
	kind := artifact.Type
	if kind == "" {
		kind = "output"
	}
	content, err := s.exec.Fetch(ctx, FileQuery{Filename: artifact.Filename, Subfolder: artifact.Subfolder, Type: kind, Method: http.MethodGet})
	if err != nil {
		// Without its cause: that the file is refused just now ends nothing.
		return nil, fmt.Errorf("fetch %s: %v", artifact.Filename, err)
	}
	if content.Status == http.StatusOK {
		return content.Body, nil
	}
	if err := content.Body.Close(); err != nil {
		s.log.Debug("close a file", "name", artifact.Filename, "err", err)
	}
	switch content.Status {
	case http.StatusNotFound:
		return nil, gone
	case http.StatusBadRequest: // its name has what ComfyUI takes for a way out of its folder
		return nil, notFed(fmt.Sprintf("ComfyUI does not show the file '%s' of the run that this one follows.", artifact.Filename), "Have it saved under a name without '..'.")
	}
	return nil, fmt.Errorf("fetch %s: HTTP %d", artifact.Filename, content.Status)
}
