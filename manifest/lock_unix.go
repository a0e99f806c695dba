//go:build unix

package manifest

import (
	"os"

	"golang.org/x/sys/unix"
)

// lockedElsewhere tells whether another process holds the file exclusively.
func lockedElsewhere(f *os.File) bool {
	for {
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err {
		case unix.EINTR:
		case unix.EWOULDBLOCK:
			return true
		default:
			// Closing the file gives the shared lock back.
			return false
		}
	}
}
