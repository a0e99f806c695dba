package protocol

import (
	"encoding/json"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// undelivered says of a completed run whose caller did not take its end what
// the reference does, and keeps its outputs beside that: who looks still finds
// them, see Done.
func (r *Run) undelivered() error {
	var issues, others []json.RawMessage
	if r.Status != StatusCompleted || len(r.Warnings) == 0 {
		return nil
	}
	if err := json.Unmarshal(r.Warnings, &issues); err != nil {
		return err
	}
	for _, raw := range issues {
		var issue manifest.Issue
		if json.Unmarshal(raw, &issue) != nil || issue.Code != sidecar.IssueUndelivered {
			others = append(others, raw)
			continue
		}
		r.Status, r.Error, r.Message = StatusError, sidecar.IssueUndelivered, issue.Message
		r.Hint = "The outputs are there; only the callback was refused."
	}
	if r.Status == StatusCompleted {
		return nil
	}
	r.Warnings = nil
	if len(others) == 0 {
		return nil
	}
	left, err := Encode(others)
	r.Warnings = left
	return err
}

// Done reports whether the run completed, whether or not its caller took that.
func (r Run) Done() bool {
	return r.Status == StatusCompleted ||
		r.Status == StatusError && r.Error == sidecar.IssueUndelivered && r.Outputs != nil
}
