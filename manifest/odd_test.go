package manifest_test

import (
	"testing"

	"github.com/comfygit-ai/studio-sidecar/manifest"
)

func TestWithoutOddNumbers(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":NaN,"b":[Infinity,-Infinity,-1]}`: `{"a":null,"b":[null,null,-1]}`,
		`{"NaN":"Infinity \" NaN","x":NaN}`:     `{"NaN":"Infinity \" NaN","x":null}`,
		`"\`:                                    `"\`,
		``:                                      ``,
	} {
		if got := string(manifest.WithoutOddNumbers([]byte(text))); got != want {
			t.Errorf("%s became %s, want %s", text, got, want)
		}
	}
}
