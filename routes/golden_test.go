package routes_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// masks stand for what differs from run to run.
var masks = []struct {
	form *regexp.Regexp
	mask string
}{
	{regexp.MustCompile(`run_[0-9a-f]{32}`), "run_ID"},
	{regexp.MustCompile(`gallery_[0-9a-f]{32}`), "gallery_FAULT"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "PROMPT"},
	{regexp.MustCompile(`"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"`), `"TIME"`},
	{regexp.MustCompile(`solid_[0-9a-f]{10}_`), "solid_TOKEN_"},
	{regexp.MustCompile(`sha256:[0-9a-f]{64}`), "sha256:HEX"},
	{regexp.MustCompile(`"(manifest_revision|prompt_digest|revision)": ?"[0-9a-f:sha]+"`), `"$1":"HEX"`},
	{regexp.MustCompile(`"timestamp": ?\d+`), `"timestamp":0`},
	{regexp.MustCompile(`"revision": ?\d+`), `"revision":0`},
	{regexp.MustCompile(`"next_cursor": ?"[A-Za-z0-9_-]+"`), `"next_cursor":"CURSOR"`},
}

// golden compares an answer with testdata/NAME.json, number by number and
// member by member in their order.
func golden(t *testing.T, name string, body []byte) {
	t.Helper()
	for _, m := range masks {
		body = m.form.ReplaceAll(body, []byte(m.mask))
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, body, "", " "); err != nil {
		t.Fatalf("%s is no JSON: %v\n%s", name, err, body)
	}
	pretty.WriteByte('\n')
	path := filepath.Join("testdata", name+".json")
	if *update {
		must(t, os.MkdirAll("testdata", 0o755))
		must(t, os.WriteFile(path, pretty.Bytes(), 0o644))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if diff := cmp.Diff(string(want), pretty.String()); diff != "" {
		t.Errorf("%s differs from its golden file (-want +got):\n%s", name, diff)
	}
}
