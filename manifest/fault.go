package manifest

import (
	"fmt"
	"strings"
)

// Fault says what is broken, where, and what to do about it. A fault with a
// workflow and contract concerns that contract only.
type Fault struct {
	File     string `json:"file"`           // relative to the manifest's folder
	Line     int    `json:"line,omitempty"` // from 1; 0 when unknown
	Key      string `json:"key,omitempty"`  // dotted key or graph member
	Workflow string `json:"workflow,omitempty"`
	Contract string `json:"contract,omitempty"`
	Message  string `json:"message"`
	Hint     string `json:"hint,omitempty"`
}

// Error is the message alone; Where tells the place.
func (f *Fault) Error() string { return f.Message }

// Where is the file, line and key as one text, for logs and diagnoses.
func (f *Fault) Where() string {
	place := f.File
	if f.Line > 0 {
		place += fmt.Sprintf(":%d", f.Line)
	}
	if f.Key != "" {
		place = strings.TrimPrefix(place+": "+f.Key, ": ")
	}
	return place
}

// UnknownError says that a workflow or contract is not declared.
type UnknownError struct {
	Workflow string
	Contract string // "" when already the workflow is unknown
	Tracked  bool   // the manifest knows the workflow, which has no contracts
}

// Error is the sentence that a reader of contracts gets.
func (e *UnknownError) Error() string {
	if e.Contract != "" {
		return fmt.Sprintf("Workflow '%s' does not declare contract '%s'.", e.Workflow, e.Contract)
	}
	return fmt.Sprintf("Workflow '%s' does not declare contracts.", e.Workflow)
}

// RunMessage is the sentence that a caller who wants to run it gets: the same
// fact, in the words that clients of POST …/run know.
func (e *UnknownError) RunMessage() string {
	switch {
	case e.Contract != "":
		return e.Error()
	case e.Tracked:
		return fmt.Sprintf("Workflow '%s' does not declare an execution contract.", e.Workflow)
	}
	return fmt.Sprintf("Workflow '%s' is not tracked in the manifest.", e.Workflow)
}
