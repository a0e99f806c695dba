package manifest_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/manifest"
)

func TestParseObject(t *testing.T) {
	t.Run("order and number text are kept", func(t *testing.T) {
		values, err := manifest.ParseObject([]byte("\xef\xbb\xbf {\"b\": 1.50, \"a\":\t18446744073709551615 , \"\\u0061b\": \"\\ud83d\"}\n"), manifest.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		want := manifest.Values{{Name: "b", Value: json.RawMessage("1.50")}, {Name: "a", Value: json.RawMessage("18446744073709551615")}, {Name: "ab", Value: json.RawMessage(`"\ud83d"`)}}
		if diff := cmp.Diff(want, values); diff != "" {
			t.Error(diff)
		}
		text, _ := values.MarshalJSON()
		if want := `{"b":1.50,"a":18446744073709551615,"ab":"\ud83d"}`; string(text) != want {
			t.Errorf("written as %s, want %s", text, want)
		}
	})
	refused := map[string]string{
		"duplicate":          `{"a":1,"a":2}`,
		"nested duplicate":   `{"a":[{"b":1,"\u0062":2}]}`,
		"nan":                `{"a":NaN}`,
		"infinity":           `{"a":-Infinity}`,
		"trailing text":      `{} {}`,
		"trailing comma":     `{"a":1,}`,
		"single quotes":      `{'a':1}`,
		"leading zero":       `{"a":01}`,
		"bare point":         `{"a":1.}`,
		"invalid utf-8":      "{\"a\":\"\xff\"}",
		"control character":  "{\"a\":\"\x01\"}",
		"unknown escape":     `{"a":"\x"}`,
		"unclosed":           `{"a":[1`,
		"empty":              ``,
		"65 levels":          `{"a":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`,
		"a list":             `[]`,
		"null":               `null`,
		"half an escape":     `{"a":"\u12"}`,
		"exponent but empty": `{"a":1e}`,
	}
	for name, text := range refused {
		t.Run(name+" is refused", func(t *testing.T) {
			if values, err := manifest.ParseObject([]byte(text), manifest.Limits{}); err == nil {
				t.Errorf("ParseObject(%s) = %v", text, values)
			}
		})
	}
	t.Run("64 levels pass", func(t *testing.T) {
		if _, err := manifest.ParseObject([]byte(`{"a":`+strings.Repeat("[", 63)+strings.Repeat("]", 63)+`}`), manifest.Limits{}); err != nil {
			t.Error(err)
		}
	})
	t.Run("errors tell their kind and place", func(t *testing.T) {
		_, err := manifest.ParseObject([]byte("{\n \"a\": x}"), manifest.Limits{})
		var syntax *manifest.SyntaxError
		if !errors.As(err, &syntax) || syntax.Line != 2 || syntax.Column != 7 {
			t.Errorf("error is %v", err)
		}
		_, err = manifest.ParseObject([]byte(`[]`), manifest.Limits{})
		if !errors.Is(err, manifest.ErrNotObject) {
			t.Errorf("error is %v", err)
		}
		_, err = manifest.ParseObject([]byte(`{"k":1,"k":1}`), manifest.Limits{})
		var twice *manifest.DuplicateError
		if !errors.As(err, &twice) || twice.Name != "k" {
			t.Errorf("error is %v", err)
		}
	})
}

func TestValues(t *testing.T) {
	v := manifest.Values{{Name: "a", Value: json.RawMessage("1")}, {Name: "b", Value: json.RawMessage("2")}}
	changed := v.Without("b")
	text, _ := changed.MarshalJSON()
	if string(text) != `{"a":1}` {
		t.Errorf("changed to %s", text)
	}
	if got, _ := v.Get("b"); string(got) != "2" {
		t.Errorf("the original changed to %s", got)
	}
}
