package sqlite

import (
	"errors"
	"fmt"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// Errors of this package that a caller may want to tell apart.
var (
	// ErrClosed is returned once Close was called.
	ErrClosed = errors.New("the state database is closed")
	// ErrExists is returned when a run is created a second time.
	ErrExists = errors.New("it exists already")
)

// damage says what a storage error means for the writer.
type damage int

const (
	harmless damage = iota // not of the storage: the statement was wrong
	passing                // nothing was written; may work again at any time
	lasting                // nothing may be written until the file is opened anew
)

// codeOf is SQLite's extended result code, or 0 for an error of another kind.
func codeOf(err error) int {
	var e *driver.Error
	if errors.As(err, &e) {
		return e.Code()
	}
	return 0
}

// damageOf judges an error by its code, never by its text. After a failed
// fsync the kernel may drop the pages and report success the next time: what
// the disk holds is unknown.
func damageOf(err error) damage {
	code := codeOf(err)
	switch code {
	case lib.SQLITE_IOERR_FSYNC, lib.SQLITE_IOERR_DIR_FSYNC, lib.SQLITE_IOERR_CLOSE, lib.SQLITE_IOERR_DIR_CLOSE:
		return lasting
	}
	switch code & 0xff {
	case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB:
		return lasting
	case lib.SQLITE_FULL, lib.SQLITE_IOERR, lib.SQLITE_READONLY, lib.SQLITE_CANTOPEN,
		lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_NOMEM, lib.SQLITE_PROTOCOL:
		return passing
	}
	return harmless
}

// corrupt tells that the file itself is not as SQLite needs it.
func corrupt(err error) bool {
	code := codeOf(err) & 0xff
	return code == lib.SQLITE_CORRUPT || code == lib.SQLITE_NOTADB
}

// storageError is what a client is told of err, with the file's path.
func storageError(path string, err error) *sidecar.Error {
	reason, hint := reasonOf(codeOf(err))
	if damageOf(err) == lasting {
		err = fmt.Errorf("%w: %w", err, sidecar.ErrLasting)
	}
	return &sidecar.Error{
		Code:    sidecar.CodeStorage,
		Message: fmt.Sprintf("state database %s: %s", path, reason),
		Hint:    hint,
		Err:     err,
	}
}

func reasonOf(code int) (reason, hint string) {
	switch {
	case lacksSpace(code):
		return "there is no space left to write to", "Free some space on its disk; writing goes on by itself."
	case code == lib.SQLITE_IOERR_FSYNC || code == lib.SQLITE_IOERR_DIR_FSYNC:
		return "the disk failed to keep what was written, so the last change may or may not be there",
			"Check the disk, then start again; nothing is written until then."
	case code&0xff == lib.SQLITE_CORRUPT || code&0xff == lib.SQLITE_NOTADB:
		return "it is damaged", "Stop, and bring a backup back with: studio-sidecar restore BACKUP"
	case code&0xff == lib.SQLITE_READONLY:
		return "it cannot be written to", "Make the file and its folder writable."
	case code&0xff == lib.SQLITE_CANTOPEN:
		return "it cannot be opened", "Check that its folder exists and can be written to."
	case code&0xff == lib.SQLITE_BUSY || code&0xff == lib.SQLITE_LOCKED:
		return "another program holds it", "Close the program that works on it."
	}
	return "it cannot be read or written", "Look into the log for the cause."
}

// refusal is why a file is not opened; it was not touched.
func refusal(path, reason, hint string, cause error) error {
	return &sidecar.Error{
		Code:    sidecar.CodeStorage,
		Message: fmt.Sprintf("state database %s: %s", path, reason),
		Hint:    hint,
		Err:     cause,
	}
}
