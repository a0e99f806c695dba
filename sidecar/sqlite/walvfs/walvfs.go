// Package walvfs lets SQLite write what a commit adds to the write-ahead log
// in few system calls instead of two for each page. The bytes of the log, its
// order and its syncs stay as they are.
//
// It is a shim over the VFS of the system. What is written to a log waits in
// memory until the file is synced, or read, or written elsewhere, and at the
// latest until SQLite lets go of the lock under which it wrote: others write
// there then. Who reads the log is told of a commit when it is synced; so this
// is for connections with synchronous=FULL, which sync each (wal.c,
// sqlite3WalFrames), and locking_mode=NORMAL, which let go of the lock.
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
	behind uintptr // where a file of ours stands behind the system's, in bytes
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
	const align = unsafe.Alignof(file{})
	behind = (uintptr(ours.FszOsFile) + align - 1) &^ (align - 1)
	ours.FszOsFile = int32(behind + unsafe.Sizeof(file{}))
	ours.FzName = text
	ours.FxOpen = pointer(open)
	if code := lib.Xsqlite3_vfs_register(tls, uintptr(unsafe.Pointer(&ours)), 0); code != lib.SQLITE_OK {
		return "", fmt.Errorf("register the VFS %s: SQLite's code %d", name, code)
	}
	return name, nil
}

// open is xOpen: a database and its log get our methods.
func open(tls *libc.TLS, _, path, handle uintptr, flags int32, outFlags uintptr) int32 {
	opened := function[func(*libc.TLS, uintptr, uintptr, uintptr, int32, uintptr) int32](at[lib.Tsqlite3_vfs](system).FxOpen)
	code := opened(tls, system, path, handle, flags, outFlags)
	if code != lib.SQLITE_OK {
		return code
	}
	switch {
	case flags&lib.SQLITE_OPEN_MAIN_DB != 0:
		wrap(handle).ours.FxShmLock = pointer(lockDatabase)
	case flags&lib.SQLITE_OPEN_WAL != 0:
		openLog(tls, handle, lib.Xsqlite3_database_file_object(tls, path))
	}
	return lib.SQLITE_OK
}

// wrap gives a file of the system a table of methods of its own.
func wrap(handle uintptr) *file {
	f, methods := fileOf(handle), &at[lib.Tsqlite3_file](handle).FpMethods
	*f = file{system: *at[lib.Tsqlite3_io_methods](*methods)}
	f.ours = f.system
	*methods = uintptr(unsafe.Pointer(&f.ours))
	return f
}

func fileOf(handle uintptr) *file { return at[file](handle + behind) }

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
