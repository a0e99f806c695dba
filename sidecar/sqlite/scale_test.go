package sqlite_test

import (
	"flag"
	"math/rand/v2"
	"os"
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
