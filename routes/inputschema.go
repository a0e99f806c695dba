package routes

import (
	"encoding/json"
	"net/url"
	"strings"

	"github.com/comfygit-ai/studio-sidecar/manifest"
)

// runSchema is the body that runs a contract.
func runSchema(c *manifest.Contract, inputs string) object {
	schema := object{
		"type": "object",
		"properties": object{
			"inputs":                schemaRef(inputs),
			"wait":                  object{"type": "boolean", "default": false, "description": "Answer when the run has ended"},
			"timeout_seconds":       object{"type": "number", "exclusiveMinimum": 0, "description": "With wait the limit of the wait, else of the run"},
			"poll_interval_seconds": object{"type": "number", "exclusiveMinimum": 0, "description": "Accepted, without effect"},
			"hold":                  schemaRef("RunHold"),
			"not_before":            schemaRef("RunNotBefore"),
			"needs_approval":        schemaRef("RunNeedsApproval"),
			"after":                 schemaRef("RunAfter"),
		},
	}
	if len(requiredInputs(c)) > 0 {
		schema["required"] = []string{"inputs"}
	}
	return schema
}

// inputsSchema says what a contract takes.
func inputsSchema(c *manifest.Contract) object {
	properties := object{}
	for i := range c.Inputs {
		properties[c.Inputs[i].Name] = inputSchema(&c.Inputs[i])
	}
	schema := object{"type": "object", "properties": properties}
	if required := requiredInputs(c); len(required) > 0 {
		schema["required"] = required
	}
	return schema
}

// requiredInputs are those that a caller has to give: a default stands in for
// what is not given.
func requiredInputs(c *manifest.Contract) []string {
	var names []string
	for i := range c.Inputs {
		if c.Inputs[i].Required && len(c.Inputs[i].Default) == 0 {
			names = append(names, c.Inputs[i].Name)
		}
	}
	return names
}

func inputSchema(in *manifest.Input) object {
	kind := strings.ToLower(in.Type)
	schema := object{}
	switch kind {
	case "string", "integer", "number", "boolean":
		schema["type"] = kind
	case "enum":
		schema["type"] = "string"
	case "image", "video", "audio", "file":
		schema["anyOf"] = []object{schemaRef("FileRef"), {"type": "string", "description": "Name of a file that ComfyUI has as an input"}}
	}
	if values := enumValues(in, kind); len(values) > 0 {
		schema["enum"] = values
	}
	if kind == "integer" || kind == "number" {
		bound(schema, "minimum", in.Min)
		bound(schema, "maximum", in.Max)
	}
	if fits(kind, in.Default) {
		schema["default"] = in.Default
	}
	if in.DisplayName != "" {
		schema["title"] = in.DisplayName
	}
	if in.Description != "" {
		schema["description"] = in.Description
	}
	return schema
}

func bound(schema object, name string, value json.Number) {
	if value != "" {
		schema[name] = value
	}
}

// enumValues are the values that may be given, in the input's own type.
func enumValues(in *manifest.Input, kind string) []any {
	var values []any
	for _, declared := range in.EnumValues {
		switch kind {
		case "integer", "number", "boolean":
			if raw := json.RawMessage(declared); json.Valid(raw) && fits(kind, raw) {
				values = append(values, raw)
			}
		default:
			values = append(values, declared)
		}
	}
	return values
}

// fits tells whether a default is of the input's type; one that is not fails
// when it is used, and is no example.
func fits(kind string, value json.RawMessage) bool {
	if len(value) == 0 || value[0] == 'n' {
		return false
	}
	number := value[0] == '-' || value[0] >= '0' && value[0] <= '9'
	switch kind {
	case "integer":
		return number && !strings.ContainsAny(string(value), ".eE")
	case "number":
		return number
	case "boolean":
		return value[0] == 't' || value[0] == 'f'
	case "string", "enum", "image", "video", "audio", "file":
		return value[0] == '"'
	}
	return true
}

// pathSegment escapes a name for a path, in which braces are variables.
func pathSegment(name string) string { return url.PathEscape(name) }
