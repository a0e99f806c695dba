package comfyfake

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// judgeLiteral casts a literal to the input's type, in place as the real
// server does, and checks range and choice.
func (v *validation) judgeLiteral(k *class, in input, inputs *object, j *judgement) error {
	value := inputs.at[in.name]
	if o, ok := value.(*object); ok && o.has("__value__") {
		value = o.at["__value__"]
	}
	cast, err := castTo(in.kind, value)
	if err != nil {
		j.errors = append(j.errors, problem("invalid_input_type", "Failed to convert an input value to a "+in.kind+" value",
			fmt.Sprintf("%s, %s, %s", in.name, str(value), err),
			obj("input_name", in.name, "input_config", in.info(v.s), "received_value", value, "exception_message", err.Error())))
		return nil
	}
	inputs.set(in.name, cast)
	if k.judges(in.name) {
		return nil
	}
	if e := v.outOfRange(in, cast); e != nil {
		j.errors = append(j.errors, e)
		return nil
	}
	if in.choices != nil && (!in.schema || v.s.opts.Generation >= V0_33_0) {
		if e := v.notInList(in, cast); e != nil {
			j.errors = append(j.errors, e)
		}
	}
	return nil
}

func (v *validation) outOfRange(in input, value any) *object {
	if in.options == nil {
		return nil
	}
	extra := func() *object {
		return obj("input_name", in.name, "input_config", in.info(v.s), "received_value", value)
	}
	if low, ok := in.options.at["min"]; ok && lessNumber(value, low) {
		return problem("value_smaller_than_min", fmt.Sprintf("Value %s smaller than min of %s", str(value), numberText(low)), in.name, extra())
	}
	if high, ok := in.options.at["max"]; ok && lessNumber(high, value) {
		return problem("value_bigger_than_max", fmt.Sprintf("Value %s bigger than max of %s", str(value), numberText(high)), in.name, extra())
	}
	return nil
}

// lessNumber compares exactly, whatever the size.
func lessNumber(a, b any) bool {
	x, okX := new(big.Rat).SetString(numberText(a))
	y, okY := new(big.Rat).SetString(numberText(b))
	return okX && okY && x.Cmp(y) < 0
}

func (v *validation) notInList(in input, value any) *object {
	choices := in.choices(v.s)
	if text, ok := value.(string); ok && slices.Contains(choices, text) {
		return nil
	}
	const most = 20 // longer lists are not repeated in the error
	shown, config := repr(choices), any(in.info(v.s))
	if len(choices) > most {
		shown, config = fmt.Sprintf("(list of length %d)", len(choices)), nil
	}
	return problem("value_not_in_list", "Value not in list", fmt.Sprintf("%s: '%s' not in %s", in.name, str(value), shown),
		obj("input_name", in.name, "input_config", config, "received_value", value))
}

// castTo is int(), float(), str() or bool() of Python, by type word.
func castTo(kind string, value any) (any, error) {
	switch kind {
	case "INT":
		return toInt(value)
	case "FLOAT":
		return castFloat(value)
	case "STRING":
		return str(value), nil
	case "BOOLEAN":
		return truthy(value), nil
	}
	return value, nil
}

func toInt(value any) (any, error) {
	switch v := value.(type) {
	case bool:
		if v {
			return json.Number("1"), nil
		}
		return json.Number("0"), nil
	case json.Number:
		return truncated(v)
	case string:
		text := strings.ReplaceAll(strings.TrimSpace(v), "_", "")
		if n, ok := new(big.Int).SetString(text, 10); ok {
			return json.Number(n.String()), nil
		}
		return nil, &pyError{"ValueError", "invalid literal for int() with base 10: " + repr(v)}
	}
	return nil, &pyError{"TypeError", "int() argument must be a string, a bytes-like object or a real number, not '" + pythonType(value) + "'"}
}

// truncated cuts the fraction off a number of any size.
func truncated(n json.Number) (any, error) {
	if _, ok := new(big.Int).SetString(n.String(), 10); ok {
		return n, nil
	}
	f, ok := new(big.Float).SetPrec(256).SetString(n.String())
	if !ok {
		return nil, &pyError{"ValueError", "cannot convert " + n.String() + " to int"}
	}
	whole, _ := f.Int(nil)
	return json.Number(whole.String()), nil
}

func castFloat(value any) (any, error) {
	switch v := value.(type) {
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return v, nil
		}
		return json.Number(v.String() + ".0"), nil
	case bool:
		if v {
			return json.Number("1.0"), nil
		}
		return json.Number("0.0"), nil
	case string:
		f, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
		if err != nil {
			return nil, &pyError{"ValueError", "could not convert string to float: " + repr(v)}
		}
		return json.Number(floatText(f)), nil
	}
	return nil, &pyError{"TypeError", "float() argument must be a string or a real number, not '" + pythonType(value) + "'"}
}
