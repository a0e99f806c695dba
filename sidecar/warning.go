package sidecar

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/comfygit-ai/studio-sidecar/manifest"
)

// withWarnings adds what the backend dropped without harm to a run's issues:
// one for each node of ComfyUI's node_errors.
func withWarnings(issues, nodeErrors json.RawMessage) json.RawMessage {
	var nodes map[string]struct {
		Class  string `json:"class_type"`
		Errors []struct {
			Message string `json:"message"`
			Details string `json:"details"`
		} `json:"errors"`
	}
	if json.Unmarshal(nodeErrors, &nodes) != nil || len(nodes) == 0 {
		return issues
	}
	var all []json.RawMessage
	if len(issues) > 0 && json.Unmarshal(issues, &all) != nil {
		return issues
	}
	for _, id := range slices.Sorted(maps.Keys(nodes)) {
		why := "it did not validate"
		if errs := nodes[id].Errors; len(errs) > 0 {
			why = errs[0].Message
			if errs[0].Details != "" {
				why += " (" + errs[0].Details + ")"
			}
		}
		all = append(all, mustJSON(manifest.Issue{
			Code:     "comfyui_node_error",
			Message:  fmt.Sprintf("ComfyUI leaves out %s node %s, which no declared output needs: %s", nodes[id].Class, id, why),
			Severity: manifest.SeverityWarning, NodeID: id, APINodeID: id,
		}))
	}
	return mustJSON(all)
}
