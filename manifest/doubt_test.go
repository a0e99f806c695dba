package manifest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/comfygit-ai/studio-sidecar/manifest"
)

// TestDefaultsOfTheWrongKind: a default that no run can use is told with its
// line, and hides nothing.
func TestDefaultsOfTheWrongKind(t *testing.T) {
	for _, c := range []struct {
		name, kind, value, more, says string // says is empty for what a run can use
	}{
		{"nan_for_integer", "integer", "nan", "", "is not a whole number"},
		{"infinity_for_number", "number", "inf", "", "is not a number"},
		{"text_for_integer", "integer", `"seven"`, "", "'seven' is not a whole number"},
		{"list_for_string", "string", `["a"]`, "", "a list is not a text"},
		{"boolean_for_string", "string", "true", "", "is not a text"},
		{"number_for_image", "image", "7", "", "neither a file name"},
		{"date_for_integer", "integer", "2024-01-02", "", "is not a whole number"},
		{"below_min", "integer", "3", "min = 5", "below the minimum"},
		{"not_among_the_values", "string", `"c"`, `enum_values = ["a", "b"]`, "must be one of 'a', 'b'"},
		{"date_for_string", "string", "2024-01-02", "", ""},
		{"number_text", "number", `"1e3"`, "", ""},
		{"fraction_for_integer", "integer", "5.9", "", ""},
		{"number_for_string", "string", "7", "", ""},
		{"word_for_boolean", "boolean", `"yes"`, "", ""},
		{"another_kind", "latent", "[1]", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := fmt.Sprintf(`[tool.comfygit.workflows.w.execution_contract]
api_prompt_file = "workflow_api/w.json"
[tool.comfygit.workflows.w.execution_contract.contracts.c]
[[tool.comfygit.workflows.w.execution_contract.contracts.c.inputs]]
name = "other"
type = "integer"
node_id = "1"
api_field_key = "width"
[[tool.comfygit.workflows.w.execution_contract.contracts.c.inputs]]
name = "x"
type = %q
node_id = "1"
api_field_key = "height"
%s
default = %s
`, c.kind, c.more, c.value)
			dir := t.TempDir()
			write := func(name, data string) {
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			write(".cec/pyproject.toml", text)
			write(".cec/workflow_api/w.json", `{"1":{"class_type":"EmptyImage","inputs":{"width":1,"height":1}}}`)
			env, err := manifest.Locate(dir)
			if err != nil {
				t.Fatal(err)
			}
			snap := manifest.Open(env).Snapshot()
			contract, err := snap.Contract("w", "c")
			if err != nil {
				t.Fatal(err)
			}
			built, err := snap.Build(contract, manifest.Values{{Name: "other", Value: []byte("1")}})
			if err != nil || built.HasErrors() != (c.says != "") {
				t.Errorf("a run with it: %v, %v", built.Issues, err)
			}
			faults := snap.Diagnose()
			if c.says == "" {
				if len(faults) > 0 {
					t.Errorf("got %+v", faults)
				}
				return
			}
			if len(faults) != 1 || faults[0].Line != 15 || !strings.Contains(faults[0].Message, "'x'") || !strings.Contains(faults[0].Message, c.says) ||
				faults[0].Workflow != "w" || faults[0].Contract != "c" || faults[0].File != "pyproject.toml" {
				t.Errorf("got %+v", faults)
			}
		})
	}
}
