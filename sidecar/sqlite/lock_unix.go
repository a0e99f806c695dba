//go:build unix

package sqlite

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// errNoSpace is what the system says of a full disk.
const errNoSpace = unix.ENOSPC

func lockFile(file *os.File) error {
	err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errHeld
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	return nil
}

// removeLocked removes a file before its lock is freed: whoever waits for that
// shall see that it is gone.
func removeLocked(file *os.File) error {
	return errors.Join(os.Remove(file.Name()), file.Close())
}

// syncFolder makes the entry of a new file durable.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// ownAs gives a file to the owner of another one.
func ownAs(path string, info os.FileInfo) error {
	mine, err := os.Stat(path)
	if err != nil {
		return err
	}
	has, ok := mine.Sys().(*syscall.Stat_t)
	wanted, also := info.Sys().(*syscall.Stat_t)
	if !ok || !also || has.Uid == wanted.Uid && has.Gid == wanted.Gid {
		return nil
	}
	return os.Chown(path, int(wanted.Uid), int(wanted.Gid))
}

// nameCount is how many names a file has.
func nameCount(path string) (int, error) {
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		return 0, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return int(stat.Nlink), nil
}
