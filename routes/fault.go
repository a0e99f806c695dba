package routes

import (
	"context"
	"errors"
	"net/http"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// Codes of errors that only HTTP knows.
const (
	codeMethod        sidecar.Code = "method_not_allowed"
	codeUnauthorized  sidecar.Code = "unauthorized"
	codeCrossSite     sidecar.Code = "cross_site_request"
	codeHost          sidecar.Code = "unknown_host"
	codeOutput        sidecar.Code = "output_not_found"
	codeRange         sidecar.Code = "range_not_satisfiable"
	codeTries         sidecar.Code = "too_many_tries"
	codeBusy          sidecar.Code = "environment_busy"
	codeProxyDown     sidecar.Code = "proxy_unavailable"
	codeProxyRejected sidecar.Code = "proxy_rejected"
	codeProxyDenied   sidecar.Code = "proxy_unauthorized"
)

// statuses is the one table from codes to HTTP statuses. A code that is missing
// is a 500.
var statuses = map[sidecar.Code]int{
	sidecar.CodeBadRequest:     http.StatusBadRequest,
	sidecar.CodeInvalid:        http.StatusBadRequest,
	sidecar.CodeNotFound:       http.StatusNotFound,
	sidecar.CodeNotCancellable: http.StatusConflict,
	sidecar.CodeRunCancelled:   http.StatusConflict,
	sidecar.CodeUnfinished:     http.StatusConflict,
	sidecar.CodeTimeout:        http.StatusGatewayTimeout,
	sidecar.CodeManifest:       http.StatusServiceUnavailable,
	sidecar.CodeStorage:        http.StatusServiceUnavailable,
	sidecar.CodeUnavailable:    http.StatusBadGateway,
	sidecar.CodeRejected:       http.StatusBadGateway,
	sidecar.CodeExecution:      http.StatusInternalServerError,
	sidecar.CodeCancelRejected: http.StatusBadGateway,
	sidecar.CodeLost:           http.StatusBadGateway,
	sidecar.CodeInternal:       http.StatusInternalServerError,
	sidecar.CodeTooLarge:       http.StatusRequestEntityTooLarge,
	codeMethod:                 http.StatusMethodNotAllowed,
	sidecar.CodeForbidden:      http.StatusForbidden,
	codeUnauthorized:           http.StatusUnauthorized,
	codeCrossSite:              http.StatusForbidden,
	codeHost:                   http.StatusMisdirectedRequest,
	codeOutput:                 http.StatusNotFound,
	codeRange:                  http.StatusRequestedRangeNotSatisfiable,
	sidecar.CodeCondition:      http.StatusPreconditionFailed,
	codeKeyReused:              http.StatusConflict,
	codeCarriedOut:             http.StatusConflict,
	codeTries:                  http.StatusTooManyRequests,
	codeBusy:                   http.StatusServiceUnavailable,
	codeProxyDown:              http.StatusBadGateway,
	codeProxyRejected:          http.StatusBadGateway,
	codeProxyDenied:            http.StatusBadGateway,
	sidecar.CodePromptTaken:    http.StatusConflict,
	sidecar.CodeQueueFull:      http.StatusTooManyRequests,
	sidecar.CodeRunRejected:    http.StatusConflict,
	sidecar.CodeNotWaiting:     http.StatusConflict,
	sidecar.CodeRevisionGone:   http.StatusGone,
}

func statusOf(code sidecar.Code) int {
	if status, ok := statuses[code]; ok {
		return status
	}
	return http.StatusInternalServerError
}

// fault is a refusal as it is answered.
type fault struct {
	code    sidecar.Code
	message string
	hint    string
	more    func(*text) // further members, after error, message and hint
	cause   error       // for the log alone
}

// Error is the text for the log: the client is told the message alone.
func (f *fault) Error() string {
	if f.cause != nil {
		return f.message + ": " + f.cause.Error()
	}
	return f.message
}

// Unwrap gives the cause.
func (f *fault) Unwrap() error { return f.cause }

func badRequest(message, hint string) *fault {
	return &fault{code: sidecar.CodeBadRequest, message: message, hint: hint}
}

// faultOf turns any error into what the client is told about it.
func (c *call) faultOf(err error) *fault {
	var own *fault
	var refusal *sidecar.Error
	var gone *sidecar.UnreachableError
	switch {
	case errors.As(err, &own):
		return own
	case errors.Is(err, sidecar.ErrCommandTaken):
		return &fault{
			code: codeCarriedOut, message: "This was done before under its Idempotency-Key, and what was answered is lost.",
			hint: "Look at how things are now; send a new key to do it again.", cause: err,
		}
	case errors.As(err, &refusal):
		return c.refusal(refusal)
	case errors.As(err, &gone):
		return c.unreachable(gone)
	case errors.Is(err, sidecar.ErrNotFound):
		return &fault{code: sidecar.CodeNotFound, message: "There is nothing under this name.", hint: "It was removed, or never was; list what there is, and ask again.", cause: err}
	case errors.Is(err, context.Canceled): // nobody reads it when it was the client who left
		return &fault{code: sidecar.CodeTimeout, message: "The server stops.", hint: "Ask again when it is back, with the same Idempotency-Key if there was one.", cause: err}
	case errors.Is(err, context.DeadlineExceeded):
		return &fault{code: sidecar.CodeTimeout, message: "This took too long.", hint: "Try again.", cause: err}
	}
	return internal(err)
}

func internal(err error) *fault {
	return &fault{
		code: sidecar.CodeInternal, message: "Something went wrong here.",
		hint: "The log tells more; look there for the request_id of this answer.", cause: err,
	}
}

func (c *call) refusal(e *sidecar.Error) *fault {
	f := &fault{code: e.Code, message: e.Message, hint: e.Hint, cause: e.Err}
	if e.Code == sidecar.CodeQueueFull {
		c.w.Header().Set("Retry-After", queuePause)
	}
	if e.Run != nil {
		f.more = func(t *text) { c.shape().run(t, "run", e.Run) }
	}
	return f
}

func (c *call) unreachable(e *sidecar.UnreachableError) *fault {
	f := &fault{code: sidecar.Code(e.Failure.Code), message: e.Failure.Message, hint: e.Failure.Hint, cause: e.Err}
	if f.code == "" {
		f.code = sidecar.CodeUnavailable
	}
	f.more = func(t *text) {
		if c.direct && e.Failure.URL != "" {
			name := "comfy_url"
			if e.Failure.Proxy {
				name = "proxy_url"
			}
			t.str(name, e.Failure.URL)
		}
	}
	return f
}

// settled refuses while another program changes the environment, for what it
// would answer may be half of the change.
func (c *call) settled() error {
	err := c.studio.Catalog().Environment().Busy()
	var busy *manifest.BusyError
	if !errors.As(err, &busy) {
		return err
	}
	c.w.Header().Set("Retry-After", "1")
	return &fault{
		code: codeBusy, message: busy.Error(), hint: "Ask again in a second.",
		more: func(t *text) {
			t.bool("retryable", true)
			t.optRaw("owner", busy.Owner)
			t.str("request_id", c.id)
		},
	}
}

// manifestFault tells of a manifest or contract that cannot be used, and where
// it is broken; nil when that is not what err says.
func manifestFault(err error) *fault {
	var broken *manifest.Fault
	if !errors.As(err, &broken) {
		return nil
	}
	return &fault{
		code: sidecar.CodeManifest, message: broken.Message, hint: broken.Hint, cause: err,
		more: func(t *text) {
			t.key("manifest")
			manifestPlace(t, broken)
		},
	}
}
