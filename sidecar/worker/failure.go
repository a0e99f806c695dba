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
		Status: a.Status, URL: a.URL, Detail: detail,
	}
	switch {
	case a.Status == http.StatusUnauthorized || a.Status == http.StatusForbidden:
		f.Code = CodeUnauthorized
		f.Hint = "Give this server the worker's token with --proxy-token."
	case strings.HasPrefix(doc.Error, "comfyui_"):
		f.Code = doc.Error
	}
	if f.Message == "" {
		f.Message = doc.Error
	}
	if f.Message == "" {
		f.Message = fmt.Sprintf("The worker returned HTTP %d", a.Status)
	}
	return f
}

// detail is the body as JSON; a text is wrapped in an object.
func (a answer) detail() json.RawMessage {
	if isObject(a.Body) && json.Valid(a.Body) {
		return bytes.TrimSpace(a.Body)
	}
	if len(a.Body) == 0 {
		return json.RawMessage("{}")
	}
	text, err := protocol.Encode(map[string]string{"message": strings.ToValidUTF8(string(a.Body), string(utf8.RuneError))})
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
	return isObject(a.Body) && json.Unmarshal(a.Body, &doc) == nil && doc.Error != "" && doc.Error != string(sidecar.CodeInternal)
}

// object decodes an answer that must be a JSON object.
func (a answer) object(into any) error {
	if !a.OK() {
		return fmt.Errorf("%s: HTTP %d: %w", a.URL, a.Status, errNotWorker)
	}
	if !isObject(a.Body) {
		return fmt.Errorf("%s: %w", a.URL, errNotWorker)
	}
	if err := json.Unmarshal(a.Body, into); err != nil {
		return fmt.Errorf("%s: %w: %w", a.URL, errNotWorker, err)
	}
	return nil
}

// unusable is the error of an answer that says nothing.
func (c *client) unusable(a answer, err error) error {
	f := rejected(a)
	if a.OK() {
		f = c.unavailable(err)
		f.Status, f.Detail = a.Status, a.detail()
	}
	return &sidecar.UnsureError{Failure: f, Err: err}
}
