package comfyfake

import (
	"fmt"
	"slices"
	"strings"
)

type verdict int

const (
	verdictGood verdict = iota
	verdictRefused
	verdictTrouble
)

// validation judges one graph as validate_prompt does: every output node with
// all that it depends on; outputs that fail are dropped while one is good.
type validation struct {
	s          *Server
	prompt     *object
	good       []string
	fault      *object
	nodeErrors *object

	judged map[string]*judgement
	order  []string
	path   []string // nodes being judged, for cycles
}

type judgement struct {
	ok     bool
	errors []any
}

// judge reads the graph from the body of POST /prompt.
func (v *validation) judge(body *object) verdict {
	v.nodeErrors, v.judged = obj(), map[string]*judgement{}
	graph, ok := body.at["prompt"].(*object)
	if !ok {
		if list, isList := body.at["prompt"].([]any); isList && len(list) == 0 && v.s.opts.Generation < V0_33_0 {
			return v.refuse("prompt_no_outputs", "Prompt has no outputs", "", nil)
		}
		return verdictTrouble
	}
	v.prompt = graph.clone()
	outputs, result := v.outputs(body)
	if result != verdictGood {
		return result
	}
	if len(outputs) == 0 {
		return v.refuse("prompt_no_outputs", "Prompt has no outputs", "", nil)
	}
	var lines []string
	for _, id := range outputs {
		lines = append(lines, v.judgeOutput(id)...)
	}
	if len(v.good) == 0 {
		return v.refuse("prompt_outputs_failed_validation", "Prompt outputs failed validation", strings.Join(lines, "\n"), nil)
	}
	return verdictGood
}

func (v *validation) refuse(kind, message, details string, extra *object) verdict {
	v.fault = problem(kind, message, details, extra)
	return verdictRefused
}

// outputs lists the output nodes to execute and refuses classes that do not
// exist.
func (v *validation) outputs(body *object) ([]string, verdict) {
	targets, limited := body.at["partial_execution_targets"].([]any)
	var outputs []string
	for _, id := range v.prompt.keys {
		node, isObject := v.prompt.at[id].(*object)
		if !isObject {
			if _, isText := v.prompt.at[id].(string); isText && v.s.opts.Generation < V0_33_0 {
				return nil, v.refuseClassless(id, obj())
			}
			return nil, verdictTrouble
		}
		if v.s.opts.Generation >= V0_33_0 && node.has("inputs") && node.object("inputs") == nil {
			return nil, verdictTrouble
		}
		if !node.has("class_type") {
			return nil, v.refuseClassless(id, node)
		}
		name, isText := node.at["class_type"].(string)
		if !isText && node.at["class_type"] != nil {
			return nil, verdictTrouble
		}
		k := v.s.class(name)
		if k == nil {
			return nil, v.refuseUnknown(id, node)
		}
		if k.outputNode && (!limited || slices.Contains(targets, any(id))) {
			outputs = append(outputs, id)
		}
	}
	return outputs, verdictGood
}

func (v *validation) refuseClassless(id string, node *object) verdict {
	if v.s.opts.Generation < V0_33_0 {
		return v.refuse("invalid_prompt", "Cannot execute because a node is missing the class_type property.", "Node ID '#"+id+"'", nil)
	}
	extra := obj("node_id", id, "class_type", nil, "node_title", titleOf(node))
	return v.refuse("missing_node_type", "Node 'ID #"+id+"' has no class_type. The workflow may be corrupted or a custom node is missing.", "Node ID '#"+id+"'", extra)
}

func (v *validation) refuseUnknown(id string, node *object) verdict {
	if v.s.opts.Generation >= V0_33_0 && node.has("_meta") && node.object("_meta") == nil {
		return verdictTrouble
	}
	name := str(node.at["class_type"])
	if v.s.opts.Generation < V0_33_0 {
		return v.refuse("invalid_prompt", "Cannot execute because node "+name+" does not exist.", "Node ID '#"+id+"'", nil)
	}
	title := titleOf(node)
	shown := name
	if t, ok := title.(string); ok {
		shown = t
	}
	extra := obj("node_id", id, "class_type", node.at["class_type"], "node_title", title)
	return v.refuse("missing_node_type", "Node '"+shown+"' not found. The custom node may not be installed.", "Node ID '#"+id+"'", extra)
}

// titleOf is the node's title, or its class if it has none.
func titleOf(node *object) any {
	if meta := node.object("_meta"); meta != nil && meta.has("title") {
		return meta.at["title"]
	}
	return node.at["class_type"]
}

// judgeOutput judges an output and all it needs; it returns what the summary
// says of the output node itself.
func (v *validation) judgeOutput(id string) []string {
	j, err := v.judgeNode(id)
	if err != nil {
		j = &judgement{errors: []any{exceptional("exception_during_validation", "Exception when validating node", err, nil)}}
		v.record(id, j)
	}
	if j.ok {
		v.good = append(v.good, id)
		return nil
	}
	var lines []string
	for _, e := range j.errors {
		if o, ok := e.(*object); ok && o.text("type") != "dependency_cycle" {
			lines = append(lines, o.text("message")+": "+o.text("details"))
		}
	}
	v.report(id)
	return lines
}

// report adds every node found bad so far to the answer, with the output as
// one that depends on it, related or not.
func (v *validation) report(output string) {
	for _, id := range v.order {
		j := v.judged[id]
		if j.ok || len(j.errors) == 0 {
			continue
		}
		entry := v.nodeErrors.object(id)
		if entry == nil {
			entry = obj("errors", j.errors, "dependent_outputs", []any{}, "class_type", v.prompt.object(id).at["class_type"])
			v.nodeErrors.set(id, entry)
		}
		list, _ := entry.at["dependent_outputs"].([]any)
		entry.set("dependent_outputs", append(list, output))
	}
}

func (v *validation) record(id string, j *judgement) {
	if v.judged[id] == nil {
		v.order = append(v.order, id)
	}
	v.judged[id] = j
}

// pyError is a Python exception in validation.
type pyError struct{ kind, text string }

func (e *pyError) Error() string { return e.text }

func exceptional(kind, message string, err error, more *object) *object {
	extra := obj()
	if more != nil {
		extra = more
	}
	exception := "Exception"
	if p, ok := err.(*pyError); ok { // never wrapped
		exception = p.kind
	}
	extra.set("exception_type", exception)
	extra.set("traceback", []string{"  File \"/ComfyUI/execution.py\", line 1010, in validate_prompt\n", "  File \"/ComfyUI/execution.py\", line 730, in validate_inputs\n"})
	return problem(kind, message, err.Error(), extra)
}

// judgeNode judges one node after the nodes it links to.
func (v *validation) judgeNode(id string) (*judgement, error) {
	if j := v.judged[id]; j != nil {
		return j, nil
	}
	if at := slices.Index(v.path, id); at >= 0 {
		return v.cycle(at, id), nil
	}
	v.path = append(v.path, id)
	defer func() { v.path = v.path[:len(v.path)-1] }()

	node := v.prompt.object(id)
	if !node.has("inputs") {
		return nil, &pyError{"KeyError", "'inputs'"}
	}
	inputs := node.object("inputs")
	if inputs == nil {
		if node.at["inputs"] == nil {
			return nil, &pyError{"TypeError", "argument of type 'NoneType' is not iterable"}
		}
		inputs = obj()
	}
	k := v.s.class(node.text("class_type"))
	j := &judgement{ok: true}
	for _, in := range k.inputs() {
		if err := v.judgeInput(k, in, inputs, j); err != nil {
			return nil, err
		}
	}
	v.judgeOwn(k, inputs, j)
	j.ok = j.ok && len(j.errors) == 0
	if old := v.judged[id]; old != nil {
		j.errors = append(old.errors, j.errors...)
		j.ok = false
	}
	v.record(id, j)
	return j, nil
}

// cycle marks every node of a cycle in the newer generation; the older one
// recurses until Python gives up and has nothing to say about it.
func (v *validation) cycle(at int, id string) *judgement {
	bad := &judgement{}
	if v.s.opts.Generation < V0_33_0 {
		return bad
	}
	ring := append(slices.Clone(v.path[at:]), id)
	names := make([]string, len(ring))
	for i, n := range ring {
		names[i] = fmt.Sprintf("%s (%s)", n, v.prompt.object(n).text("class_type"))
	}
	for _, n := range ring[:len(ring)-1] {
		v.record(n, &judgement{errors: []any{problem("dependency_cycle", "Dependency cycle detected",
			strings.Join(names, " -> "), obj("node_id", n, "cycle_nodes", ring[:len(ring)-1]))}})
	}
	return bad
}

func (v *validation) judgeInput(k *class, in input, inputs *object, j *judgement) error {
	if !inputs.has(in.name) {
		if slices.ContainsFunc(k.required, func(r input) bool { return r.name == in.name }) {
			j.errors = append(j.errors, problem("required_input_missing", "Required input is missing", in.name, obj("input_name", in.name)))
		}
		return nil
	}
	if list, ok := inputs.at[in.name].([]any); ok {
		return v.judgeLink(in, list, j)
	}
	return v.judgeLiteral(k, in, inputs, j)
}

// judgeLink follows a link. An exception in the linked node is an error of
// that node.
func (v *validation) judgeLink(in input, list []any, j *judgement) error {
	if len(list) != 2 {
		j.errors = append(j.errors, problem("bad_linked_input", "Bad linked input, must be a length-2 list of [node_id, slot_index]", in.name,
			obj("input_name", in.name, "input_config", in.info(v.s), "received_value", list)))
		return nil
	}
	from, _ := list[0].(string)
	node := v.prompt.object(from)
	if node == nil {
		return &pyError{"KeyError", repr(list[0])}
	}
	k := v.s.class(node.text("class_type"))
	slot, isInt := intOf(list[1])
	outputs := k.slots(v.s)
	if !isInt {
		return &pyError{"TypeError", "tuple indices must be integers or slices, not " + pythonType(list[1])}
	}
	if slot < 0 {
		slot += int64(len(outputs))
	}
	if slot < 0 || slot >= int64(len(outputs)) {
		return &pyError{"IndexError", "tuple index out of range"}
	}
	if got := outputs[slot]; !fits(got, in) {
		j.errors = append(j.errors, problem("return_type_mismatch", "Return type mismatch between linked nodes",
			fmt.Sprintf("%s, received_type(%s) mismatch input_type(%s)", in.name, got, in.typeText(v.s)),
			obj("input_name", in.name, "input_config", in.info(v.s), "received_type", got, "linked_node", list)))
		return nil
	}
	inner, err := v.judgeNode(from)
	if err != nil {
		extra := obj("input_name", in.name, "input_config", in.info(v.s), "exception_message", err.Error())
		e := exceptional("exception_during_inner_validation", "Exception when validating inner node", err, extra)
		e.object("extra_info").set("linked_node", list)
		v.record(from, &judgement{errors: []any{e}})
		j.ok = false
		return nil
	}
	j.ok = j.ok && inner.ok
	return nil
}

// fits says whether a value of type got may go into the input.
func fits(got string, in input) bool {
	return in.kind == "*" || got == "*" || got == in.kind || (in.choices != nil && got == "COMBO")
}

func (in input) typeText(s *Server) string {
	if in.choices != nil && !in.schema {
		return repr(in.choices(s))
	}
	return in.kind
}

// slots are the output types, which output nodes have in the newer generation
// only.
func (k *class) slots(s *Server) []string {
	if k.outputNode && s.opts.Generation < V0_33_0 {
		return nil
	}
	return k.outputs
}

// judgeOwn asks the class for its own view of its literals.
func (v *validation) judgeOwn(k *class, inputs *object, j *judgement) {
	if k.validate == nil {
		return
	}
	for _, name := range k.own {
		value := inputs.at[name]
		if _, isLink := value.([]any); isLink || !inputs.has(name) {
			continue
		}
		if text := k.validate(v.s, name, value); text != "" {
			j.errors = append(j.errors, problem("custom_validation_failed", "Custom validation failed for node", name+" - "+text, obj("input_name", name)))
		}
	}
}
