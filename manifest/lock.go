package manifest

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// lockFile is what a writer of the environment locks while it works.
const lockFile = ".comfygit.lock"

// BusyError says that another program is changing the environment.
type BusyError struct {
	// Owner is what that program wrote about itself: an object with pid,
	// operation and acquired_at; nil when it wrote nothing.
	Owner json.RawMessage
}

// Error names what is being done and by which process, where that is known.
func (e *BusyError) Error() string {
	var owner struct {
		PID       int    `json:"pid"`
		Operation string `json:"operation"`
	}
	if json.Unmarshal(e.Owner, &owner) != nil || owner.Operation == "" {
		return "The environment is being changed by another program."
	}
	return fmt.Sprintf("The environment is being changed: %s (process %d).", owner.Operation, owner.PID)
}

// Busy is a *BusyError while a writer holds the environment's operation lock
// (an exclusive flock on Dir/.comfygit.lock), else nil. It never waits, and
// never creates the lock's file.
func (e Environment) Busy() error {
	f, err := os.Open(filepath.Join(e.Dir, lockFile))
	if err != nil {
		return nil // no lock file, or none that we may read: nobody is known to write
	}
	defer func() { _ = f.Close() }()
	if !lockedElsewhere(f) {
		return nil
	}
	owner, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil || !json.Valid(owner) {
		owner = nil
	}
	return &BusyError{Owner: owner}
}
