package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

const (
	// lockWait is how long a start waits for the one before it to end.
	lockWait = 5 * time.Second
	// lockPause is how often it looks; the kernel tells nobody.
	lockPause = 50 * time.Millisecond
)

// errHeld means that another process, or another Store, holds the lock.
var errHeld = errors.New("it is held")

// fileLock is an advisory lock that the kernel frees when its holder dies.
type fileLock struct {
	file    *os.File
	created bool
}

// tryLock takes the lock of path, or returns errHeld. The file that was locked
// may have been removed meanwhile by whoever held it; then the next one is.
func tryLock(path string) (*fileLock, error) {
	for {
		lock, err := openLock(path)
		if err != nil {
			return nil, err
		}
		if err := lockFile(lock.file); err != nil {
			return nil, errors.Join(err, lock.file.Close())
		}
		if lock.current(path) {
			return lock, nil
		}
		if err := lock.file.Close(); err != nil {
			return nil, fmt.Errorf("close %s: %w", path, err)
		}
	}
}

func openLock(path string) (*fileLock, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err == nil {
		return &fileLock{file: file, created: true}, nil
	}
	if !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("create the lock file: %w", err)
	}
	file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the lock file: %w", err)
	}
	return &fileLock{file: file}, nil
}

func (l *fileLock) current(path string) bool {
	mine, err := l.file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(mine, there)
}

// release frees the lock. The file stays: removing it could leave two holders.
func (l *fileLock) release() error { return l.file.Close() }

// discard frees a lock of something that turned out not to be ours, and takes
// the file away if it was not there before.
func (l *fileLock) discard() error {
	if !l.created {
		return l.release()
	}
	return removeLocked(l.file)
}

// lockPath is beside the file itself, whatever links lead to it: one file, one
// lock.
func lockPath(database string) string { return realPath(database) + ".lock" }

// waitLock takes the lock of a database, waiting for it as long as asked; it
// says once that it does.
func waitLock(ctx context.Context, database string, wait time.Duration, say func(string)) (*fileLock, error) {
	path := lockPath(database)
	deadline := time.Now().Add(wait)
	for {
		lock, err := tryLock(path)
		if err == nil {
			return lock, nil
		}
		if !errors.Is(err, errHeld) {
			return nil, refusal(database, "its lock file cannot be used",
				"Check that its folder exists and can be written to.", err)
		}
		if !time.Now().Before(deadline) {
			return nil, heldError(database, path)
		}
		if say != nil {
			say(heldError(database, path).Message)
			say = nil
		}
		timer := time.NewTimer(min(lockPause, time.Until(deadline)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("wait for %s: %w", path, ctx.Err())
		}
	}
}

func heldError(database, path string) *sidecar.Error {
	holder := "another process"
	if pid, _ := readLock(path); pid != "" {
		holder = "process " + pid
	}
	return &sidecar.Error{
		Code:    sidecar.CodeStorage,
		Message: fmt.Sprintf("state database %s: %s is using it", database, holder),
		Hint:    "Stop that process, or choose another file with --state-db.",
		Err:     errHeld,
	}
}
