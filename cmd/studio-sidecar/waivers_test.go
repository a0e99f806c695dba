package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// waiver excuses a difference from the reference in the judge's eyes.
type waiver struct{ Case, Step, Path, Reason string }

// place sorts waivers by case, number of the step, path.
func (w waiver) place() string {
	number, _, _ := strings.Cut(w.Step, ":")
	n, err := strconv.Atoi(number)
	if err != nil {
		n = 1_000_000
	}
	return w.Case + "\x00" + strconv.Itoa(10_000_000+n) + "\x00" + w.Step + "\x00" + w.Path
}

// TestWaiversAreNarrow: each names its case, step and path, of which at most
// an index is left open, and why it is one.
func TestWaiversAreNarrow(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "docs", "parity-waivers.json"))
	if err != nil {
		t.Fatal(err)
	}
	var waivers []waiver
	if err := json.Unmarshal(raw, &waivers); err != nil {
		t.Fatal(err)
	}
	reason := regexp.MustCompile(`^(decision (\d+(, \d+)*|on the cookie)|addition|OpenAPI): \S.*[^.]$`)
	last := ""
	for i, w := range waivers {
		if at := w.place(); at <= last {
			t.Errorf("%d: %s %s %s is out of order, or there twice", i, w.Case, w.Step, w.Path)
		} else {
			last = at
		}
		if strings.ContainsAny(w.Case+w.Step, "*") || strings.Contains(strings.ReplaceAll(w.Path, "[*]", ""), "*") {
			t.Errorf("%d: %s %s %s waives more than it names", i, w.Case, w.Step, w.Path)
		}
		if w.Case == "" || w.Step == "" || w.Path == "" || !reason.MatchString(w.Reason) {
			t.Errorf("%d: %+v", i, w)
		}
	}
	t.Logf("%d waivers", len(waivers))
}
