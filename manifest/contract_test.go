package manifest_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/comfygit-ai/studio-sidecar/manifest"
)

// declare is a manifest with one contract per workflow.
func declare(workflow, fields string) string {
	return "\n[tool.comfygit.workflows." + workflow + ".execution_contract]\napi_prompt_file = \"workflow_api/g.json\"\n" +
		"[tool.comfygit.workflows." + workflow + ".execution_contract.contracts.default]\n" + fields + "\n"
}

func TestContractJSON(t *testing.T) {
	cases := []struct{ fact, fields, want string }{
		{"numbers stay numbers, floats as Python writes them",
			`inputs = [{ name = "a", type = "number", node_id = 3, default = 7.0, min = 1e3, max = 1e16, step = 0.00001 }]`,
			`{"name":"a","type":"number","node_id":3,"required":true,"default":7.0,"min":1000.0,"max":1e+16,"step":1e-05}`},
		{"integers beyond 64 bits, as text and bare",
			`inputs = [{ name = "a", type = "integer", node_id = "3", min = -99999999999999999999, max = "18446744073709551615", default = 18446744073709551615 }]`,
			`{"name":"a","type":"integer","node_id":"3","required":true,"default":18446744073709551615,"min":-99999999999999999999,"max":18446744073709551615}`},
		{"text of a number that is whole becomes an integer",
			`inputs = [{ name = "a", type = "number", node_id = "3", min = "0.5", max = "1e23", default = "1.0" }]`,
			`{"name":"a","type":"number","node_id":"3","required":true,"default":1,"min":0.5,"max":100000000000000000000000}`},
		{"bounds that are no bounds are left out",
			`inputs = [{ name = "a", type = "integer", node_id = "3", min = "abc", max = true, step = 0, default = "12x" }]`,
			`{"name":"a","type":"integer","node_id":"3","required":true,"default":"12x"}`},
		{"infinities never reach JSON",
			`inputs = [{ name = "a", type = "number", node_id = "3", min = -inf, max = "1e400", default = nan }]`,
			`{"name":"a","type":"number","node_id":"3","required":true,"default":"nan"}`},
		{"words for yes and no, and the old name of widget_idx",
			`inputs = [{ name = "a", type = "boolean", node_id = "3", required = "no", default = "off", widget_index = "4" }]`,
			`{"name":"a","type":"boolean","node_id":"3","required":false,"widget_idx":4,"default":false}`},
		{"enum values are texts, an unknown control is dropped",
			`inputs = [{ name = 7, type = "enum", node_id = "3", enum_values = [1, true, "x", 2.5], default = 1, ui_control = "slider" }]`,
			`{"name":"7","type":"enum","node_id":"3","required":true,"default":1,"enum_values":["1","True","x","2.5"]}`},
		{"yes and no by truth",
			`inputs = [{ name = true, type = "boolean", node_id = 1.5, required = 0, default = 0.0 }, { name = "b", type = "boolean", node_id = "x", required = "", default = [1] }, { name = "c", type = "boolean", node_id = "x", required = {}, default = 2 }]`,
			`{"name":"True","type":"boolean","node_id":1.5,"required":false,"default":false},{"name":"b","type":"boolean","node_id":"x","required":false,"default":true},{"name":"c","type":"boolean","node_id":"x","required":false,"default":true}`},
		{"whole numbers from other kinds",
			`inputs = [{ name = "a", type = "integer", node_id = 1, default = 5.9, widget_idx = true }, { name = "b", type = "integer", node_id = 1, default = inf, widget_idx = "x" }, { name = "c", type = "integer", node_id = 1, default = [1] }]`,
			`{"name":"a","type":"integer","node_id":1,"required":true,"widget_idx":1,"default":5},{"name":"b","type":"integer","node_id":1,"required":true,"default":"inf"},{"name":"c","type":"integer","node_id":1,"required":true,"default":[1]}`},
		{"dates are texts",
			`inputs = [{ name = "a", type = "x", node_id = 1, default = [2024-01-02T03:04:05Z, 2024-01-02T03:04:05.5, 03:04:05, 2024-01-02 03:04:05+01:30] }]`,
			`{"name":"a","type":"x","node_id":1,"required":true,"default":["2024-01-02 03:04:05+00:00","2024-01-02 03:04:05.500000","03:04:05","2024-01-02 03:04:05+01:30"]}`},
		{"everything else in its place",
			`inputs = [{ name = "a", type = "x", node_id = "3", api_node_id = 5, api_field_key = "k", field_key = "f", widget_idx = 0, default = { z = 1, a = [1.5, 2024-01-02] }, description = "d", display_name = "D", ui_control = "textarea" }]`,
			`{"name":"a","type":"x","node_id":"3","required":true,"display_name":"D","widget_idx":0,"field_key":"f","api_node_id":5,"api_field_key":"k","default":{"z":1,"a":[1.5,"2024-01-02"]},"description":"d","ui_control":"textarea"}`},
	}
	for _, c := range cases {
		t.Run(c.fact, func(t *testing.T) {
			s := open(t, write(t, map[string]string{"pyproject.toml": declare("w", c.fields)})).Snapshot()
			k, err := s.Contract("w", "default")
			if err != nil {
				t.Fatal(err, s.Faults)
			}
			want := `{"workflow":"w","contract":"default","display_name":null,"description":null,"inputs":[` + c.want + `],"outputs":[]}`
			if diff := cmp.Diff(want, string(k.JSON())); diff != "" {
				t.Error(diff)
			}
			var again manifest.Contract
			if err := json.Unmarshal(k.JSON(), &again); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, string(again.JSON())); diff != "" {
				t.Error("read back:", diff)
			}
		})
	}
}

func TestStoredContractKeepsItsPromptFile(t *testing.T) {
	s := open(t, write(t, map[string]string{"pyproject.toml": declare("w", `outputs = [{ name = "o", type = "image", node_id = 2, selector = "slot:1" }, 5]`)})).Snapshot()
	text, err := json.Marshal(s.Contracts()[0])
	if err != nil {
		t.Fatal(err)
	}
	var again manifest.Contract
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	want := manifest.Contract{Workflow: "w", Name: "default", PromptFile: "workflow_api/g.json", Inputs: []manifest.Input{},
		Outputs: []manifest.Output{{Name: "o", Type: "image", NodeID: "2", NumericID: true, Selector: "slot:1"}}}
	if diff := cmp.Diff(want, again, cmpopts.IgnoreUnexported(want)); diff != "" {
		t.Error(diff)
	}
}

func TestContractsKeepTheOrderOfTheFile(t *testing.T) {
	s := open(t, write(t, map[string]string{"pyproject.toml": declare("zebra", "") + declare(`"a b"`, "") +
		"[tool.comfygit.workflows.zebra.execution_contract.contracts.\"a/1\"]\n" +
		"[tool.comfygit.workflows.inline]\nexecution_contract = { contracts = { q = { inputs = [] }, c = {} , n = 5 } }\n"})).Snapshot()
	var got []string
	for _, c := range s.Contracts() {
		got = append(got, c.Workflow+"|"+c.Name)
	}
	if diff := cmp.Diff([]string{"zebra|default", "zebra|a/1", "a b|default", "inline|q", "inline|c"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestLookup(t *testing.T) {
	names := []string{"video/wan/animate", "video", "back\\slash", "per%cent + plus", "..", ".hidden", "卡通 🎨", "e\u0301te\u0301"}
	text := "[tool.comfygit.workflows.bare]\npath = \"x\"\n"
	for _, n := range names {
		quoted, err := json.Marshal(n)
		if err != nil {
			t.Fatal(err)
		}
		text += declare(string(quoted), "")
	}
	text += "[tool.comfygit.workflows.video.execution_contract.contracts.\"wan/animate/default\"]\n[tool.comfygit.workflows.video.execution_contract.contracts.\"β/2\"]\n"
	s := open(t, write(t, map[string]string{"pyproject.toml": text})).Snapshot()

	for _, n := range names {
		if c, err := s.Contract(n, "default"); err != nil || c.Workflow != n {
			t.Errorf("Contract(%q) = %v, %v", n, c, err)
		}
	}
	t.Run("another normal form finds it", func(t *testing.T) {
		if c, err := s.Contract("\u00e9t\u00e9", "default"); err != nil || c.Workflow != "e\u0301te\u0301" {
			t.Errorf("got %v, %v", c, err)
		}
	})
	t.Run("unknown names", func(t *testing.T) {
		for _, u := range []struct{ workflow, contract, read, run string }{
			{"nope", "default", "Workflow 'nope' does not declare contracts.", "Workflow 'nope' is not tracked in the manifest."},
			{"bare", "default", "Workflow 'bare' does not declare contracts.", "Workflow 'bare' does not declare an execution contract."},
			{"video", "default ", "Workflow 'video' does not declare contract 'default '.", "Workflow 'video' does not declare contract 'default '."},
			{"VIDEO", "default", "Workflow 'VIDEO' does not declare contracts.", "Workflow 'VIDEO' is not tracked in the manifest."},
		} {
			_, err := s.Contract(u.workflow, u.contract)
			var unknown *manifest.UnknownError
			if !errors.As(err, &unknown) || unknown.Error() != u.read || unknown.RunMessage() != u.run {
				t.Errorf("%s/%s: %v", u.workflow, u.contract, err)
			}
		}
	})
	t.Run("unescaped slashes", func(t *testing.T) {
		for path, want := range map[string]string{
			"video/wan/animate/default": "video/wan/animate|default",
			"video/default":             "video|default",
			"video/β/2":                 "video|β/2",
			"video/wan/animate/nope":    "video/wan/animate|nope",
			"video/nope":                "video|nope",
			"nope/default":              "|",
			"video":                     "|",
			"/":                         "|",
		} {
			workflow, contract, ok := s.Match(path)
			if got := workflow + "|" + contract; got != want || ok != (want != "|") {
				t.Errorf("Match(%q) = %s, %v; want %s", path, got, ok, want)
			}
		}
	})
}

func TestOneBrokenContractHidesNoOther(t *testing.T) {
	s := open(t, write(t, map[string]string{"pyproject.toml": declare("good", "") + declare("bad", "[[tool.comfygit.workflows.bad.execution_contract.contracts.default.inputs]]\nname = \"a\"\ntype = \"string\"\nnode_id = 1\n\n[[tool.comfygit.workflows.bad.execution_contract.contracts.default.inputs]]\ntype = \"string\"\nnode_id = 1\n") +
		declare("odd", "inputs = 5")})).Snapshot()
	if err := s.Usable(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Contract("good", "default"); err != nil {
		t.Error(err)
	}
	_, err := s.Contract("bad", "default")
	var fault *manifest.Fault
	if !errors.As(err, &fault) {
		t.Fatalf("error is %v", err)
	}
	want := manifest.Fault{File: "pyproject.toml", Line: 15, Key: "tool.comfygit.workflows.bad.execution_contract.contracts.default.inputs[1].name",
		Workflow: "bad", Contract: "default", Message: "input 2 of the contract has no name", Hint: "Add name to it, or save the contract again in ComfyGit Manager."}
	if diff := cmp.Diff(want, *fault); diff != "" {
		t.Error(diff)
	}
	if len(s.Faults) != 2 {
		t.Errorf("faults are %v", s.Faults)
	}
	if got := string(s.JSON()); strings.Contains(got, "bad") || !strings.Contains(got, "good") {
		t.Errorf("listed are %s", got)
	}
}

func TestRevision(t *testing.T) {
	// sha256 of {"a": [1, 1.5, true, "2024-01-02", "\u00fc"], "b": {"n": 18446744073709551615, "o": 1e+16}}
	const want = "9842cc89609695eb6470ff1c757630a82bfcafef06f0b10ce72d091edd6b51eb"
	s := open(t, write(t, map[string]string{"pyproject.toml": "a = [1, 1.5, true, 2024-01-02, \"ü\"]\n[b]\no = 1e16\nn = 18446744073709551615\n"})).Snapshot()
	if s.Revision != want {
		t.Errorf("revision is %s, want %s", s.Revision, want)
	}
}
