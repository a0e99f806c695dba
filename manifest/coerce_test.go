package manifest_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/manifest"
)

// bindOne binds one value of one input and returns what reaches the node, or
// the code and message of the issue.
func bindOne(t *testing.T, in manifest.Input, value string) (sent, code, message string) {
	t.Helper()
	in.Name, in.NodeID, in.FieldKey = "x", "1", "f"
	graph, _, err := manifest.ParseGraph([]byte(`{"1": {"class_type": "A", "inputs": {"f": "before"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	c := &manifest.Contract{Workflow: "w", Name: "k", Inputs: []manifest.Input{in}}
	built := c.Bind(graph, manifest.Values{{Name: "x", Value: json.RawMessage(value)}})
	for _, i := range built.Issues {
		code, message = i.Code, i.Message
	}
	var nodes map[string]struct{ Inputs struct{ F json.RawMessage } }
	if err := json.Unmarshal(built.Graph.Bytes(), &nodes); err != nil {
		t.Fatal(err)
	}
	return string(nodes["1"].Inputs.F), code, message
}

func TestCoercion(t *testing.T) {
	const refused = "coercion_failed"
	const untouched = `"before"`
	cases := map[string]map[string]string{ // type → value → what is sent, or the issue's code
		"string": {
			`"a"`: `"a"`, `""`: `""`, `1`: `"1"`, `1.50`: `"1.50"`, `"ünï"`: `"ünï"`, `"\ud83d"`: `"\ud83d"`, `null`: untouched,
			`true`: refused, `[1]`: refused, `{"a":1}`: refused,
		},
		"integer": {
			`5`: `5`, `-0`: `-0`, `"5"`: `5`, `" 7 "`: `7`, `5.0`: `5`, `1e3`: `1000`, `"1_000"`: `1000`, `"+3"`: `3`, `"-007"`: `-7`, `"-0"`: `0`,
			`18446744073709551615`: `18446744073709551615`, `"18446744073709551615"`: `18446744073709551615`, `1000000000000000000000000000001`: `1000000000000000000000000000001`, `null`: untouched,
			`5.9`: refused, `"5.0"`: refused, `"1e3"`: refused, `"0x10"`: refused, `""`: refused, `"abc"`: refused, `"٣"`: refused, `true`: refused, `[]`: refused, `1e400`: refused, `"1__0"`: refused,
		},
		"number": {
			`1`: `1`, `2.0`: `2.0`, `7.50`: `7.50`, `1E0`: `1E0`, `"2.50"`: `2.50`, `"-.5"`: `-0.5`, `"5."`: `5.0`, `"+01.5e-3"`: `1.5e-3`, `" 3 "`: `3`, `null`: untouched,
			`"nan"`: refused, `"inf"`: refused, `"1e999"`: refused, `1e400`: refused, `""`: refused, `false`: refused, `[]`: refused, `"1,5"`: refused,
		},
		"boolean": {
			`true`: `true`, `false`: `false`, `"TRUE"`: `true`, `" yes "`: `true`, `"off"`: `false`, `1`: `true`, `0`: `false`, `"0"`: `false`, `null`: untouched,
			`1.0`: refused, `2`: refused, `""`: refused, `"maybe"`: refused, `[]`: refused,
		},
		"image": {
			`"a.png"`: `"a.png"`, `""`: `""`, `null`: untouched,
			`5`: refused, `["a"]`: refused, `{"kind":"other"}`: refused, `{"kind":"file_ref","ref":"r"}`: refused, `true`: refused,
		},
		"latent": {`[1, {"a": null}]`: `[1, {"a": null}]`, `1.50`: `1.50`, `true`: `true`, `"x"`: `"x"`, `null`: untouched},
		"NUMBER": {`"2.0"`: `2.0`, `"x"`: refused},
	}
	for kind, values := range cases {
		for value, want := range values {
			t.Run(kind+" "+value, func(t *testing.T) {
				sent, code, message := bindOne(t, manifest.Input{Type: kind}, value)
				if want == refused {
					if code != refused || sent != untouched {
						t.Errorf("sent %s with issue %q (%s), want it refused", sent, code, message)
					}
					return
				}
				if sent != want || code != "" {
					t.Errorf("sent %s with issue %q (%s), want %s", sent, code, message, want)
				}
			})
		}
	}
}

func TestBoundsAndEnum(t *testing.T) {
	numeric := manifest.Input{Type: "integer", Min: "-5", Max: "5"}
	cases := []struct {
		fact  string
		in    manifest.Input
		value string
		want  string
	}{
		{"min is inclusive", numeric, `-5`, ""},
		{"max is inclusive", numeric, `5`, ""},
		{"below", numeric, `-6`, "below_min"},
		{"above as text", numeric, `"6"`, "above_max"},
		{"kind counts, not spelling", manifest.Input{Type: "Integer", Max: "5"}, `6`, "above_max"},
		{"bounds beyond float precision are exact", manifest.Input{Type: "integer", Max: "18446744073709551614"}, `18446744073709551615`, "above_max"},
		{"texts have no bounds", manifest.Input{Type: "string", Max: "5"}, `"99"`, ""},
		{"enum of texts", manifest.Input{Type: "enum", EnumValues: []string{"a", "1"}}, `"1"`, ""},
		{"enum refuses the number for a text", manifest.Input{Type: "enum", EnumValues: []string{"a"}}, `1`, "enum_value_invalid"},
		{"integer enum compares by value", manifest.Input{Type: "integer", EnumValues: []string{"1", "2"}}, `1`, ""},
		{"integer enum refuses others", manifest.Input{Type: "integer", EnumValues: []string{"1", "2"}}, `3`, "enum_value_invalid"},
		{"number enum compares by value", manifest.Input{Type: "number", EnumValues: []string{"2.50"}}, `2.5`, ""},
		{"boolean enum", manifest.Input{Type: "boolean", EnumValues: []string{"True"}}, `false`, "enum_value_invalid"},
	}
	for _, c := range cases {
		t.Run(c.fact, func(t *testing.T) {
			if _, code, message := bindOne(t, c.in, c.value); code != c.want {
				t.Errorf("issue %q (%s), want %q", code, message, c.want)
			}
		})
	}
}

func TestDisplayInputs(t *testing.T) {
	values, err := manifest.ParseObject([]byte(`{"z": "data:text/plain;base64,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
		"a": {"n": 1.50, "b": [{"secret": 1, "kind": "file_ref", "filename": "f", "ref": "r", "size": 3}, "data:q"]}, "big": 18446744073709551615, "hidden": ["\u0064ata:x"]}`), manifest.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"z":"data:text/plain;base64,AAAAAAAAAAAAAAAAAAAAAAAAA... [inline data omitted]",` +
		`"a":{"n":1.50,"b":[{"kind":"file_ref","ref":"r","filename":"f","size":3},"data:q... [inline data omitted]"]},"big":18446744073709551615,"hidden":["data:x... [inline data omitted]"]}`
	if diff := cmp.Diff(want, string(manifest.DisplayInputs(values))); diff != "" {
		t.Error(diff)
	}
}

func TestMessagesQuoteTexts(t *testing.T) {
	for value, want := range map[string]string{
		`"maybe"`: `Input 'x' could not be coerced: 'maybe' is not a boolean`,
		`"it's"`:  `Input 'x' could not be coerced: "it's" is not a boolean`,
		`"a\nb"`:  `Input 'x' could not be coerced: "a\nb" is not a boolean`,
		`[1]`:     `Input 'x' could not be coerced: a list is not a boolean`,
	} {
		if _, _, message := bindOne(t, manifest.Input{Type: "boolean"}, value); message != want {
			t.Errorf("%s: %s", value, message)
		}
	}
}
