package sidecar

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
)

// The documents below are what the reference stores as raw_result and answers
// with; field names are its own.

type progressDoc struct {
	Status   string          `json:"status"`
	Run      RunID           `json:"run_id"`
	PromptID *PromptID       `json:"prompt_id"`
	Inputs   json.RawMessage `json:"inputs,omitempty"`
	Message  string          `json:"message,omitempty"`
	Issues   json.RawMessage `json:"issues,omitempty"`
	Outputs  json.RawMessage `json:"outputs,omitempty"`
	Remote   json.RawMessage `json:"remote_cancel,omitempty"`
}

func progress(r *Run, status string) progressDoc {
	doc := progressDoc{Status: status, Run: r.ID}
	if r.PromptID != "" {
		doc.PromptID = &r.PromptID
	}
	return doc
}

// receiptResult is the answer to a run that was accepted.
func receiptResult(r *Run) json.RawMessage {
	doc := progress(r, "submitted")
	doc.Issues = issuesOf(r)
	return mustJSON(doc)
}

func runningResult(r *Run) json.RawMessage {
	doc := progress(r, "running")
	doc.Issues = issuesOf(r)
	return mustJSON(doc)
}

func pendingSlotResult(r *Run) json.RawMessage {
	doc := progress(r, "pending")
	doc.Inputs = r.Inputs
	return mustJSON(doc)
}

func runningSlotResult(r *Run) json.RawMessage { return mustJSON(progress(r, "running")) }

func cancelledResult(r *Run, message string) json.RawMessage {
	doc := progress(r, "cancelled")
	doc.Message = message
	return mustJSON(doc)
}

func completedResult(r *Run, results []Result) json.RawMessage {
	doc := progress(r, "completed")
	doc.Issues = issuesOf(r)
	doc.Outputs = outputsOf(results)
	return mustJSON(doc)
}

// issuesOf are the warnings of binding, and those of ComfyUI once it accepted.
func issuesOf(r *Run) json.RawMessage {
	if len(r.Issues) == 0 {
		return json.RawMessage("[]")
	}
	return r.Issues
}

// outputsOf are the outputs of results; what another sidecar told stands in its
// order, and without what it did not speak of.
func outputsOf(results []Result) json.RawMessage {
	shown := make([]*Result, 0, len(results))
	for i := range results {
		if !results[i].Untold {
			shown = append(shown, &results[i])
		}
	}
	slices.SortStableFunc(shown, func(a, b *Result) int { return a.Place - b.Place })
	docs := make([]json.RawMessage, 0, len(shown))
	for _, res := range shown {
		docs = append(docs, res.document())
	}
	return mustJSON(docs)
}

type outputDoc struct {
	Name      string            `json:"name"`
	Type      string            `json:"type"`
	NodeID    string            `json:"node_id"`
	Selector  *string           `json:"selector"`
	Artifacts []json.RawMessage `json:"artifacts"`
}

func outputOf(res *Result) outputDoc {
	doc := outputDoc{
		Name: res.Name, Type: res.Type, NodeID: res.NodeID, Selector: res.Selector,
		Artifacts: make([]json.RawMessage, 0, len(res.Artifacts)),
	}
	for i := range res.Artifacts {
		doc.Artifacts = append(doc.Artifacts, mustJSON(res.artifact(i)))
	}
	return doc
}

type artifactDoc struct {
	Filename    *string         `json:"filename"`
	Subfolder   *string         `json:"subfolder"`
	Type        *string         `json:"type"`
	Raw         json.RawMessage `json:"raw"`
	URL         string          `json:"url,omitempty"`
	Width       int             `json:"width,omitempty"`
	Height      int             `json:"height,omitempty"`
	Ref         string          `json:"serve_artifact,omitempty"`
	ContentType string          `json:"content_type,omitempty"`
	Text        string          `json:"text,omitempty"`

	told json.RawMessage
}

func (res *Result) artifact(i int) artifactDoc {
	a, f := res.Artifacts[i], res.file(i)
	doc := artifactDoc{
		Filename: a.Filename, Subfolder: a.Subfolder, Type: a.Type, Raw: a.Raw, Text: a.Text,
		Width: f.Width, Height: f.Height, Ref: f.Ref, ContentType: f.ContentType, told: f.Told,
	}
	switch {
	case f.Ref != "":
		doc.URL = ArtifactURL(f.Ref)
	case f.Told == nil && a.Filename != nil && *a.Filename != "":
		doc.URL = ViewURL(*a.Filename, text(a.Subfolder), text(a.Type))
	}
	return doc
}

func (res *Result) file(i int) File {
	if i < len(res.Files) {
		return res.Files[i]
	}
	return File{}
}

// ViewURL is where an output of ComfyUI is served, without any prefix. An
// empty kind means "output".
func ViewURL(filename, subfolder, kind string) string {
	if kind == "" {
		kind = "output"
	}
	return "/outputs/view?filename=" + url.QueryEscape(filename) +
		"&subfolder=" + url.QueryEscape(subfolder) + "&type=" + url.QueryEscape(kind)
}

// ArtifactURL is where a copy of ours is served, without any prefix.
func ArtifactURL(ref string) string {
	u := url.URL{Path: ref}
	return "/outputs/view?serve_artifact=" + u.EscapedPath()
}

type failureDoc struct {
	Status   string          `json:"status,omitempty"`
	Error    string          `json:"error,omitempty"`
	Message  string          `json:"message"`
	Hint     string          `json:"hint,omitempty"`
	Run      RunID           `json:"run_id,omitempty"`
	PromptID json.RawMessage `json:"prompt_id,omitempty"`
	Code     int             `json:"comfy_status,omitempty"`
	ComfyURL string          `json:"comfy_url,omitempty"`
	ProxyURL string          `json:"proxy_url,omitempty"`
	Detail   json.RawMessage `json:"comfyui,omitempty"`
	Issues   json.RawMessage `json:"issues,omitempty"`
}

func failedResult(r *Run, f *Failure) json.RawMessage {
	if f.Told != nil {
		return toldResult(r, f.Told)
	}
	doc := failureDoc{
		Error: f.Code, Message: f.Message, Hint: f.Hint, Code: f.Status, Detail: f.Detail, Issues: f.Issues,
	}
	if f.Code == string(CodeInvalid) {
		doc.Error, doc.Status = "", string(CodeInvalid)
	}
	if f.Proxy {
		doc.ProxyURL = f.URL
	} else {
		doc.ComfyURL = f.URL
	}
	switch {
	case r.PromptID != "":
		doc.PromptID = mustJSON(r.PromptID)
	case f.Code == string(CodeRecovery):
		doc.PromptID = json.RawMessage("null")
	}
	if f.Code == string(CodeRecovery) {
		doc.Run = r.ID
	}
	return mustJSON(doc)
}

// issuesIn are the issues that a result of the reference holds; what is no
// object is left out, as the reference does.
func issuesIn(result json.RawMessage) json.RawMessage {
	var doc struct {
		Issues []json.RawMessage `json:"issues"`
	}
	if json.Unmarshal(result, &doc) != nil {
		return nil
	}
	kept := []json.RawMessage{}
	for _, issue := range doc.Issues {
		if bytes.HasPrefix(bytes.TrimSpace(issue), []byte("{")) {
			kept = append(kept, issue)
		}
	}
	return mustJSON(kept)
}

// withRemoteCancel notes in a cancelled result what the backend said to the
// cancel.
func withRemoteCancel(result json.RawMessage, f *Failure) json.RawMessage {
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(result, &doc); err != nil || doc == nil {
		doc = map[string]json.RawMessage{}
	}
	doc["remote_cancel"] = mustJSON(failureDoc{
		Error: f.Code, Message: f.Message, Code: f.Status, ComfyURL: f.URL, Detail: f.Detail,
	})
	return mustJSON(doc)
}

func lostFailure(r *Run) *Failure {
	return &Failure{
		Code:    string(CodeLost),
		Message: fmt.Sprintf("ComfyUI no longer knows this run (prompt %s). It was restarted, or the prompt was removed from its queue.", r.PromptID),
		Hint:    "Run it again.",
		Outcome: OutcomeLost,
	}
}

func timedOutFailure(r *Run) *Failure {
	message := fmt.Sprintf("Timed out waiting for ComfyUI prompt %s", r.PromptID)
	if r.PromptID == "" {
		message = fmt.Sprintf("Timed out waiting for %s; the run was not handed over.", r.WaitsFor())
	}
	return &Failure{Code: string(CodeTimeout), Message: message, Outcome: OutcomeTimedOut}
}

// mustJSON encodes documents of ours, whose raw parts were parsed before: a
// fault here is one of the program.
func mustJSON(v any) json.RawMessage {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(fmt.Errorf("encode %T: %w", v, err))
	}
	return bytes.TrimRight(out.Bytes(), "\n")
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func resultAt(results []Result, i int) *Result {
	if i < len(results) {
		return &results[i]
	}
	return nil
}
