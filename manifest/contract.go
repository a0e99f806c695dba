package manifest

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Contract is a named set of inputs and outputs of one workflow.
type Contract struct {
	Workflow, Name string
	DisplayName    string // "" when not given
	Description    string // "" when not given
	Inputs         []Input
	Outputs        []Output
	PromptFile     string // api_prompt_file as written, relative to the manifest's folder; "" when not declared
	Default        bool   // the workflow's default_contract
	Fault          *Fault // why the contract cannot be used; its inputs and outputs are then incomplete

	rendered json.RawMessage // JSON, of a contract that a manifest declares
	doubts   []Fault         // what is wrong with it and makes some runs of it fail
}

// Input is a named value that a caller may give, bound to a field of a node.
// Empty texts and nil values were not declared.
type Input struct {
	Name         string
	Type         string // as written: string, integer, number, boolean, enum, image, video, audio, file or another word
	NodeID       string
	NumericID    bool // NodeID is a number in the manifest and in JSON
	Required     bool
	DisplayName  string
	WidgetIndex  *int64
	FieldKey     string
	APINodeID    string // the node of the stored prompt, where it is not NodeID
	NumericAPIID bool
	APIFieldKey  string
	Default      json.RawMessage
	Min          json.Number
	Max          json.Number
	Step         json.Number
	EnumValues   []string
	Description  string
	UIControl    string // "", input or textarea
}

// Output names a node whose results a run gives back.
type Output struct {
	Name        string
	Type        string // as written
	NodeID      string
	NumericID   bool // NodeID is a number in the manifest and in JSON
	DisplayName string
	Selector    string
	Description string
}

// JSON is the contract as clients see it.
func (c *Contract) JSON() json.RawMessage {
	if c.rendered != nil {
		return c.rendered
	}
	return marshalled(c.fields())
}

func (c *Contract) fields() Values {
	return Values{
		{"workflow", appendQuoted(nil, c.Workflow)},
		{"contract", appendQuoted(nil, c.Name)},
		{"display_name", orNull(c.DisplayName)},
		{"description", orNull(c.Description)},
		{"inputs", jsonList(len(c.Inputs), func(i int) json.RawMessage { return marshalled(c.Inputs[i].fields()) })},
		{"outputs", jsonList(len(c.Outputs), func(i int) json.RawMessage { return marshalled(c.Outputs[i].fields()) })},
	}
}

// MarshalJSON is JSON with the prompt file beside it: all that a run has to
// remember of its contract.
func (c *Contract) MarshalJSON() ([]byte, error) {
	fields := c.fields()
	if c.PromptFile != "" {
		fields = append(fields, Field{"api_prompt_file", appendQuoted(nil, c.PromptFile)})
	}
	return fields.MarshalJSON()
}

// UnmarshalJSON reads what MarshalJSON or JSON wrote.
func (c *Contract) UnmarshalJSON(raw []byte) error {
	var wire struct {
		Workflow    string   `json:"workflow"`
		Contract    string   `json:"contract"`
		DisplayName string   `json:"display_name"`
		Description string   `json:"description"`
		PromptFile  string   `json:"api_prompt_file"`
		Inputs      []Input  `json:"inputs"`
		Outputs     []Output `json:"outputs"`
	}
	if err := json.Unmarshal(raw, &wire); err != nil {
		return fmt.Errorf("read contract: %w", err)
	}
	*c = Contract{Workflow: wire.Workflow, Name: wire.Contract, DisplayName: wire.DisplayName, Description: wire.Description,
		PromptFile: wire.PromptFile, Inputs: wire.Inputs, Outputs: wire.Outputs}
	return nil
}

func orNull(s string) json.RawMessage {
	if s == "" {
		return json.RawMessage("null")
	}
	return appendQuoted(nil, s)
}

// optional collects the members that were declared.
type optional struct{ fields Values }

func (o *optional) text(name, value string) {
	if value != "" {
		o.fields = append(o.fields, Field{name, appendQuoted(nil, value)})
	}
}

func (o *optional) raw(name string, value []byte) {
	if len(value) > 0 {
		o.fields = append(o.fields, Field{name, value})
	}
}

func (o *optional) id(name, value string, numeric bool) {
	if numeric {
		o.raw(name, []byte(value))
	} else if value != "" {
		o.text(name, value)
	}
}

func (in Input) fields() Values {
	o := optional{Values{
		{"name", appendQuoted(nil, in.Name)},
		{"type", appendQuoted(nil, in.Type)},
		{"node_id", idJSON(in.NodeID, in.NumericID)},
		{"required", fmt.Append(nil, in.Required)},
	}}
	o.text("display_name", in.DisplayName)
	if in.WidgetIndex != nil {
		o.raw("widget_idx", fmt.Append(nil, *in.WidgetIndex))
	}
	o.text("field_key", in.FieldKey)
	o.id("api_node_id", in.APINodeID, in.NumericAPIID)
	o.text("api_field_key", in.APIFieldKey)
	o.raw("default", in.Default)
	o.raw("min", []byte(in.Min))
	o.raw("max", []byte(in.Max))
	o.raw("step", []byte(in.Step))
	if len(in.EnumValues) > 0 {
		o.raw("enum_values", jsonList(len(in.EnumValues), func(i int) json.RawMessage { return appendQuoted(nil, in.EnumValues[i]) }))
	}
	o.text("description", in.Description)
	o.text("ui_control", in.UIControl)
	return o.fields
}

// MarshalJSON writes the input as clients see it.
func (in Input) MarshalJSON() ([]byte, error) { return in.fields().MarshalJSON() }

// UnmarshalJSON reads what MarshalJSON wrote.
func (in *Input) UnmarshalJSON(raw []byte) error {
	var wire struct {
		Name        string          `json:"name"`
		Type        string          `json:"type"`
		NodeID      nodeID          `json:"node_id"`
		Required    bool            `json:"required"`
		DisplayName string          `json:"display_name"`
		WidgetIndex *int64          `json:"widget_idx"`
		FieldKey    string          `json:"field_key"`
		APINodeID   nodeID          `json:"api_node_id"`
		APIFieldKey string          `json:"api_field_key"`
		Default     json.RawMessage `json:"default"`
		Min         json.Number     `json:"min"`
		Max         json.Number     `json:"max"`
		Step        json.Number     `json:"step"`
		EnumValues  []string        `json:"enum_values"`
		Description string          `json:"description"`
		UIControl   string          `json:"ui_control"`
	}
	if err := json.Unmarshal(raw, &wire); err != nil {
		return fmt.Errorf("read contract input: %w", err)
	}
	*in = Input{wire.Name, wire.Type, wire.NodeID.text, wire.NodeID.numeric, wire.Required, wire.DisplayName, wire.WidgetIndex, wire.FieldKey,
		wire.APINodeID.text, wire.APINodeID.numeric, wire.APIFieldKey, wire.Default, wire.Min, wire.Max, wire.Step, wire.EnumValues, wire.Description, wire.UIControl}
	return nil
}

func (out Output) fields() Values {
	o := optional{Values{
		{"name", appendQuoted(nil, out.Name)},
		{"type", appendQuoted(nil, out.Type)},
		{"node_id", idJSON(out.NodeID, out.NumericID)},
	}}
	o.text("display_name", out.DisplayName)
	o.text("selector", out.Selector)
	o.text("description", out.Description)
	return o.fields
}

// MarshalJSON writes the output as clients and workers see it.
func (out Output) MarshalJSON() ([]byte, error) { return out.fields().MarshalJSON() }

// UnmarshalJSON reads what MarshalJSON wrote. Name, type and node_id have to be
// there.
func (out *Output) UnmarshalJSON(raw []byte) error {
	var wire struct {
		Name        *string `json:"name"`
		Type        *string `json:"type"`
		NodeID      *nodeID `json:"node_id"`
		DisplayName string  `json:"display_name"`
		Selector    string  `json:"selector"`
		Description string  `json:"description"`
	}
	if err := json.Unmarshal(raw, &wire); err != nil {
		return fmt.Errorf("read contract output: %w", err)
	}
	if wire.Name == nil || wire.Type == nil || wire.NodeID == nil {
		return fmt.Errorf("read contract output: name, type and node_id are needed")
	}
	*out = Output{*wire.Name, *wire.Type, wire.NodeID.text, wire.NodeID.numeric, wire.DisplayName, wire.Selector, wire.Description}
	return nil
}

// nodeID is a node id that may be a number.
type nodeID struct {
	text    string
	numeric bool
}

func (id *nodeID) UnmarshalJSON(raw []byte) error {
	if raw[0] == '"' {
		*id = nodeID{text: unquote(raw)}
		return nil
	}
	*id = nodeID{text: string(raw), numeric: true}
	return nil
}

func idJSON(text string, numeric bool) json.RawMessage {
	if numeric {
		return json.RawMessage(text)
	}
	return appendQuoted(nil, text)
}

// Node is the id of the node in the stored prompt that the input is bound to.
func (in Input) Node() string {
	if in.APINodeID != "" && !(in.NumericAPIID && in.APINodeID == "0") {
		return in.APINodeID
	}
	return in.NodeID
}

// Field is the key of that node's input, or "" when none is declared.
func (in Input) Field() string {
	if in.APIFieldKey != "" {
		return in.APIFieldKey
	}
	return in.FieldKey
}

// Media tells whether the input takes a file: image, video, audio or file.
func (in Input) Media() bool {
	switch strings.ToLower(in.Type) {
	case "image", "video", "audio", "file":
		return true
	}
	return false
}

func isFileRef(object []byte) bool {
	_, kind, ok := find(object, "kind")
	return ok && kind[0] == '"' && unquote(kind) == "file_ref"
}
