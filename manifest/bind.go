package manifest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Issue is something about a caller's values, or about the binding of an input,
// that stops a run (severity error) or not (severity warning).
type Issue struct {
	Code      string // unknown_contract_input, missing_node, missing_api_input_binding, missing_api_input, missing_required_input, coercion_failed, enum_value_invalid, below_min, above_max
	Message   string
	Severity  string // error or warning
	InputName string
	NodeID    string // the declared node; for missing_node and missing_api_input the node of the stored prompt
	APINodeID string // the node of the stored prompt
}

// unknownInput is the code of an Issue about a value of no input.
const unknownInput = "unknown_contract_input"

// Severities of an Issue.
const (
	SeverityError   = "error"
	SeverityWarning = "warning"
)

// MarshalJSON writes input_name and node_id as null where there is none, and
// leaves api_node_id out.
func (i Issue) MarshalJSON() ([]byte, error) {
	o := optional{Values{
		{"code", appendQuoted(nil, i.Code)},
		{"message", appendQuoted(nil, i.Message)},
		{"severity", appendQuoted(nil, i.Severity)},
		{"input_name", i.inputName()},
		{"node_id", orNull(i.NodeID)},
	}}
	o.text("api_node_id", i.APINodeID)
	return o.fields.MarshalJSON()
}

// inputName is null where an issue is of no input; a caller may give one whose
// name is empty.
func (i Issue) inputName() []byte {
	if i.Code == unknownInput {
		return appendQuoted(nil, i.InputName)
	}
	return orNull(i.InputName)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (i *Issue) UnmarshalJSON(raw []byte) error {
	var wire struct {
		Code      string `json:"code"`
		Message   string `json:"message"`
		Severity  string `json:"severity"`
		InputName string `json:"input_name"`
		NodeID    string `json:"node_id"`
		APINodeID string `json:"api_node_id"`
	}
	if err := json.Unmarshal(raw, &wire); err != nil {
		return fmt.Errorf("read issue: %w", err)
	}
	*i = Issue(wire)
	return nil
}

// Built is a contract's graph with a caller's values in it.
type Built struct {
	Graph    Graph
	Outputs  []Output
	Issues   []Issue
	Warnings []Warning // about the graph's file
	Digest   string    // prompt_digest: hex sha256 of the graph as built, before anything is stamped
}

// HasErrors tells whether an issue forbids the run.
func (b Built) HasErrors() bool {
	return slices.ContainsFunc(b.Issues, func(i Issue) bool { return i.Severity == SeverityError })
}

// Bind puts values, or the defaults, into a copy of graph. A null value means
// that none was given. Issues are in the order of the contract's inputs, with
// unknown names first.
func (c *Contract) Bind(graph Graph, values Values) Built {
	b := binder{contract: c, values: values, graph: graph.clone()}
	b.unknownNames()
	for _, in := range c.Inputs {
		b.input(in)
	}
	return Built{
		Graph:   b.graph,
		Outputs: slices.Clone(c.Outputs),
		Issues:  b.issues,
		Digest:  hexDigest(spellJSON(nil, b.graph.Bytes())),
	}
}

type binder struct {
	contract *Contract
	values   Values
	graph    Graph
	issues   []Issue
}

func (b *binder) unknownNames() {
	for _, f := range b.values {
		known := slices.ContainsFunc(b.contract.Inputs, func(in Input) bool { return in.Name == f.Name })
		if !known {
			b.issues = append(b.issues, Issue{
				Code:      unknownInput,
				Message:   fmt.Sprintf("Input '%s' is not defined by contract '%s'.", f.Name, b.contract.Name),
				Severity:  SeverityWarning,
				InputName: f.Name,
			})
		}
	}
}

func (b *binder) issue(in Input, code, nodeID, message string) {
	b.issues = append(b.issues, Issue{
		Code:      code,
		Message:   message,
		Severity:  SeverityError,
		InputName: in.Name,
		NodeID:    nodeID,
		APINodeID: in.Node(),
	})
}

func (b *binder) given(in Input) (json.RawMessage, bool) {
	v, ok := b.values.Get(in.Name)
	return v, ok && len(v) > 0 && v[0] != 'n'
}

func (b *binder) input(in Input) {
	node := b.graph.index(in.Node())
	if node < 0 {
		b.unbound(in, "missing_node", fmt.Sprintf("Contract input '%s' references missing workflow node '%s'.", in.Name, in.Node()))
		return
	}
	if in.Field() == "" {
		b.unbound(in, "missing_api_input_binding", fmt.Sprintf("Contract input '%s' does not declare a stored ComfyUI API input key.", in.Name))
		return
	}
	value, ok := b.resolve(in)
	if !ok {
		return
	}
	if !b.graph.setInput(node, in.Field(), value) {
		b.issue(in, "missing_api_input", in.Node(), fmt.Sprintf("Contract input '%s' maps to API input '%s', but node '%s' does not contain that input.", in.Name, in.Field(), in.Node()))
	}
}

// unbound reports an input that leads nowhere: a warning when nobody asked for
// it.
func (b *binder) unbound(in Input, code, message string) {
	b.issue(in, code, in.Node(), message)
	if _, given := b.given(in); !given && !in.Required {
		b.issues[len(b.issues)-1].Severity = SeverityWarning
	}
}

// resolve gives the value to put into the graph; ok is false when there is none
// or an issue was found.
func (b *binder) resolve(in Input) (value json.RawMessage, ok bool) {
	raw, given := b.given(in)
	if !given {
		raw = in.Default
	}
	if len(raw) == 0 {
		if in.Required {
			b.issue(in, "missing_required_input", in.NodeID, fmt.Sprintf("Required input '%s' is missing for contract '%s'.", in.Name, b.contract.Name))
		}
		return nil, false
	}
	value, err := coerce(in, raw)
	if err != nil {
		b.issue(in, "coercion_failed", in.NodeID, fmt.Sprintf("Input '%s' could not be coerced: %v", in.Name, err))
		return nil, false
	}
	return value, b.permitted(in, value)
}

func (b *binder) permitted(in Input, value json.RawMessage) bool {
	if len(in.EnumValues) > 0 && !allowed(in, value) {
		quoted := make([]string, len(in.EnumValues))
		for i, v := range in.EnumValues {
			quoted[i] = "'" + v + "'"
		}
		b.issue(in, "enum_value_invalid", in.NodeID, fmt.Sprintf("Input '%s' must be one of %s.", in.Name, strings.Join(quoted, ", ")))
		return false
	}
	if !in.bounded() || !isNumber(value) {
		return true
	}
	n := rational(string(value))
	switch {
	case in.Min != "" && n.Cmp(rational(string(in.Min))) < 0:
		b.issue(in, "below_min", in.NodeID, fmt.Sprintf("Input '%s' is below the minimum value.", in.Name))
	case in.Max != "" && n.Cmp(rational(string(in.Max))) > 0:
		b.issue(in, "above_max", in.NodeID, fmt.Sprintf("Input '%s' is above the maximum value.", in.Name))
	default:
		return true
	}
	return false
}
