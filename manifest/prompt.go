package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// What a graph's file has to be, said to whoever has to save it again.
const exportHint = "In ComfyUI open the workflow, choose Export (API) and save that file here, or save the contract again in ComfyGit Manager."

// shapeError tells what is wrong with a text that should be a graph.
type shapeError struct {
	line    int
	key     string
	says    string // completes "The stored prompt …"
	message string // a whole sentence, where says is empty
	hint    string
}

func (e *shapeError) Error() string { return e.about("") }

// about is the sentence with the file's name in it.
func (e *shapeError) about(file string) string {
	if e.says == "" {
		return e.message
	}
	if file != "" {
		file += " "
	}
	return "The stored prompt " + file + e.says
}

// ParseGraph reads a stored prompt: the graph itself, or wrapped once as
// {"prompt": …} or {"output": …}. A byte order mark is skipped; of a node given
// twice the last counts; what is no node (comments, other programs' keys) is
// left out with a warning. Other texts give an error that says what the text is
// and what to export instead.
func ParseGraph(raw []byte) (Graph, []Warning, error) {
	if bytes.HasPrefix(raw, []byte{0xFF, 0xFE}) || bytes.HasPrefix(raw, []byte{0xFE, 0xFF}) {
		return Graph{}, nil, &shapeError{line: 1, says: "is UTF-16 text.", hint: "Save the file as UTF-8."}
	}
	s := scanner{text: raw, limit: maxDepth, lenient: true}
	text, err := s.whole()
	if err != nil {
		return Graph{}, nil, notJSON(err)
	}
	if text[0] != '{' {
		return Graph{}, nil, &shapeError{message: "Stored API prompt must be a JSON object.", hint: exportHint}
	}
	text, key := unwrap(text)
	if err := otherShape(text); err != nil {
		return Graph{}, nil, err
	}
	return readNodes(text, key)
}

func notJSON(err error) error {
	var syntax *SyntaxError
	if !errors.As(err, &syntax) {
		return err
	}
	return &shapeError{line: syntax.Line, says: "is not JSON: " + syntax.Error() + ".", hint: exportHint}
}

// unwrap takes the graph out of {"output": …} or {"prompt": …}. A node may be
// called so too; what is inside tells.
func unwrap(text []byte) ([]byte, string) {
	for _, key := range []string{"output", "prompt"} {
		if _, inner, ok := find(text, key); ok && inner[0] == '{' && !isNode(inner) && holdsNodes(inner) {
			return inner, key
		}
	}
	return text, ""
}

// isNode tells a node from other objects: it has a class_type, or inputs that
// ComfyUI will miss it for.
func isNode(value []byte) bool {
	if value[0] != '{' {
		return false
	}
	ms := members(value)
	if slices.ContainsFunc(ms, func(m member) bool { return m.name == "class_type" }) {
		return true
	}
	return slices.ContainsFunc(ms, func(m member) bool { return m.name == "inputs" && value[m.start] == '{' }) &&
		!slices.ContainsFunc(ms, func(m member) bool { return m.name == "nodes" || m.name == "workflow" || m.name == "prompt" })
}

func holdsNodes(object []byte) bool {
	return slices.ContainsFunc(members(object), func(m member) bool { return isNode(object[m.start:m.end]) })
}

// otherShape recognises what people save by mistake.
func otherShape(text []byte) error {
	if isEditorFormat(text) {
		return &shapeError{key: "nodes", says: "is a workflow in the editor's (UI) format, not in API format.", hint: exportHint}
	}
	if holdsNodes(text) {
		return nil
	}
	for _, m := range members(text) {
		value := text[m.start:m.end]
		switch inner, path := deeper(m.name, value); {
		case inner == nil:
		case isEditorFormat(inner):
			return &shapeError{key: path, says: fmt.Sprintf("wraps a workflow in the editor's (UI) format under \"%s\"; the graph in API format is needed.", path), hint: exportHint}
		case holdsNodes(inner):
			return &shapeError{key: path, says: fmt.Sprintf("wraps its graph as \"%s\"; save the object under that key alone.", path), hint: "Keep only the graph: an object whose members are the nodes."}
		}
		if isHistory(value) {
			return &shapeError{key: m.name, says: "is a saved history answer of ComfyUI, not a graph.", hint: "Its graph is the third element of \"prompt\": save that alone."}
		}
	}
	return nil
}

// deeper finds an object that may hold a graph one or two levels down.
func deeper(name string, value []byte) ([]byte, string) {
	if value[0] != '{' {
		return nil, ""
	}
	if holdsNodes(value) || isEditorFormat(value) {
		return value, name
	}
	for _, m := range members(value) {
		inner := value[m.start:m.end]
		if inner[0] == '{' && (holdsNodes(inner) || isEditorFormat(inner)) {
			return inner, name + "." + m.name
		}
	}
	return nil, ""
}

func isEditorFormat(object []byte) bool {
	_, nodes, ok := find(object, "nodes")
	return ok && nodes[0] == '['
}

func isHistory(value []byte) bool {
	if value[0] != '{' {
		return false
	}
	_, prompt, ok := find(value, "prompt")
	if !ok {
		return false
	}
	items, ok := elements(prompt)
	return ok && len(items) > 2 && items[2][0] == '{'
}

func readNodes(text []byte, wrapper string) (Graph, []Warning, error) {
	var g Graph
	var warnings []Warning
	first := ""
	at := map[string]int{}
	for _, m := range members(text) {
		value := text[m.start:m.end]
		if !isNode(value) {
			if first == "" && value[0] != '{' {
				first = m.name
			}
			warnings = append(warnings, Warning{Key: m.name, Message: fmt.Sprintf("'%s' is no node and is not sent to ComfyUI.", m.name)})
			continue
		}
		raw, err := withInputs(m.name, value)
		if err != nil {
			return Graph{}, nil, err
		}
		n := node{key: m.key, id: m.name, raw: raw}
		if i, twice := at[n.id]; twice {
			g.nodes[i] = n
			warnings = append(warnings, Warning{Key: n.id, Message: fmt.Sprintf("Node '%s' is given twice; the last one counts.", n.id)})
			continue
		}
		at[n.id] = len(g.nodes)
		g.nodes = append(g.nodes, n)
	}
	if len(g.nodes) == 0 {
		return Graph{}, nil, noNodes(first, wrapper)
	}
	return g, warnings, nil
}

func noNodes(first, wrapper string) error {
	if first != "" {
		return &shapeError{key: first, message: fmt.Sprintf("Stored API prompt node '%s' must be an object.", first), hint: exportHint}
	}
	return &shapeError{key: strings.TrimSpace(wrapper), says: "holds no node.", hint: exportHint}
}

// withInputs checks a node's inputs and adds them where they are missing.
func withInputs(id string, value []byte) ([]byte, error) {
	m, inputs, ok := find(value, "inputs")
	switch {
	case !ok:
		return withMember(value, "inputs", "{}"), nil
	case inputs[0] == '{':
		return value, nil
	case string(inputs) == "null":
		return splice(value, m.start, m.end, []byte("{}")), nil
	}
	return nil, &shapeError{key: id, message: fmt.Sprintf("Stored API prompt node '%s' has non-object inputs.", id), hint: exportHint}
}
