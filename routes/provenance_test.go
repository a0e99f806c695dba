package routes_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestProvenance(t *testing.T) {
	r := start(t)
	revision := r.get("/contracts").json(t)["manifest_revision"]
	ref := r.get("/health").json(t)["environment_ref"]
	run := r.run(`{"wait": true}`)
	id := run["run_id"].(string)
	for name, doc := range map[string]map[string]any{
		"contracts": r.get("/contracts").json(t), "contract": r.get("/contracts/solid/default").json(t), "run": run,
		"receipt": r.run(`{}`), "details": r.get("/runs/" + id).json(t)["run"].(map[string]any),
	} {
		if doc["manifest_revision"] != revision || revision == nil {
			t.Errorf("%s: revision %v", name, doc["manifest_revision"])
		}
		if diff := cmp.Diff(ref, doc["environment_ref"]); diff != "" {
			t.Errorf("%s: environment_ref %s", name, diff)
		}
	}
	for name, doc := range map[string]any{
		"details": r.get("/runs/" + id).json(t)["run"], "list": r.get("/runs").json(t)["runs"].([]any)[0], "run": run,
	} {
		digest, _ := doc.(map[string]any)["prompt_digest"].(string)
		if len(digest) != 64 {
			t.Errorf("%s: prompt_digest %q", name, digest)
		}
	}
	before := r.get("/contracts").header.Get("ETag")
	r.writeManifest(pyproject + "\n[tool.other]\nx = 1\n")
	if a := r.get("/contracts"); a.json(t)["manifest_revision"] == revision || a.header.Get("ETag") == before {
		t.Errorf("a changed manifest keeps its revision: %s", a.body)
	}
}
