package main

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func filled(g goal, sidecar, reference, raw float64) row {
	r := blank("rate", "GET /health", "/s", g)
	r.set(sidecarRole, sidecar)
	r.set(referenceRole, reference)
	r.set(rawRole, raw)
	return r
}

func TestVerdict(t *testing.T) {
	nan := math.NaN()
	for name, c := range map[string]struct {
		row  row
		want verdict
	}{
		"no goal":                          {filled(goal{}, 1, 2, 3), unjudged},
		"times the reference, reached":     {filled(atLeast(overPeer, 10), 1000, 100, nan), met},
		"times the reference, just short":  {filled(atLeast(overPeer, 10), 999, 100, nan), missed},
		"share of the reference, reached":  {filled(atMost(overPeer, 0.1), 10, 100, nan), met},
		"share of the reference, too much": {filled(atMost(overPeer, 0.1), 11, 100, nan), missed},
		"without reference":                {filled(atLeast(overPeer, 10), 1000, nan, nan), unknown},
		"without sidecar":                  {filled(atLeast(overPeer, 10), nan, 100, nan), unknown},
		"own figure, reached":              {filled(atMost(value, 15), 15, nan, nan), met},
		"own figure, too much":             {filled(atMost(value, 15), 15.1, 1000, 1), missed},
		"share of raw, reached":            {filled(atLeast(overRaw, 0.6), 60, nan, 100), met},
		"share of raw, too little":         {filled(atLeast(overRaw, 0.6), 59, 1, 100), missed},
		"more than raw, within":            {filled(atMost(aboveRaw, 20), 25, nan, 5), met},
		"more than raw, too much":          {filled(atMost(aboveRaw, 20), 25.1, nan, 5), missed},
		"more than raw, raw not measured":  {filled(atMost(aboveRaw, 20), 1, nan, nan), unknown},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.row.verdict(); got != c.want {
				t.Errorf("verdict %q, want %q", got, c.want)
			}
		})
	}
}

func TestFigure(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0.00", 0.0488: "0.0488", 0.5: "0.50", 5.904: "5.90", 65.91: "65.9", 502.4: "502", 1000: "1,000", 38882.4: "38,882", 1234567: "1,234,567", -1500: "-1,500", -3: "-3.00",
	} {
		if got := figure(v); got != want {
			t.Errorf("figure(%v) = %q, want %q", v, got, want)
		}
	}
	if got := figure(math.NaN()); got != "–" {
		t.Errorf("figure(NaN) = %q", got)
	}
}

func TestTable(t *testing.T) {
	broken := blank("wait", "waiting calls", "", goal{})
	broken.err = errors.New("sidecar: status 500\nmore")
	got := table([]row{
		filled(atLeast(overPeer, 50), 52000, 110, 38000),
		filled(atMost(value, 15), 20, math.NaN(), math.NaN()),
		broken,
	})
	want := strings.Join([]string{
		"measure        unit  sidecar  reference     raw  of reference  of raw  wanted",
		"GET /health    /s     52,000        110  38,000          473×   1.37×  ≥ 50× reference  ok",
		"GET /health    /s       20.0          –       –             –       –  ≤ 15             MISSED",
		"waiting calls              –          –       –             –       –                   FAILED: sidecar: status 500",
		"",
	}, "\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func TestReport_names_what_was_missed(t *testing.T) {
	broken := blank("wait", "waiting calls", "", goal{})
	broken.err = errors.New("status 500")
	r := report{machine: machine{CPU: "Abacus", Cores: 2, OS: "linux/amd64", Go: "go1.26", Date: time.Unix(0, 0).UTC()}, notes: []string{"Reference: none."}, rows: []row{
		filled(atLeast(overPeer, 50), 52000, 110, 1), filled(atMost(value, 15), 20, 1, 1), filled(atLeast(overPeer, 50), 1, math.NaN(), 1), broken,
	}}
	if diff := cmp.Diff([]string{"GET /health", "waiting calls"}, r.missed()); diff != "" {
		t.Errorf("missed (-want +got):\n%s", diff)
	}
	var out strings.Builder
	if err := r.write(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Abacus, 2 cores, linux/amd64, go1.26, 1970-01-01T00:00:00Z\n", "Reference: none.\n", "MISSED: GET /health; waiting calls\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

func TestReport_json_leaves_out_what_was_not_measured(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bench.json")
	r := report{rows: []row{filled(atLeast(overPeer, 50), 100, math.NaN(), 200)}}
	if err := r.writeJSON(path); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Rows []map[string]any `json:"rows"`
	}
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	want := []map[string]any{{"group": "rate", "measure": "GET /health", "unit": "/s", "sidecar": 100., "raw": 200., "of_raw": 0.5, "wanted": "≥ 50× reference", "verdict": "unknown"}}
	if diff := cmp.Diff(want, got.Rows); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}
