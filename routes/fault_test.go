package routes_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

const secret = "/home/anna/.secrets/token-8e1f"

func TestCausesStayInTheLog(t *testing.T) {
	for name, cause := range map[string]error{
		"plain":       errors.New("open " + secret),
		"unreachable": &sidecar.UnreachableError{Failure: sidecar.Failure{Message: "ComfyUI does not answer."}, Err: errors.New(secret)},
		"domain":      &sidecar.Error{Code: sidecar.CodeStorage, Message: "The state database could not be used.", Err: errors.New(secret)},
		"deadline":    errors.Join(context.DeadlineExceeded, errors.New(secret)),
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t)
			r.exec.fetch = func(context.Context, sidecar.FileQuery) (*sidecar.Content, error) { return nil, cause }
			a := r.get("/outputs/view?filename=x.png", "X-Request-ID", "my-id_1")
			if a.status < 500 || strings.Contains(string(a.body), secret) {
				t.Errorf("%d %s", a.status, a.body)
			}
			for header, values := range a.header {
				if strings.Contains(strings.Join(values, " "), secret) {
					t.Errorf("header %s tells it", header)
				}
			}
			if a.header.Get("X-Request-ID") != "my-id_1" {
				t.Errorf("request id %q", a.header.Get("X-Request-ID"))
			}
			if log := r.log.String(); !strings.Contains(log, secret) || !strings.Contains(log, "request_id=my-id_1") {
				t.Errorf("the log does not tell: %s", log)
			}
		})
	}
}

func TestPanic(t *testing.T) {
	r := start(t)
	r.exec.fetch = func(context.Context, sidecar.FileQuery) (*sidecar.Content, error) { panic(secret) }
	a := r.get("/outputs/view?filename=x.png")
	if a.status != http.StatusInternalServerError || a.json(t)["error"] != "internal_error" || strings.Contains(string(a.body), secret) {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a.json(t)["request_id"] != a.header.Get("X-Request-ID") {
		t.Error("the answer does not name its request")
	}
	if log := r.log.String(); !strings.Contains(log, secret) || !strings.Contains(log, "fault_test.go") {
		t.Error("the log lacks the panic or its stack")
	}
	if a := r.get("/livez"); a.status != 200 {
		t.Errorf("afterwards: %d", a.status)
	}
}

func TestRequestIDs(t *testing.T) {
	r := start(t)
	for given, kept := range map[string]bool{"abc-1_X": true, "": false, "a b": false, "a\"b": false, strings.Repeat("x", 65): false} {
		if got := r.get("/livez", "X-Request-ID", given).header.Get("X-Request-ID"); got == "" || (got == given) != kept {
			t.Errorf("%q became %q", given, got)
		}
	}
}

func TestManifestThatCannotBeUsed(t *testing.T) {
	r := start(t)
	r.writeManifest("[[[")
	if a := r.get("/contracts"); a.status != 503 || a.json(t)["error"] != "manifest_invalid" || a.json(t)["manifest"].(map[string]any)["line"] == nil {
		t.Errorf("contracts: %d %s", a.status, a.body)
	}
	if a := r.ask("POST", runPath, "{}"); a.status != 503 || a.json(t)["error"] != "manifest_invalid" {
		t.Errorf("run: %d %s", a.status, a.body)
	}
	if a := r.get("/readyz"); a.status != 503 {
		t.Errorf("readyz: %d", a.status)
	}
	r.writeManifest(pyproject)
	if a := r.get("/contracts"); a.status != 200 {
		t.Errorf("repaired: %d %s", a.status, a.body)
	}
	r.writeManifest("[[[")
	if a := r.get("/contracts"); a.status != 200 {
		t.Errorf("the last good one: %d %s", a.status, a.body)
	}
	health := r.get("/health").json(t)["manifest"].(map[string]any)
	if health["ok"] != false || len(health["faults"].([]any)) != 1 {
		t.Errorf("health says %v", health)
	}
}

func TestBrokenContract(t *testing.T) {
	r := start(t)
	r.writeManifest(pyproject + `
[tool.comfygit.workflows.broken.execution_contract]
api_prompt_file = "workflow_api/solid.json"
[tool.comfygit.workflows.broken.execution_contract.contracts.default]
inputs = [ { type = "integer" } ]
outputs = []
`)
	a := r.get("/contracts/broken/default")
	if a.status != 503 || a.json(t)["manifest"].(map[string]any)["workflow"] != "broken" {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := r.ask("POST", "/contracts/broken/default/run", "{}"); a.status != 503 {
		t.Errorf("run: %d %s", a.status, a.body)
	}
	if a := r.ask("POST", runPath, `{"wait": true}`); a.status != 200 {
		t.Errorf("the others: %d %s", a.status, a.body)
	}
}

func TestHealthNamesUnusableGraphs(t *testing.T) {
	r := start(t)
	path := filepath.Join(r.env, ".cec", "workflow_api", "solid.json")
	messages := func() map[string]bool {
		found := map[string]bool{}
		for _, f := range r.get("/health").json(t)["manifest"].(map[string]any)["faults"].([]any) {
			place := f.(map[string]any)
			found[place["workflow"].(string)+" "+place["contract"].(string)] = place["file"] == "workflow_api/solid.json"
		}
		return found
	}
	all := map[string]bool{"solid default": true, "solid preview": true, "a/b % default": true}
	must(t, os.WriteFile(path, []byte(`{"nodes": [], "links": []}`), 0o644))
	if diff := cmp.Diff(all, messages()); diff != "" {
		t.Errorf("in UI format: %s", diff)
	}
	must(t, os.Remove(path))
	if diff := cmp.Diff(all, messages()); diff != "" {
		t.Errorf("missing: %s", diff)
	}
	must(t, os.WriteFile(path, []byte(graph), 0o644))
	if diff := cmp.Diff(map[string]bool{}, messages()); diff != "" {
		t.Errorf("repaired: %s", diff)
	}
}

// TestFailuresAreLogged: what is the server's fault is told at a level that is
// on, what is the client's is not.
func TestFailuresAreLogged(t *testing.T) {
	r := start(t)
	r.run(`{"wait": true}`)
	if a := r.ask("POST", runPath, `{"inputs": 1}`); a.status != http.StatusBadRequest {
		t.Fatal(a.status)
	}
	must(t, os.Rename(r.store.Path(), r.store.Path()+".aside"))
	if a := r.ask("POST", runPath, "{}"); a.status != http.StatusServiceUnavailable {
		t.Fatal(a.status)
	}
	levels := map[string]string{}
	for line := range strings.Lines(r.log.String()) {
		var level, status string
		if _, err := fmt.Sscanf(line[strings.Index(line, "level="):], "level=%s", &level); err != nil || !strings.Contains(line, `msg="request failed"`) {
			continue
		}
		status, _, _ = strings.Cut(line[strings.Index(line, "status=")+len("status="):], " ")
		levels[status] = level
	}
	if diff := cmp.Diff(map[string]string{"400": "DEBUG", "503": "WARN"}, levels); diff != "" {
		t.Error(diff)
	}
}
