package main

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain lets the test program play the raw copy, as the bench itself does.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == rawCommand {
		if err := serveRaw(os.Args[2], os.Args[3], os.Stdin); err != nil {
			os.Stderr.WriteString(err.Error()) //nolint:errcheck // nobody is left to tell
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}
