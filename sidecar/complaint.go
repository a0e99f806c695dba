package sidecar

import (
	"encoding/json"
	"strings"

	"github.com/comfygit-ai/studio-sidecar/manifest"
)

// complaint is what ComfyUI says against one node of a prompt.
type complaint struct {
	Errors []struct {
		Type    string `json:"type"`
		Message string `json:"message"`
		Details string `json:"details"`
		Extra   struct {
			Input string `json:"input_name"`
		} `json:"extra_info"`
	} `json:"errors"`
}

// nodeErrorsOf are the complaints of a refusal by node; of nodes whose
// complaint has another shape there is none.
func nodeErrorsOf(detail json.RawMessage) map[string]complaint {
	var doc struct {
		Nodes map[string]json.RawMessage `json:"node_errors"`
	}
	if json.Unmarshal(detail, &doc) != nil {
		return nil
	}
	nodes := map[string]complaint{}
	for id, raw := range doc.Nodes {
		var c complaint
		if json.Unmarshal(raw, &c) == nil {
			nodes[id] = c
		}
	}
	return nodes
}

// issueCodes are ours for ComfyUI's types of errors.
var issueCodes = map[string]string{
	"value_smaller_than_min": "below_min",
	"value_bigger_than_max":  "above_max",
	"value_not_in_list":      "enum_value_invalid",
	"invalid_input_type":     "coercion_failed",
	"required_input_missing": "missing_required_input",
}

// complaints are issues for what ComfyUI says against fields that inputs of the
// contract are bound to, in the order of the inputs.
func complaints(contract []byte, detail json.RawMessage) []manifest.Issue {
	var doc struct {
		Inputs []manifest.Input `json:"inputs"`
	}
	if json.Unmarshal(contract, &doc) != nil {
		return nil
	}
	nodes := nodeErrorsOf(detail)
	var issues []manifest.Issue
	for _, in := range doc.Inputs {
		for _, e := range nodes[in.Node()].Errors {
			if e.Extra.Input == "" || e.Extra.Input != in.Field() {
				continue
			}
			code, known := issueCodes[e.Type]
			if !known {
				code = "comfyui_node_error"
			}
			message := e.Message
			if e.Details != "" && !strings.Contains(message, e.Details) {
				message += " (" + e.Details + ")"
			}
			issues = append(issues, manifest.Issue{
				Code: code, Message: message, Severity: manifest.SeverityError,
				InputName: in.Name, NodeID: in.NodeID, APINodeID: in.Node(),
			})
		}
	}
	return issues
}
