package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/backend"
	"github.com/comfygit-ai/studio-sidecar/sidecar/protocol"
)

// submitWithin is how long a submission may take after its last byte: a worker
// waits up to 10 s for its ComfyUI's yes or no.
const submitWithin = 30 * time.Second

// Stage keeps a file for the submission that takes it along.
func (e *Executor) Stage(_ context.Context, job sidecar.Job, file sidecar.InputFile) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, known := range e.staged[job.Prompt] {
		if known.Name == file.Name {
			e.staged[job.Prompt][i] = file
			return file.Name, nil
		}
	}
	e.staged[job.Prompt] = append(e.staged[job.Prompt], file)
	return file.Name, nil
}

func (e *Executor) takeStaged(prompt sidecar.PromptID) []sidecar.InputFile {
	e.mu.Lock()
	defer e.mu.Unlock()
	files := e.staged[prompt]
	delete(e.staged, prompt)
	return files
}

// Submit hands a job over once, with the files that were staged for it.
func (e *Executor) Submit(ctx context.Context, job sidecar.Job) (sidecar.Acceptance, error) {
	files := e.takeStaged(job.Prompt)
	if job.Prompt == "" || !isObject(job.Graph) {
		return sidecar.Acceptance{}, fmt.Errorf("submit %s: the job has no prompt id or no graph", job.Run)
	}
	if e.opts.RequireMatch {
		if err := e.match(ctx, job); err != nil {
			return sidecar.Acceptance{}, err
		}
	}
	body, err := e.submission(job, files)
	if err != nil {
		return sidecar.Acceptance{}, err
	}
	defer body.Close()
	a, err := e.post(ctx, job, body)
	if err != nil {
		return sidecar.Acceptance{}, e.http.unheard(fmt.Errorf("submit %s: %w", job.Run, err))
	}
	return e.accepted(job, a)
}

// body is a submission on its way.
type body struct {
	io.ReadCloser
	kind string
	size int64
}

func (e *Executor) submission(job sidecar.Job, files []sidecar.InputFile) (*body, error) {
	s := protocol.Submission{
		Prompt: job.Graph, Outputs: job.Outputs, Wait: job.Manner.Waited,
		Timeout: protocol.Seconds(limitOf(job)), Poll: protocol.Seconds(job.Manner.Poll),
		Token: job.Prompt.Token(), Uploads: []protocol.Upload{},
	}
	if s.Poll == 0 {
		s.Poll = protocol.Seconds(time.Second)
	}
	if s.Outputs == nil {
		s.Outputs = []manifest.Output{}
	}
	if url := e.callbackURL(job); url != "" {
		s.Callback = &sidecar.Callback{Run: string(job.Run), URL: url, Token: e.opts.Tokens.Of(job.Run)}
	}
	var parts []protocol.File
	for i, file := range files {
		field := fmt.Sprintf("file_%d", i)
		s.Uploads = append(s.Uploads, protocol.Upload{
			Field: field, Input: file.Input, Filename: givenName(file.Name), Comfy: file.Name, Type: file.Type, Size: file.Size,
		})
		parts = append(parts, protocol.File{Field: field, Name: file.Name, Type: file.Type, Size: file.Size, Open: file.Open})
	}
	payload, err := s.Body()
	if err != nil {
		return nil, err
	}
	if len(parts) == 0 {
		return &body{io.NopCloser(bytes.NewReader(payload)), "application/json", int64(len(payload))}, nil
	}
	form, err := protocol.NewForm(payload, parts)
	if err != nil {
		return nil, err
	}
	return &body{form, form.ContentType, form.Size}, nil
}

// callbackURL is where a worker tells of a job; empty when it is not asked to.
// For a caller that waits the worker is asked, as by the reference: that is as
// soon, and needs nobody who listens.
func (e *Executor) callbackURL(job sidecar.Job) string {
	if job.Manner.Waited {
		return ""
	}
	return protocol.CallbackURL(e.opts.CallbackURL, job.Run)
}

// limitOf is how long a worker may give the job. Its clock starts later than
// ours, so that the end comes from here while we live.
func limitOf(job sidecar.Job) time.Duration {
	if job.Limit <= 0 {
		return sidecar.DefaultRunLimit
	}
	return job.Limit
}

// givenName is a stored name without the id before it.
func givenName(stored string) string {
	if rest, ok := strings.CutPrefix(stored, "upload_"); ok {
		if _, name, ok := strings.Cut(rest, "_"); ok && name != "" {
			return name
		}
	}
	return stored
}

// post sends a submission. It may take as long as it likes while bytes move.
func (e *Executor) post(ctx context.Context, job sidecar.Job, b *body) (answer, error) {
	ctx, idle, stop := backend.Watched(ctx, max(e.opts.IdleTimeout, submitWithin))
	defer stop()
	// A form is not read twice: without GetBody nothing is sent again.
	req, err := e.http.request(ctx, http.MethodPost, "/proxy/runs", &backend.Paced{Reader: b, Idle: idle})
	if err != nil {
		return answer{}, &backend.CallError{Err: err}
	}
	req.ContentLength = b.size
	req.Header.Set("Content-Type", b.kind)
	req.Header.Set(protocol.PromptHeader, string(job.Prompt))
	idle.Start()
	return e.http.send(e.http.files, req)
}

// accepted reads a worker's answer to a submission.
func (e *Executor) accepted(job sidecar.Job, a answer) (sidecar.Acceptance, error) {
	if !a.OK() {
		return sidecar.Acceptance{}, refusedRun(job, a)
	}
	var yes protocol.Run
	err := a.object(&yes)
	if err == nil && yes.PromptID == "" {
		err = errors.New("no prompt_id")
	}
	if err != nil {
		f := sidecar.Failure{
			Code: string(sidecar.CodeInternal), Message: "Proxy runtime did not return a prompt_id: " + string(a.detail()),
			Hint: "Check that --proxy-url leads to a worker.", Proxy: true,
		}
		return sidecar.Acceptance{}, &sidecar.UnsureError{Failure: f, Err: fmt.Errorf("submit %s: %w", job.Run, err)}
	}
	e.heard(yes.EnvironmentRef)
	e.await(job, yes.PromptID, sidecar.Sighting{Place: sidecar.PlaceQueued}, e.opts.Patience)
	return sidecar.Acceptance{PromptID: yes.PromptID, Issues: joinLists(yes.Warnings, e.mismatch(job))}, nil
}

// refusedRun tells a no from a perhaps: a 5xx that the worker did not give on
// purpose may come after it took the run.
func refusedRun(job sidecar.Job, a answer) error {
	f := rejected(a)
	if a.Status >= 500 && !a.says() || a.Status == http.StatusRequestTimeout {
		return &sidecar.UnsureError{Failure: f, Err: fmt.Errorf("submit %s: HTTP %d", job.Run, a.Status)}
	}
	f.Outcome = sidecar.OutcomeRejected
	return &sidecar.RefusedError{Failure: f}
}

// mismatch remarks that the worker's environment is another one; nothing when
// it is not known to be.
func (e *Executor) mismatch(job sidecar.Job) json.RawMessage {
	if !protocol.Differ(job.EnvironmentRef, e.environment()) {
		return nil
	}
	issue, err := protocol.Encode([]manifest.Issue{{
		Code: "environment_mismatch", Severity: manifest.SeverityWarning,
		Message: "The worker's environment offers other contracts than this one's; the result may differ.",
	}})
	if err != nil {
		return nil // texts can always be encoded
	}
	return issue
}

// match asks the worker for its environment and refuses another one.
func (e *Executor) match(ctx context.Context, job sidecar.Job) error {
	if _, err := e.Health(ctx); err != nil {
		var away *sidecar.UnreachableError
		if errors.As(err, &away) {
			return err
		}
	}
	if !protocol.Differ(job.EnvironmentRef, e.environment()) {
		return nil
	}
	return &sidecar.RefusedError{Failure: sidecar.Failure{
		Code: CodeRejected, Message: "The worker's environment offers other contracts than this one's.",
		Hint:    "Bring both to the same state, or start without --require-digest-match.",
		Outcome: sidecar.OutcomeRejected, URL: e.opts.URL, Proxy: true,
	}}
}

// joinLists joins two JSON arrays; what is none counts as empty.
func joinLists(a, b json.RawMessage) json.RawMessage {
	var all, more []json.RawMessage
	if json.Unmarshal(a, &all) != nil {
		all = nil
	}
	if json.Unmarshal(b, &more) == nil {
		all = append(all, more...)
	}
	if len(all) == 0 {
		return nil
	}
	joined, err := protocol.Encode(all)
	if err != nil {
		return nil // parts of valid JSON
	}
	return joined
}
