//go:build unix

package upload

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// tryLock locks a file until it is closed, or its process ends.
func tryLock(file *os.File) (lockState, error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return lockUnknown, err
	}
	var locked error
	if err := raw.Control(func(fd uintptr) { locked = unix.Flock(int(fd), unix.LOCK_EX|unix.LOCK_NB) }); err != nil {
		return lockUnknown, err
	}
	switch {
	case locked == nil:
		return lockTaken, nil
	case errors.Is(locked, unix.EWOULDBLOCK):
		return lockHeld, nil
	}
	return lockUnknown, nil // a file system without locks
}

// syncNames makes the names in the folder durable.
func (f *Folder) syncNames() error {
	dir, err := f.root.Open(".")
	if err != nil {
		return err
	}
	err = dir.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		err = nil // a file system that cannot
	}
	if err := errors.Join(err, dir.Close()); err != nil {
		return fmt.Errorf("sync the folder: %w", err)
	}
	return nil
}
