package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// The statuses of a run at a worker. A reference worker also says "failed".
const (
	StatusSubmitted = "submitted"
	StatusRunning   = "running"
	StatusCompleted = "completed"
	StatusError     = "error"
	StatusFailed    = "failed"
	StatusTimeout   = "timeout"
	StatusCancelled = "cancelled"
)

// Submission hands a graph over. Prompt is not part of its JSON: Body puts it
// in byte for byte.
type Submission struct {
	Prompt   json.RawMessage   `json:"-"`
	Outputs  []manifest.Output `json:"outputs"`
	Wait     bool              `json:"wait"` // read by no worker
	Timeout  Seconds           `json:"timeout_seconds"`
	Poll     Seconds           `json:"poll_interval_seconds"`
	Token    string            `json:"cache_token"`
	Uploads  []Upload          `json:"uploads"`
	Callback *sidecar.Callback `json:"callback,omitempty"`
}

// Seconds is a time, in JSON always with a fraction.
type Seconds time.Duration

// MarshalJSON writes 5 s as 5.0.
func (s Seconds) MarshalJSON() ([]byte, error) {
	text := strconv.FormatFloat(time.Duration(s).Seconds(), 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return []byte(text), nil
}

// Upload announces a file that follows as the part Field of the form.
type Upload struct {
	Field    string `json:"field_name"`
	Input    string `json:"input_name"`
	Filename string `json:"filename"`
	Comfy    string `json:"comfyui_filename"` // what the graph calls it
	Type     string `json:"content_type"`
	Size     int64  `json:"size"`
}

// Body is the submission as it is sent. A graph may hold NaN, which JSON
// forbids and ComfyUI reads.
func (s Submission) Body() ([]byte, error) {
	rest, err := Encode(s)
	if err != nil {
		return nil, err
	}
	out := append(make([]byte, 0, len(s.Prompt)+len(rest)+16), `{"prompt":`...)
	out = append(out, s.Prompt...)
	out = append(out, ',')
	return append(out, rest[1:]...), nil
}

// Run is a worker's word on a run: the answer to a submission, to a question,
// to a cancel, and the payload of a callback.
type Run struct {
	Status   string           `json:"status,omitempty"`
	PromptID sidecar.PromptID `json:"prompt_id,omitempty"`
	RunID    string           `json:"run_id,omitempty"` // in callbacks: the front door's id
	Outputs  []Output         `json:"outputs,omitzero"`

	// Of a run that failed.
	Error       string          `json:"error,omitempty"`
	Message     string          `json:"message,omitempty"`
	Hint        string          `json:"hint,omitempty"`
	ComfyStatus int             `json:"comfy_status,omitempty"`
	ComfyURL    string          `json:"comfy_url,omitempty"`
	Comfy       json.RawMessage `json:"comfyui,omitempty"`

	// Ours.
	Phase          sidecar.Phase   `json:"phase,omitempty"`
	Outcome        sidecar.Outcome `json:"outcome,omitempty"`
	QueuePosition  *int            `json:"queue_position,omitempty"`
	Warnings       json.RawMessage `json:"warnings,omitempty"`
	EnvironmentRef json.RawMessage `json:"environment_ref,omitempty"`
}

// Output is what a run gave for a declared output.
type Output struct {
	Name      string     `json:"name"`
	Type      string     `json:"type"`
	NodeID    string     `json:"node_id"`
	Selector  *string    `json:"selector"`
	Artifacts []Artifact `json:"artifacts"`
}

// Artifact is a file or a text of an output.
type Artifact struct {
	Filename  *string         `json:"filename"`
	Subfolder *string         `json:"subfolder"`
	Type      *string         `json:"type"`
	Raw       json.RawMessage `json:"raw,omitempty"`
	Width     int             `json:"width,omitempty"`
	Height    int             `json:"height,omitempty"`
	Text      string          `json:"text,omitempty"`
	// ID and URL are where the worker has it, Kind is what it is.
	ID   string `json:"proxy_artifact_id,omitempty"`
	URL  string `json:"url,omitempty"`
	Kind string `json:"kind,omitempty"`
	// Field is the part of a callback that holds it, of that ContentType.
	Field       string `json:"upload_field,omitempty"`
	ContentType string `json:"content_type,omitempty"`
	// Ref is the worker's own copy, which nobody is told of.
	Ref string `json:"-"`
}

// Describe is a worker's word on a run of a ready-made graph.
func Describe(run *sidecar.Run) (Run, error) {
	doc := Run{}
	if run.Status != sidecar.StatusCancelled {
		if err := json.Unmarshal(run.Result, &doc); err != nil {
			return doc, fmt.Errorf("read the result of run %s: %w", run.ID, err)
		}
	}
	if run.Status == sidecar.StatusCompleted {
		outputs, err := OutputsOf(run)
		if err != nil {
			return doc, err
		}
		doc.Outputs = outputs
	}
	doc.Status, doc.PromptID, doc.RunID = string(run.Status), run.Prompt, ""
	doc.Phase, doc.Outcome = run.Phase, run.Outcome
	if len(run.Issues) > len("[]") {
		doc.Warnings = run.Issues
	}
	if err := doc.undelivered(); err != nil {
		return doc, fmt.Errorf("read the issues of run %s: %w", run.ID, err)
	}
	return doc, nil
}

// OutputsOf are the outputs of a completed run, each artifact with its id.
func OutputsOf(run *sidecar.Run) ([]Output, error) {
	var doc struct {
		Outputs []struct {
			Output
			Artifacts []struct {
				Artifact
				Ref string `json:"serve_artifact"`
			} `json:"artifacts"`
		} `json:"outputs"`
	}
	if err := json.Unmarshal(run.Result, &doc); err != nil {
		return nil, fmt.Errorf("read the outputs of run %s: %w", run.ID, err)
	}
	outputs, files := make([]Output, 0, len(doc.Outputs)), 0
	for _, stored := range doc.Outputs {
		out := stored.Output
		out.Artifacts = make([]Artifact, 0, len(stored.Artifacts))
		for _, artifact := range stored.Artifacts {
			a := artifact.Artifact
			a.Ref = artifact.Ref
			a.URL = ""
			if a.Filename != nil && *a.Filename != "" {
				a.ID = artifactID(run.Prompt, files)
				files++
				a.URL = "/proxy/artifacts/" + a.ID
				a.Kind = manifest.Kind(out.Type, *a.Filename)
			}
			out.Artifacts = append(out.Artifacts, a)
		}
		outputs = append(outputs, out)
	}
	return outputs, nil
}

// Encode writes JSON without the escapes that only HTML needs.
func Encode(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return bytes.TrimRight(out.Bytes(), "\n"), nil
}

// FailureOf reads why a run failed, in the worker's words.
func FailureOf(doc Run) *sidecar.Failure {
	f := &sidecar.Failure{
		Code: doc.Error, Message: doc.Message, Hint: doc.Hint, Status: doc.ComfyStatus,
		Detail: doc.Comfy, Outcome: doc.Outcome, Proxy: true,
	}
	switch {
	case f.Code != "":
	case strings.EqualFold(doc.Status, StatusTimeout):
		f.Code = string(sidecar.CodeTimeout)
	default:
		f.Code = string(sidecar.CodeExecution)
	}
	if f.Message == "" {
		f.Message = doc.Error
	}
	if f.Message == "" {
		f.Message = "Proxy execution failed"
	}
	if f.Outcome == "" && f.Code == string(sidecar.CodeTimeout) {
		f.Outcome = sidecar.OutcomeTimedOut
	}
	return f
}

// reported are the members of a report that its run keeps as its result.
var reported = []string{"status", "error", "message", "hint", "comfyui", "comfy_status", "issues"}

// ReportOf is what a run keeps of a callback that tells of its end: nil when
// the callback is no object.
func ReportOf(payload json.RawMessage) json.RawMessage {
	members, kept := membersOf(payload), map[string]json.RawMessage{}
	for _, name := range reported {
		if value, ok := members[name]; ok {
			kept[name] = value
		}
	}
	doc, err := Encode(kept)
	if err != nil || members == nil {
		return nil
	}
	return doc
}

// FailureOfRun is FailureOf for a run that was asked for. As by the reference,
// the detail also holds the prompt's id and the message.
func FailureOfRun(doc Run, prompt sidecar.PromptID) *sidecar.Failure {
	f := FailureOf(doc)
	members := membersOf(doc.Comfy)
	if members == nil {
		members = map[string]json.RawMessage{}
	}
	for name, value := range map[string]string{"message": f.Message, "prompt_id": string(prompt)} {
		if _, there := members[name]; there {
			continue
		}
		if text, err := Encode(value); err == nil {
			members[name] = text
		}
	}
	if detail, err := Encode(members); err == nil {
		f.Detail = detail
	}
	return f
}

// QueryOf names an artifact's file at the worker's own backend.
func QueryOf(a Artifact, method string, header map[string][]string) sidecar.FileQuery {
	q := sidecar.FileQuery{Filename: *a.Filename, Type: "output", Method: method, Header: header}
	if a.Subfolder != nil {
		q.Subfolder = *a.Subfolder
	}
	if a.Type != nil && *a.Type != "" {
		q.Type = *a.Type
	}
	return q
}
