package manifest

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strings"

	"github.com/BurntSushi/toml"
)

// declared is what pyproject.toml says about one workflow.
type declared struct {
	name      string
	contracts []*Contract
	has       bool // it has an execution_contract table
}

// reader turns TOML values into contracts. Odd values are read as the manager's
// own library reads them; only what makes a contract unusable is a fault.
type reader struct {
	file  *pyproject
	order keyOrder
}

func (p *pyproject) workflows() []declared {
	r := reader{file: p, order: p.order()}
	path := toml.Key{"tool", "comfygit", "workflows"}
	table := p.table(path...)
	var out []declared
	for _, name := range r.order.sorted(table, path) {
		if entry, ok := table[name].(map[string]any); ok {
			out = append(out, r.workflow(name, entry, below(path, name)))
		}
	}
	return out
}

func (r reader) workflow(name string, entry map[string]any, path toml.Key) declared {
	d := declared{name: name}
	execution, ok := entry["execution_contract"].(map[string]any)
	if !ok {
		return d
	}
	d.has = true
	path = below(path, "execution_contract", "contracts")
	contracts, _ := execution["contracts"].(map[string]any)
	standard := orText(execution["default_contract"], "default")
	for _, key := range r.order.sorted(contracts, path) {
		table, ok := contracts[key].(map[string]any)
		if !ok {
			continue
		}
		c := r.contract(table, below(path, key))
		c.Workflow, c.Name = name, key
		c.Default = key == standard
		c.PromptFile = orText(execution["api_prompt_file"], "")
		if c.Fault != nil {
			c.Fault.Workflow, c.Fault.Contract = name, key
		}
		for i := range c.doubts {
			c.doubts[i].Workflow, c.doubts[i].Contract = name, key
		}
		d.contracts = append(d.contracts, c)
	}
	return d
}

func (r reader) contract(table map[string]any, path toml.Key) *Contract {
	c := &Contract{DisplayName: orText(table["display_name"], ""), Description: orText(table["description"], "")}
	for i, item := range r.list(c, table, path, "inputs") {
		in := r.input(item, below(path, "inputs"))
		if missing := firstMissing(item); missing != "" {
			r.incomplete(c, below(path, "inputs"), i, missing)
			continue
		}
		c.Inputs = append(c.Inputs, in)
		r.doubtDefault(c, in, below(path, "inputs"), i)
	}
	for i, item := range r.list(c, table, path, "outputs") {
		if missing := firstMissing(item); missing != "" {
			r.incomplete(c, below(path, "outputs"), i, missing)
			continue
		}
		c.Outputs = append(c.Outputs, readOutput(item))
	}
	return c
}

// list gives the tables of an array; what is no table in it is passed over.
func (r reader) list(c *Contract, table map[string]any, path toml.Key, key string) []map[string]any {
	switch v := table[key].(type) {
	case nil:
		return nil
	case []map[string]any:
		return v
	case []any:
		var out []map[string]any
		for _, item := range v {
			if t, ok := item.(map[string]any); ok {
				out = append(out, t)
			}
		}
		return out
	}
	c.Fault = &Fault{
		File:    pyprojectFile,
		Line:    r.file.lineOf(path, 0),
		Key:     below(path, key).String(),
		Message: fmt.Sprintf("%s of a contract has to be a list of tables", key),
		Hint:    "Save the contract again in ComfyGit Manager.",
	}
	return nil
}

func firstMissing(item map[string]any) string {
	for _, key := range []string{"name", "type", "node_id"} {
		if item[key] == nil {
			return key
		}
	}
	return ""
}

func (r reader) incomplete(c *Contract, path toml.Key, i int, missing string) {
	if c.Fault != nil {
		return
	}
	line := r.file.lineOf(path, i)
	if line == 0 {
		line = r.file.lineOf(path[:len(path)-1], 0)
	}
	kind := strings.TrimSuffix(path[len(path)-1], "s")
	c.Fault = &Fault{
		File:    pyprojectFile,
		Line:    line,
		Key:     fmt.Sprintf("%s[%d].%s", path, i, missing),
		Message: fmt.Sprintf("%s %d of the contract has no %s", kind, i+1, missing),
		Hint:    fmt.Sprintf("Add %s to it, or save the contract again in ComfyGit Manager.", missing),
	}
}

func (r reader) input(t map[string]any, path toml.Key) Input {
	in := Input{
		Name:        tomlText(t["name"]),
		Type:        tomlText(t["type"]),
		Required:    truth(t["required"], true),
		DisplayName: orText(t["display_name"], ""),
		FieldKey:    orText(t["field_key"], ""),
		APIFieldKey: orText(t["api_field_key"], ""),
		Min:         number(t["min"]),
		Max:         number(t["max"]),
		Step:        positive(number(t["step"])),
		EnumValues:  texts(t["enum_values"]),
		Description: orText(t["description"], ""),
	}
	in.NodeID, in.NumericID = readID(t["node_id"])
	in.APINodeID, in.NumericAPIID = readID(t["api_node_id"])
	index, ok := t["widget_idx"]
	if !ok {
		index = t["widget_index"]
	}
	if n := integer(index); n != nil && n.IsInt64() {
		i := n.Int64()
		in.WidgetIndex = &i
	}
	if v := t["default"]; v != nil {
		in.Default = r.standard(v, in.Type, below(path, "default"))
	}
	if control, ok := t["ui_control"].(string); ok && (control == "input" || control == "textarea") {
		in.UIControl = control
	}
	return in
}

// standard reads a default in the kind of its input; what does not fit stays as
// it is and fails when it is used.
func (r reader) standard(v any, kind string, path toml.Key) json.RawMessage {
	switch kind {
	case "integer":
		if n := integer(v); n != nil {
			return n.Append(nil, 10)
		}
	case "number":
		if n := number(v); n != "" {
			return json.RawMessage(n)
		}
	case "boolean":
		return fmt.Append(nil, truth(v, false))
	}
	return tomlJSON(v, r.order, path)
}

func readOutput(t map[string]any) Output {
	out := Output{
		Name:        tomlText(t["name"]),
		Type:        tomlText(t["type"]),
		DisplayName: orText(t["display_name"], ""),
		Selector:    orText(t["selector"], ""),
		Description: orText(t["description"], ""),
	}
	out.NodeID, out.NumericID = readID(t["node_id"])
	return out
}

func readID(v any) (text string, numeric bool) {
	switch v := v.(type) {
	case nil:
		return "", false
	case int64, *big.Int:
		return tomlText(v), true
	case float64:
		return tomlText(v), !math.IsNaN(v) && !math.IsInf(v, 0)
	}
	return tomlText(v), false
}

func orText(v any, otherwise string) string {
	if v == nil {
		return otherwise
	}
	if s := tomlText(v); s != "" {
		return s
	}
	return otherwise
}

func texts(v any) []string {
	items, ok := v.([]any)
	if !ok {
		return nil
	}
	var out []string
	for _, item := range items {
		out = append(out, tomlText(item))
	}
	return out
}

// truth reads a yes or no; other values count as Python counts them.
func truth(v any, otherwise bool) bool {
	switch v := v.(type) {
	case nil:
		return otherwise
	case bool:
		return v
	case string:
		if b, ok := boolWord(v); ok {
			return b
		}
		return v != ""
	case int64:
		return v != 0
	case float64:
		return v != 0
	case []any:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	}
	return true
}

func boolWord(s string) (value, ok bool) {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "1", "true", "yes", "on":
		return true, true
	case "0", "false", "no", "off":
		return false, true
	}
	return false, false
}

// integer reads a whole number, or nil. A fraction in the file is cut, as the
// manager cuts it.
func integer(v any) *big.Int {
	switch v := v.(type) {
	case bool:
		return big.NewInt(int64(strings.Count("true", fmt.Sprint(v))))
	case int64:
		return big.NewInt(v)
	case *big.Int:
		return v
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil
		}
		n, _ := big.NewFloat(v).Int(nil)
		return n
	case string:
		if text, ok := integerText(v); ok {
			n, _ := new(big.Int).SetString(text, 10)
			return n
		}
	}
	return nil
}

// number reads a number, or "". Text that is whole becomes an integer.
func number(v any) json.Number {
	switch v := v.(type) {
	case int64, *big.Int:
		return json.Number(tomlText(v))
	case float64:
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			return json.Number(spellFloat(v))
		}
	case string:
		if text, ok := integerText(v); ok {
			return json.Number(text)
		}
		text, ok := decimalText(v)
		if !ok || !strings.ContainsAny(text, ".eE") {
			return ""
		}
		if r := rational(text); r.IsInt() {
			return json.Number(r.Num().String())
		}
		return json.Number(text)
	}
	return ""
}

func positive(n json.Number) json.Number {
	if n == "" || rational(string(n)).Sign() <= 0 {
		return ""
	}
	return n
}
