package sqlite_test

import (
	"flag"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

var seed = flag.Uint64("seed", 1, "seed of the tests that choose at random")

func random() *rand.Rand { return rand.New(rand.NewPCG(*seed, 2)) }

// fully is how much of a test is run: all where STUDIO_FULL is set.
func fully(some, all int) int {
	if os.Getenv("STUDIO_FULL") != "" {
		return all
	}
	return some
}

// budget bounds how many cases of a property are tried, unless the caller says
// how many or all is to be run.
func budget(t *testing.T, checks int) {
	t.Helper()
	f := flag.Lookup("rapid.checks")
	set := func(value string) {
		if err := f.Value.Set(value); err != nil {
			t.Fatal(err)
		}
	}
	if before := f.Value.String(); before == f.DefValue {
		set(strconv.Itoa(fully(checks, 100)))
		t.Cleanup(func() { set(before) })
	}
}
