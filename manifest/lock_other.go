//go:build !unix

package manifest

import "os"

// lockedElsewhere cannot tell here: the lock is one of Unix.
func lockedElsewhere(*os.File) bool { return false }
