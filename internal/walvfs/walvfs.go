// Package walvfs lets SQLite write what a commit adds to the write-ahead log
// in few system calls instead of two for each page. The bytes of the log, its
// order and its syncs stay as they are.
//
// It is a shim over the VFS of the system. What is written to a log waits in
// memory until the file is synced, or read, or written elsewhere. So it is for
// connections with synchronous=FULL alone: there a commit syncs the log before
// others are told of it (wal.c, sqlite3WalFrames).
package walvfs

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

const name = "studio-wal"

// Name registers the VFS with SQLite at the first call. It returns what the
// parameter vfs of a connection string has to be.
var Name = sync.OnceValues(register)

// system is the VFS below, ours a copy of it with an xOpen of its own. SQLite
// keeps a pointer to ours as long as the process lives.
var (
	system uintptr
	ours   lib.Tsqlite3_vfs
	behind uintptr // where a logFile stands behind the system's file, in bytes
)

func register() (string, error) {
	tls := libc.NewTLS()
	defer tls.Close()
	if system = lib.Xsqlite3_vfs_find(tls, 0); system == 0 {
		return "", errors.New("SQLite has no VFS for this system")
	}
	text, err := libc.CString(name)
	if err != nil {
		return "", fmt.Errorf("register the VFS %s: %w", name, err)
	}
	ours = *at[lib.Tsqlite3_vfs](system)
	const align = unsafe.Alignof(logFile{})
	behind = (uintptr(ours.FszOsFile) + align - 1) &^ (align - 1)
	ours.FszOsFile = int32(behind + unsafe.Sizeof(logFile{}))
	ours.FzName = text
	ours.FxOpen = pointer(open)
	if code := lib.Xsqlite3_vfs_register(tls, uintptr(unsafe.Pointer(&ours)), 0); code != lib.SQLITE_OK {
		return "", fmt.Errorf("register the VFS %s: SQLite's code %d", name, code)
	}
	return name, nil
}

// open is xOpen: the file of a log gets our methods.
func open(tls *libc.TLS, _, path, file uintptr, flags int32, outFlags uintptr) int32 {
	opened := function[func(*libc.TLS, uintptr, uintptr, uintptr, int32, uintptr) int32](at[lib.Tsqlite3_vfs](system).FxOpen)
	code := opened(tls, system, path, file, flags, outFlags)
	if code != lib.SQLITE_OK || flags&lib.SQLITE_OPEN_WAL == 0 {
		return code
	}
	buffer := libc.Xmalloc(tls, room)
	if buffer == 0 {
		return lib.SQLITE_OK // the system's own methods do as well
	}
	base := &at[lib.Tsqlite3_file](file).FpMethods
	log := logOf(file)
	*log = logFile{system: *at[lib.Tsqlite3_io_methods](*base), buffer: buffer}
	log.ours = log.system
	log.ours.FxClose = pointer(closeLog)
	log.ours.FxRead = pointer(readLog)
	log.ours.FxWrite = pointer(writeLog)
	log.ours.FxTruncate = pointer(truncateLog)
	log.ours.FxSync = pointer(syncLog)
	log.ours.FxFileSize = pointer(sizeLog)
	log.ours.FxFileControl = pointer(controlLog)
	*base = uintptr(unsafe.Pointer(&log.ours))
	return lib.SQLITE_OK
}

// The pointers of C are numbers to Go. What they name here is SQLite's memory
// or a variable of this package, neither of which moves.

// at is what an address names.
func at[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// bytesAt are the n bytes at an address.
func bytesAt(address uintptr, n int) []byte { return unsafe.Slice(at[byte](address), n) }

// function is the Go function behind a pointer that C would call.
func function[F any](address uintptr) F { return *(*F)(unsafe.Pointer(&address)) }

// pointer is what C would call a function by. It must be no closure: nothing
// would keep one alive.
func pointer[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&f)) }
