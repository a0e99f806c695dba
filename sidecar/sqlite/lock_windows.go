package sqlite

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/windows"
)

// errNoSpace is what the system says of a full disk.
const errNoSpace = windows.ERROR_DISK_FULL

// lockFile locks a byte beyond the text, so that others can still read who
// holds the lock.
func lockFile(file *os.File) error {
	at := &windows.Overlapped{Offset: 1 << 20}
	err := windows.LockFileEx(windows.Handle(file.Fd()),
		windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return errHeld
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	return nil
}

// removeLocked: a file that is open cannot be removed here. One that somebody
// else has opened meanwhile is theirs.
func removeLocked(file *os.File) error {
	if err := file.Close(); err != nil {
		return err
	}
	err := os.Remove(file.Name())
	if errors.Is(err, windows.ERROR_SHARING_VIOLATION) {
		return nil
	}
	return err
}

// syncFolder: folders cannot be synced here; the file system's journal does.
func syncFolder(string) error { return nil }

// ownAs: the folder's rights are inherited here.
func ownAs(string, os.FileInfo) error { return nil }

// nameCount is how many names a file has.
func nameCount(path string) (int, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	var info windows.ByHandleFileInformation
	err = windows.GetFileInformationByHandle(windows.Handle(file.Fd()), &info)
	return int(info.NumberOfLinks), errors.Join(err, file.Close())
}
