package protocol

import (
	"encoding/json"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// undelivered says of a completed run whose caller did not take its end what
// the reference does, and keeps its outputs beside that: who looks still finds
// them, see Done.
func (told *Run) undelivered() error {
	var issues, others []json.RawMessage
	if told.Status != StatusCompleted || len(told.Warnings) == 0 {
		return nil
	}
	if err := json.Unmarshal(told.Warnings, &issues); err != nil {
		return err
	}
	for _, raw := range issues {
		var issue manifest.Issue
		if json.Unmarshal(raw, &issue) != nil || issue.Code != sidecar.IssueUndelivered {
			others = append(others, raw)
			continue
		}
		told.Status, told.Error, told.Message = StatusError, sidecar.IssueUndelivered, issue.Message
		told.Hint = "The outputs are there; only the callback was refused."
	}
	if told.Status == StatusCompleted {
		return nil
	}
	told.Warnings = nil
	if len(others) == 0 {
		return nil
	}
	left, err := Encode(others)
	told.Warnings = left
	return err
}

// Done reports whether the run completed, whether or not its caller took that.
func (r Run) Done() bool {
	return r.Status == StatusCompleted ||
		r.Status == StatusError && r.Error == sidecar.IssueUndelivered && r.Outputs != nil
}
