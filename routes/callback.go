package routes

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/artifact"
	"github.com/comfygit-ai/studio-sidecar/sidecar/protocol"
)

// callbackTable is where a front door hears of runs that workers compute.
func callbackTable() []Route {
	return []Route{{
		Method: "POST", Path: "/worker-callback/runs/{run_id}", Name: "worker_callback",
		Summary: "Take a worker's word on a run, with the files that it made", open: true, handle: (*call).workerCallback,
	}}
}

func (c *call) workerCallback() error {
	id := sidecar.RunID(c.path("run_id"))
	if !c.opts.Callbacks {
		return unknownCoordinatorRun(nil)
	}
	if !c.opts.CallbackTokens.Open(c.r.Header.Get(protocol.Authorization), id) {
		return &fault{
			code: sidecar.CodeForbidden, message: "Worker callback token is invalid.",
			hint: "Bring the token that came with the run's callback.",
		}
	}
	run, err := c.studio.HandedOver(c.r.Context(), id)
	if err != nil {
		return unknownCoordinatorRun(err)
	}
	cb := &callback{call: c, run: run, copies: map[string]artifact.Copy{}}
	if err := cb.read(); err != nil {
		return errors.Join(err, cb.drop())
	}
	return cb.take()
}

func unknownCoordinatorRun(err error) error {
	var refusal *sidecar.Error
	if err != nil && (!errors.As(err, &refusal) || refusal.Code != sidecar.CodeNotFound) {
		return err
	}
	return &fault{
		code: sidecar.CodeNotFound, message: "Unknown coordinator run.",
		hint: "Only runs that were handed over with a callback are told of.", cause: err,
	}
}

// callback is a worker's word on a run, with the files that came along.
type callback struct {
	*call
	run    *sidecar.Run
	raw    json.RawMessage
	fields manifest.Values
	names  map[string]string        // of the artifacts whose files are wanted, by field
	copies map[string]artifact.Copy // by field
}

func (cb *callback) read() error {
	if !cb.isForm() {
		raw, err := cb.readBody()
		if err != nil {
			return err
		}
		return cb.decode(raw, "Invalid JSON body: ", "Request body must be a JSON object.")
	}
	if err := cb.readForm(cb.part); err != nil {
		return err
	}
	if cb.raw == nil {
		return withoutPayload()
	}
	return nil
}

func (cb *callback) decode(raw []byte, leadIn, notObject string) (err error) {
	cb.raw = raw
	cb.fields, err = parsePayload(raw, leadIn, notObject)
	return err
}

func (cb *callback) part(part *multipart.Part) error {
	field := part.FormName()
	switch {
	case field == "payload":
		return cb.payload(part)
	case field == "":
		return badRequest("Callback upload part is missing a field name.", "Name each part as its artifact's upload_field.")
	case cb.raw == nil:
		return withoutPayload()
	}
	src := &readFault{Reader: cb.boundPart(part, &fault{
		code: sidecar.CodeTooLarge, message: fmt.Sprintf("Callback upload '%s' is too large. Limit: %d bytes.", field, cb.opts.MaxRequestBytes),
		hint: "Raise this server's --max-request-mb.",
	})}
	name, wanted := cb.names[field]
	if _, twice := cb.copies[field]; twice || !wanted || cb.opts.Artifacts == nil {
		_, err := io.Copy(io.Discard, src)
		return err
	}
	if name == "" {
		name = cmp.Or(part.FileName(), field)
	}
	copied, err := cb.opts.Artifacts.Add(string(cb.promptID()), name, src)
	switch {
	case src.err != nil:
		return src.err
	case err != nil:
		return &sidecar.Error{Code: sidecar.CodeStorage, Message: "A file could not be stored.", Hint: "Make sure that there is room on the disk.", Err: err}
	}
	copied.ContentType = protocol.KindOf(copied.ContentType, part.Header.Get("Content-Type"))
	cb.copies[field] = copied
	return nil
}

// payload reads what the worker says, and whose files are wanted.
func (cb *callback) payload(part io.Reader) error {
	raw, err := cb.readField(part)
	if err != nil {
		return err
	}
	if err := cb.decode(raw, "Invalid callback payload JSON: ", "Callback payload must be a JSON object."); err != nil {
		return err
	}
	cb.names = map[string]string{}
	if list, _ := cb.fields.Get("outputs"); len(list) == 0 || list[0] != '[' {
		return nil
	}
	results, err := cb.results()
	if err != nil {
		return err
	}
	for _, res := range results {
		for k, file := range res.Files {
			field := protocol.FieldOf(file, res.Place, k)
			if _, twice := cb.names[field]; twice {
				continue
			}
			cb.names[field] = ""
			if name := res.Artifacts[k].Filename; name != nil {
				cb.names[field] = *name
			}
		}
	}
	return nil
}

// readFault remembers that reading failed, and not writing.
type readFault struct {
	io.Reader
	err error
}

// Read notes an error other than the end.
func (r *readFault) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

func (cb *callback) results() ([]sidecar.Result, error) {
	outputs, err := cb.studio.Outputs(cb.r.Context(), cb.run)
	if err != nil {
		return nil, err
	}
	return protocol.ResultsOf(outputs, cb.raw)
}

func (cb *callback) promptID() sidecar.PromptID {
	if id := looseText(cb.fields, "prompt_id"); id != "" && !cb.run.Accepted {
		return sidecar.PromptID(id)
	}
	if cb.run.PromptID != "" {
		return cb.run.PromptID
	}
	return cb.run.Prompt
}

// take moves the run by what the worker says and answers with it.
func (cb *callback) take() error {
	signals, err := cb.signals()
	if err != nil {
		return errors.Join(err, cb.drop())
	}
	run, moved, err := cb.studio.Report(cb.r.Context(), cb.run.ID, signals...)
	if err != nil || !moved {
		err = errors.Join(err, cb.drop())
	}
	if err != nil {
		return err
	}
	cb.answer(run, moved)
	return nil
}

// drop removes the copies of a word that changed nothing.
func (cb *callback) drop() error {
	var refs []string
	for _, copied := range cb.copies {
		refs = append(refs, copied.Ref)
	}
	if cb.opts.Artifacts == nil {
		return nil
	}
	return cb.opts.Artifacts.RemoveAll(refs...)
}

func (cb *callback) status() string { return strings.ToLower(looseText(cb.fields, "status")) }

// word is the status as it is told back: that of a failure as it was spelled,
// like the reference.
func (cb *callback) word() string {
	switch status := cb.status(); status {
	case protocol.StatusRunning, protocol.StatusCompleted:
		return status
	}
	return looseText(cb.fields, "status")
}

func (cb *callback) signals() ([]sidecar.Signal, error) {
	if given, ok := cb.fields.Get("run_id"); ok && string(given) != "null" && strictText(cb.fields, "run_id") != string(cb.run.ID) {
		return nil, badRequest("Callback run_id does not match route run_id.", "Send the run_id that came with the run's callback.")
	}
	signals := []sidecar.Signal{{Kind: sidecar.SignalAccepted, PromptID: cb.promptID()}}
	switch cb.status() {
	case protocol.StatusRunning:
		return signals, nil
	case protocol.StatusCompleted:
		end, err := cb.completed()
		return append(signals, end), err
	case protocol.StatusError, protocol.StatusFailed, protocol.StatusTimeout:
		return append(signals, sidecar.Signal{Kind: sidecar.SignalFailed, Failure: cb.failure()}), nil
	case protocol.StatusCancelled:
		return append(signals, sidecar.Signal{Kind: sidecar.SignalInterrupted, Failure: cb.interruption()}), nil
	}
	return nil, badRequest("Callback status must be running, completed, error, failed, timeout, or cancelled.", "Send one of these as 'status'.")
}

func (cb *callback) completed() (sidecar.Signal, error) {
	if list, _ := cb.fields.Get("outputs"); len(list) == 0 || list[0] != '[' {
		return sidecar.Signal{}, badRequest("Completed callback payload must include outputs.", "Send a list, which may be empty.")
	}
	results, err := cb.results()
	if err != nil {
		return sidecar.Signal{}, err
	}
	for i := range results {
		for k := range results[i].Files {
			file := &results[i].Files[k]
			if copied, ok := cb.copies[protocol.FieldOf(*file, results[i].Place, k)]; ok {
				file.Ref, file.ContentType = copied.Ref, copied.ContentType
			}
		}
	}
	issues, _ := cb.fields.Get("issues")
	if warnings, ok := cb.fields.Get("warnings"); ok {
		issues = warnings
	}
	return sidecar.Signal{
		Kind: sidecar.SignalFinished, Results: results, Issues: issues,
		AllCached: looseText(cb.fields, "outcome") == string(sidecar.OutcomeCached),
	}, nil
}

func (cb *callback) failure() *sidecar.Failure {
	var doc protocol.Run
	if json.Unmarshal(cb.raw, &doc) != nil {
		doc = protocol.Run{Error: looseText(cb.fields, "error"), Message: looseText(cb.fields, "message")}
	}
	doc.Status = cb.status()
	if doc.Message == "" && doc.Error == "" {
		doc.Message = "Generation failed"
	}
	f := protocol.FailureOf(doc)
	f.Told = protocol.ReportOf(cb.raw)
	return f
}

// interruption is why a worker says that a run was cancelled; nil when it does
// not.
func (cb *callback) interruption() *sidecar.Failure {
	message := looseText(cb.fields, "message")
	if message == "" {
		return nil
	}
	return &sidecar.Failure{Message: message, Told: protocol.ReportOf(cb.raw)}
}

func (cb *callback) answer(run *sidecar.Run, moved bool) {
	s, t := cb.shape(), text{}
	t.open('{')
	if moved || !run.Status.Terminal() {
		t.str("status", cb.word())
	} else {
		t.str("status", string(run.Status))
		t.bool("duplicate", true)
	}
	t.str("run_id", string(run.ID))
	s.run(&t, "run", run)
	s.slots(&t, run)
	s.items(&t, run)
	t.close('}')
	cb.json(http.StatusOK, t.b)
}

// elementsOf are the elements of a JSON array; none of anything else.
func elementsOf(raw json.RawMessage) []json.RawMessage {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	return list
}

// withoutPayload refuses a form that has no payload, or files before it: which
// of them are wanted is told by the payload.
func withoutPayload() error {
	return badRequest("Worker callback request is missing a payload field.", "Send the part 'payload' first.")
}
