// Package need says what a test needs beyond Go. A test whose need is missing
// is skipped, and fails where CI is set: there nothing may be missing.
package need

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Command returns the path of the first of names that is installed.
func Command(t testing.TB, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	That(t, false, strings.Join(names, " or "))
	return ""
}

// That goes on when the machine has what is needed.
func That(t testing.TB, has bool, what string) {
	t.Helper()
	switch {
	case has:
	case os.Getenv("CI") != "":
		t.Fatalf("this test needs %s, and in CI nothing may be missing", what)
	default:
		t.Skipf("this test needs %s", what)
	}
}
