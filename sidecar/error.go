package sidecar

import (
	"errors"
	"fmt"

	"github.com/comfygit-ai/studio-sidecar/manifest"
)

// Code names a kind of error to clients; routes maps it to a status.
type Code string

// The codes of errors. Those of failed runs are the reference's.
const (
	CodeBadRequest     Code = "bad_request"
	CodeNotFound       Code = "not_found"
	CodeNotCancellable Code = "run_not_cancellable"
	CodeRunCancelled   Code = "run_cancelled"
	CodeTimeout        Code = "timeout"
	CodeManifest       Code = "manifest_invalid"
	CodeStorage        Code = "storage_unavailable"
	CodeUnavailable    Code = "comfyui_unavailable"
	CodeRejected       Code = "comfyui_rejected_request"
	CodeExecution      Code = "comfyui_execution_failed"
	CodeCancelRejected Code = "comfyui_rejected_cancel"
	CodeLost           Code = "run_lost"
	CodeInvalid        Code = "invalid_request"
	CodeRecovery       Code = "recovery_failed"
	CodeInternal       Code = "internal_error"
)

// Error is a refusal to a client: a sentence for people, what to do about it,
// the run that it concerns, and the cause, which is for the log alone.
type Error struct {
	Code    Code
	Message string
	Hint    string
	Run     *Run
	Err     error
}

func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %v", e.Message, e.Err)
	}
	return e.Message
}

func (e *Error) Unwrap() error { return e.Err }

// hintLog is what is left to do about a fault of ours.
const hintLog = "The log tells more; look there for the request_id of this answer."

// badRequest is an *Error for what a client asked; a fault of a contract brings
// its advice along.
func badRequest(err error) *Error {
	return &Error{Code: CodeBadRequest, Message: err.Error(), Hint: adviceOf(err), Err: err}
}

func manifestError(err error) *Error {
	return &Error{Code: CodeManifest, Message: err.Error(), Hint: adviceOf(err), Err: err}
}

func adviceOf(err error) string {
	var fault *manifest.Fault
	if errors.As(err, &fault) {
		return fault.Hint
	}
	return ""
}
