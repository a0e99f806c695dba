package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/protocol"
)

// Codes of what goes wrong between two sidecars.
const (
	CodeUnavailable  = "proxy_unavailable"
	CodeUnauthorized = "proxy_unauthorized"
	CodeRejected     = "proxy_rejected"
)

// errNotWorker marks answers that no worker gives.
var errNotWorker = errors.New("the answer is not a worker's")

// rejected is the failure of an answer other than yes. What the worker says of
// its ComfyUI keeps its code.
func rejected(a answer) sidecar.Failure {
	detail := a.detail()
	var doc protocol.Run
	if json.Unmarshal(detail, &doc) != nil {
		doc = protocol.Run{}
	}
	f := sidecar.Failure{
		Code: CodeRejected, Message: doc.Message, Hint: doc.Hint,
		Status: a.status, URL: a.url, Detail: detail,
	}
	switch {
	case a.status == http.StatusUnauthorized || a.status == http.StatusForbidden:
		f.Code = CodeUnauthorized
		f.Hint = "Give this server the worker's token with --proxy-token."
	case strings.HasPrefix(doc.Error, "comfyui_"):
		f.Code = doc.Error
	}
	if f.Message == "" {
		f.Message = doc.Error
	}
	if f.Message == "" {
		f.Message = fmt.Sprintf("The worker returned HTTP %d", a.status)
	}
	return f
}

// detail is the body as JSON; a text is wrapped in an object.
func (a answer) detail() json.RawMessage {
	if isObject(a.body) && json.Valid(a.body) {
		return bytes.TrimSpace(a.body)
	}
	if len(a.body) == 0 {
		return json.RawMessage("{}")
	}
	text, err := protocol.Encode(map[string]string{"message": strings.ToValidUTF8(string(a.body), string(utf8.RuneError))})
	if err != nil {
		return json.RawMessage("{}")
	}
	return text
}

func isObject(raw []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) }

// says tells that an answer is a worker's own no, not that of a proxy on the
// way, nor of a fault in the middle of its work.
func (a answer) says() bool {
	var doc protocol.Run
	return isObject(a.body) && json.Unmarshal(a.body, &doc) == nil && doc.Error != "" && doc.Error != string(sidecar.CodeInternal)
}

// object decodes an answer that must be a JSON object.
func (a answer) object(into any) error {
	if !a.ok() {
		return fmt.Errorf("%s: HTTP %d: %w", a.url, a.status, errNotWorker)
	}
	if !isObject(a.body) {
		return fmt.Errorf("%s: %w", a.url, errNotWorker)
	}
	if err := json.Unmarshal(a.body, into); err != nil {
		return fmt.Errorf("%s: %w: %w", a.url, errNotWorker, err)
	}
	return nil
}

// unusable is the error of an answer that says nothing.
func (c *client) unusable(a answer, err error) error {
	f := rejected(a)
	if a.ok() {
		f = c.unavailable(err)
		f.Status, f.Detail = a.status, a.detail()
	}
	return &sidecar.UnsureError{Failure: f, Err: err}
}
