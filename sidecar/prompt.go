package sidecar

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/comfygit-ai/studio-sidecar/manifest"
)

// CodePromptTaken is the code of a prompt id that names another graph already.
const CodePromptTaken Code = "prompt_id_taken"

// PromptRequest asks for a run of a graph that comes ready-made: another
// sidecar has bound its inputs.
type PromptRequest struct {
	Session Session
	// Prompt is the id that the caller gives the prompt, a canonical
	// lower-case UUID; empty: a new one. Asking again with the same id finds
	// the same run.
	Prompt  PromptID
	Graph   manifest.Graph
	Outputs []manifest.Output
	// Token makes the names of saved files the run's own; empty: that of Prompt.
	Token string
	// Files are the inputs that came along, by the names that the graph uses.
	Files map[string]*Upload
	// Limit ends the run as timed out; 0: the Studio's own limit.
	Limit time.Duration
	// Callback is told of the run's beginning and end; nil: nobody is.
	Callback *Callback
}

// Callback is where a run's caller wants to be told of it.
type Callback struct {
	Run   string `json:"run_id"` // the caller's own name of the run
	URL   string `json:"url"`
	Token string `json:"token,omitempty"`
}

// LaunchPrompt accepts a run of a ready-made graph as Launch does one of a
// contract, with its errors. A prompt id that names another graph is
// CodePromptTaken.
func (s *Studio) LaunchPrompt(ctx context.Context, req PromptRequest) (*Run, error) {
	run, err := s.launchPrompt(ctx, req)
	return run, launchError(err)
}

func (s *Studio) launchPrompt(ctx context.Context, req PromptRequest) (*Run, error) {
	run, blobs, err := s.promptRun(ctx, req)
	if err != nil {
		return nil, err
	}
	known, err := s.store.Run(ctx, run.ID)
	switch {
	case err == nil:
		return s.again(ctx, run, known)
	case !errors.Is(err, ErrNotFound):
		return nil, storageError(err)
	}
	launched, err := s.accept(ctx, run, blobs, func() {})
	if err != nil {
		// Two callers may ask for one prompt at the same time.
		if known, lost := s.store.Run(ctx, run.ID); lost == nil {
			return s.again(ctx, run, known)
		}
	}
	return launched, err
}

// again answers for a run that was asked for before.
func (s *Studio) again(ctx context.Context, asked, known *Run) (*Run, error) {
	if known.PromptDigest != asked.PromptDigest {
		return nil, &Error{
			Code: CodePromptTaken, Message: fmt.Sprintf("The prompt id %s names another graph.", known.Prompt),
			Hint: "Give each prompt an id of its own.",
		}
	}
	wait, stop := context.WithTimeout(ctx, DecisionWait)
	defer stop()
	return s.awaitOr(wait, known.ID, &s.queue.filled, s.decidedOn)
}

// decidedOn tells that the backend said yes or no, or that a run has to wait
// for others.
func (s *Studio) decidedOn(r *Run) bool {
	return r.Status.Terminal() || r.Accepted || r.Phase == PhaseHeld || s.queue.holdsBack(r.ID)
}

func (s *Studio) promptRun(ctx context.Context, req PromptRequest) (*Run, []Blob, error) {
	run, err := s.newRun(ctx, LaunchRequest{Session: req.Session, Limit: req.Limit}, s.catalog.Snapshot())
	if err != nil {
		return nil, nil, err
	}
	if req.Prompt != "" {
		run.Prompt = req.Prompt
	}
	run.ID, run.Callback = RunOfPrompt(run.Prompt), req.Callback
	if run.ID == "" {
		return nil, nil, &Error{
			Code: CodeBadRequest, Message: fmt.Sprintf("'%s' is no prompt id.", req.Prompt),
			Hint: "Send a UUID in lower case with hyphens, or none.",
		}
	}
	graph := req.Graph
	for _, name := range slices.Sorted(maps.Keys(req.Files)) {
		file := req.Files[name]
		run.Uploads = append(run.Uploads, file.ID)
		err := graph.UnmarshalJSON(renameInGraph(graph.Bytes(), name, file.StoredName()))
		if err != nil {
			return nil, nil, fmt.Errorf("name the files of a graph: %w", err)
		}
	}
	token := req.Token
	if token == "" {
		token = run.Prompt.Token()
	}
	graph = graph.StampPrefixes(req.Outputs, token).WithMeta()
	prompt := NewBlob(graph.Bytes())
	launched := NewBlob((&manifest.Contract{Outputs: req.Outputs}).JSON())
	run.Graph, run.ContractRef, run.PromptDigest = prompt.Digest, launched.Digest, string(prompt.Digest)
	run.Inputs = []byte("{}")
	run.Result = receiptResult(run)
	run.Slots = newSlots(run, req.Outputs)
	return run, []Blob{prompt, launched}, nil
}

// promptRunPrefix is before the prompt id in the id of a run of a ready-made
// graph.
const promptRunPrefix = "proxy_"

// RunOfPrompt is the id of the run of a ready-made graph; empty when prompt is
// no canonical UUID.
func RunOfPrompt(prompt PromptID) RunID {
	id, err := uuid.Parse(string(prompt))
	if err != nil || id.String() != string(prompt) {
		return ""
	}
	return RunID(promptRunPrefix + hex.EncodeToString(id[:]))
}

// PromptOfRun is the prompt id of which RunOfPrompt makes run; empty when
// there is none.
func PromptOfRun(run RunID) PromptID {
	digits, ok := strings.CutPrefix(string(run), promptRunPrefix)
	raw, err := hex.DecodeString(digits)
	if !ok || err != nil || len(raw) != len(uuid.UUID{}) {
		return ""
	}
	return PromptID(uuid.UUID(raw).String())
}

// Token is what the run of a prompt adds to the names of files that it saves,
// so that they are its own: ten hex digits.
func (p PromptID) Token() string {
	digits := strings.ReplaceAll(string(p), "-", "")
	return digits[:min(10, len(digits))]
}
