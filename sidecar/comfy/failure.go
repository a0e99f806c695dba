package comfy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/backend"
)

// unavailable tells people why ComfyUI gave no answer. The address stays out
// of the sentence: not everybody who reads it may know it.
func (c *client) unavailable(err error) sidecar.Failure {
	message, hint := "The connection to ComfyUI broke.", "Try again; see ComfyUI's log if it stays so."
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), !backend.Reached(err) && errors.Is(err, net.ErrClosed):
		message, hint = "ComfyUI does not answer: nothing listens at its address.", "Start ComfyUI, or check its address."
	case errors.As(err, &dns):
		message, hint = "ComfyUI's host is not known.", "Check ComfyUI's address."
	case errors.Is(err, context.Canceled):
		message, hint = "The call to ComfyUI was given up.", ""
	case errors.As(err, &timeout) && timeout.Timeout():
		message, hint = "ComfyUI did not answer in time.", "It may be busy, or hang; see its log."
	case errors.Is(err, backend.ErrTooLarge):
		message, hint = "ComfyUI's answer is too large.", ""
	case errors.Is(err, errNotComfy):
		message, hint = "What answers at ComfyUI's address is not ComfyUI.", "Check ComfyUI's address."
	}
	return sidecar.Failure{
		Code: string(sidecar.CodeUnavailable), Message: message, Hint: hint, URL: c.base,
	}
}

// rejected is the failure of an answer other than yes.
func rejected(code sidecar.Code, a answer) sidecar.Failure {
	detail := a.detail()
	message := messageOf(detail)
	if message == "" {
		message = fmt.Sprintf("ComfyUI returned HTTP %d", a.Status)
	}
	return sidecar.Failure{
		Code: string(code), Message: message, Hint: validationHint(detail),
		Status: a.Status, URL: a.URL, Detail: detail,
	}
}

// detail is the body as JSON; a text is wrapped in an object.
func (a answer) detail() json.RawMessage {
	if a.isJSON() && json.Valid(a.Body) {
		return a.Body
	}
	if len(a.Body) == 0 {
		return json.RawMessage("{}")
	}
	message := strings.ToValidUTF8(string(a.Body), string(utf8.RuneError))
	return mustObject("message", message)
}

// messageOf makes the sentence that the reference makes of a refusal: what
// ComfyUI says, and the first node's complaint.
func messageOf(detail json.RawMessage) string {
	var doc struct {
		Error   json.RawMessage `json:"error"`
		Message loose           `json:"message"`
		Nodes   json.RawMessage `json:"node_errors"`
	}
	if !isObject(detail) {
		return plain(detail)
	}
	if json.Unmarshal(detail, &doc) != nil {
		return ""
	}
	message := string(doc.Message)
	if isObject(doc.Error) {
		var inner struct {
			Message loose `json:"message"`
			Type    loose `json:"type"`
		}
		if json.Unmarshal(doc.Error, &inner) == nil {
			message = first(string(inner.Message), string(inner.Type))
		}
	} else if message == "" {
		message = plain(doc.Error)
	}
	complaint := firstComplaint(doc.Nodes)
	if message != "" && complaint != "" {
		return message + ": " + complaint
	}
	return first(complaint, message)
}

// plain is a JSON value as people write it; nothing for an empty one.
func plain(raw json.RawMessage) string {
	switch text := string(bytes.TrimSpace(raw)); text {
	case "", "null", "[]", "{}", "0", "false":
		return ""
	default:
		var s loose
		if json.Unmarshal(raw, &s) == nil && s != "" {
			return string(s)
		}
		if text == `""` {
			return ""
		}
		return text
	}
}

// nodeError is ComfyUI's complaint about one node.
type nodeError struct {
	Errors []struct {
		Type    loose `json:"type"`
		Message loose `json:"message"`
		Details loose `json:"details"`
		Extra   struct {
			Input    loose `json:"input_name"`
			Received loose `json:"received_value"`
		} `json:"extra_info"`
	} `json:"errors"`
	Dependent []loose `json:"dependent_outputs"`
}

func firstComplaint(nodes json.RawMessage) string {
	complaint := ""
	eachMember(nodes, func(_ string, value json.RawMessage) bool {
		var node nodeError
		if json.Unmarshal(value, &node) != nil {
			return true
		}
		for _, fault := range node.Errors {
			if complaint = first(string(fault.Details), string(fault.Message)); complaint != "" {
				return false
			}
		}
		return true
	})
	return complaint
}

// modelEndings are the file names that only models have.
var modelEndings = []string{".safetensors", ".sft", ".ckpt", ".pt", ".pth", ".gguf", ".onnx"}

// validationHint says what to do about a refused graph, where ComfyUI's error
// type leaves no doubt.
func validationHint(detail json.RawMessage) string {
	var doc struct {
		Error struct {
			Type loose `json:"type"`
		} `json:"error"`
		Nodes json.RawMessage `json:"node_errors"`
	}
	if !isObject(detail) || json.Unmarshal(detail, &doc) != nil {
		return ""
	}
	if doc.Error.Type == "missing_node_type" {
		return "Install the custom nodes that the workflow needs, then restart ComfyUI."
	}
	hint := ""
	eachMember(doc.Nodes, func(_ string, value json.RawMessage) bool {
		var node nodeError
		if json.Unmarshal(value, &node) != nil {
			return true
		}
		for _, fault := range node.Errors {
			if fault.Type == "value_not_in_list" && hasEnding(string(fault.Extra.Received), modelEndings) {
				hint = fmt.Sprintf("ComfyUI does not have the model %s. Put it into its models folder, or choose another.", fault.Extra.Received)
				return false
			}
		}
		return true
	})
	return hint
}

func hasEnding(name string, endings []string) bool {
	for _, ending := range endings {
		if strings.HasSuffix(strings.ToLower(name), ending) {
			return true
		}
	}
	return false
}

// executionHint says what to do about an exception of these Python types.
func executionHint(exception string) string {
	name := exception[strings.LastIndexByte(exception, '.')+1:]
	switch name {
	case "OutOfMemoryError", "MemoryError", "_ArrayMemoryError":
		return "ComfyUI ran out of memory. Try a smaller size or batch, or free its models."
	case "FileNotFoundError":
		return "A file that the workflow names is missing where ComfyUI runs."
	}
	return ""
}

// errNotComfy marks answers that no ComfyUI gives.
var errNotComfy = errors.New("the answer is not ComfyUI's")

// object decodes an answer that must be a JSON object.
func (a answer) object(into any) error {
	if !a.OK() {
		return fmt.Errorf("%s: HTTP %d: %w", a.URL, a.Status, errNotComfy)
	}
	if !isObject(a.Body) {
		return fmt.Errorf("%s: %w", a.URL, errNotComfy)
	}
	if err := decode(a.Body, into); err != nil {
		return fmt.Errorf("%s: %w: %w", a.URL, errNotComfy, err)
	}
	return nil
}

// unusable is the error of a question whose answer says nothing.
func (c *client) unusable(a answer, err error) error {
	f := rejected(sidecar.CodeUnavailable, a)
	if a.OK() {
		f = c.unavailable(err)
		f.Status, f.URL = http.StatusOK, a.URL
	}
	return &sidecar.UnsureError{Failure: f, Err: err}
}

func first(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}
