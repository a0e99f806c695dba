package walvfs

import (
	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// room is how much waits at most, in bytes. The VFS of Unix writes no more at
// once (os_unix.c, seekAndWriteFd); a commit of thirty pages adds as much.
const room = 1<<17 - 1

// file stands behind the system's file of a database or a log, in SQLite's
// memory. SQLite calls the methods of one connection one at a time.
type file struct {
	ours, system lib.Tsqlite3_io_methods

	log uintptr // of a database: its log while that is open

	database uintptr // of a log: whose it is
	buffer   uintptr // of a log: room bytes, where what was written waits
	waiting  int     // bytes of it
	start    int64   // the place in the file of the first
	// failed is the code with which writing what waited failed. It is gone then,
	// and nothing more is written or synced under the same lock: no commit may
	// have a hole.
	failed int32
}

type transfer = func(tls *libc.TLS, handle, data uintptr, n int32, offset int64) int32

// openLog makes writes to a log of a database of ours wait.
func openLog(tls *libc.TLS, handle, database uintptr) {
	traits := function[func(*libc.TLS, uintptr) int32](fileOf(database).system.FxDeviceCharacteristics)
	if traits(tls, database)&lib.SQLITE_IOCAP_POWERSAFE_OVERWRITE == 0 {
		return // with psow=0 SQLite pads the log after it was synced
	}
	buffer := libc.Xmalloc(tls, room)
	if buffer == 0 {
		return // the system's own methods do as well
	}
	f := wrap(handle)
	f.buffer, f.database, fileOf(database).log = buffer, database, handle
	f.ours.FxClose = pointer(closeLog)
	f.ours.FxRead = pointer(readLog)
	f.ours.FxWrite = pointer(writeLog)
	f.ours.FxTruncate = pointer(truncateLog)
	f.ours.FxSync = pointer(syncLog)
	f.ours.FxFileSize = pointer(sizeLog)
	f.ours.FxFileControl = pointer(controlLog)
}

// lockDatabase is xShmLock: before the lock of those who write to the log is
// let go, what waits is written. Where it cannot be, nobody committed it.
func lockDatabase(tls *libc.TLS, handle uintptr, offset, n, flags int32) int32 {
	const writeLock = 0 // wal.c, WAL_WRITE_LOCK
	f := fileOf(handle)
	if f.log != 0 && offset == writeLock && flags == lib.SQLITE_SHM_UNLOCK|lib.SQLITE_SHM_EXCLUSIVE {
		log := fileOf(f.log)
		log.flush(tls, f.log)
		log.failed = lib.SQLITE_OK
	}
	return function[func(*libc.TLS, uintptr, int32, int32, int32) int32](f.system.FxShmLock)(tls, handle, offset, n, flags)
}

func (f *file) end() int64 { return f.start + int64(f.waiting) }

// flush writes what waits.
func (f *file) flush(tls *libc.TLS, handle uintptr) int32 {
	if f.failed == lib.SQLITE_OK && f.waiting > 0 {
		f.failed = function[transfer](f.system.FxWrite)(tls, handle, f.buffer, int32(f.waiting), f.start)
		f.waiting = 0
	}
	return f.failed
}

func writeLog(tls *libc.TLS, handle, data uintptr, n int32, offset int64) int32 {
	f := fileOf(handle)
	if offset != f.end() || f.waiting+int(n) > room {
		f.flush(tls, handle)
	}
	if f.failed != lib.SQLITE_OK {
		return f.failed
	}
	if n > room {
		return function[transfer](f.system.FxWrite)(tls, handle, data, n, offset)
	}
	if f.waiting == 0 {
		f.start = offset
	}
	copy(bytesAt(f.buffer+uintptr(f.waiting), int(n)), bytesAt(data, int(n)))
	f.waiting += int(n)
	return lib.SQLITE_OK
}

func syncLog(tls *libc.TLS, handle uintptr, flags int32) int32 {
	f := fileOf(handle)
	if code := f.flush(tls, handle); code != lib.SQLITE_OK {
		return code
	}
	return function[func(*libc.TLS, uintptr, int32) int32](f.system.FxSync)(tls, handle, flags)
}

func readLog(tls *libc.TLS, handle, data uintptr, n int32, offset int64) int32 {
	f := fileOf(handle)
	if offset+int64(n) > f.start {
		if code := f.flush(tls, handle); code != lib.SQLITE_OK {
			return code
		}
	}
	return function[transfer](f.system.FxRead)(tls, handle, data, n, offset)
}

func truncateLog(tls *libc.TLS, handle uintptr, size int64) int32 {
	f := fileOf(handle)
	if code := f.flush(tls, handle); code != lib.SQLITE_OK {
		return code
	}
	return function[func(*libc.TLS, uintptr, int64) int32](f.system.FxTruncate)(tls, handle, size)
}

func sizeLog(tls *libc.TLS, handle, size uintptr) int32 {
	f := fileOf(handle)
	if code := f.flush(tls, handle); code != lib.SQLITE_OK {
		return code
	}
	return function[func(*libc.TLS, uintptr, uintptr) int32](f.system.FxFileSize)(tls, handle, size)
}

func controlLog(tls *libc.TLS, handle uintptr, operation int32, argument uintptr) int32 {
	f := fileOf(handle)
	if code := f.flush(tls, handle); code != lib.SQLITE_OK {
		return code
	}
	return function[func(*libc.TLS, uintptr, int32, uintptr) int32](f.system.FxFileControl)(tls, handle, operation, argument)
}

// closeLog: nobody holds a lock any more, so nothing waits that counts.
func closeLog(tls *libc.TLS, handle uintptr) int32 {
	f := fileOf(handle)
	fileOf(f.database).log = 0
	libc.Xfree(tls, f.buffer)
	return function[func(*libc.TLS, uintptr) int32](f.system.FxClose)(tls, handle)
}
