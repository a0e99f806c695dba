package walvfs

import (
	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// room is how much waits at most, in bytes. The VFS of Unix writes no more at
// once (os_unix.c, seekAndWriteFd); a commit of thirty pages adds as much.
const room = 1<<17 - 1

// logFile stands behind the system's file of a log, in SQLite's memory. SQLite
// calls the methods of one file one at a time.
type logFile struct {
	ours, system lib.Tsqlite3_io_methods
	buffer       uintptr // room bytes, where what was written waits
	waiting      int     // bytes of it
	start        int64   // the place in the file of the first
}

func logOf(file uintptr) *logFile { return at[logFile](file + behind) }

type (
	transfer = func(tls *libc.TLS, file, data uintptr, n int32, offset int64) int32
	about    = func(tls *libc.TLS, file, out uintptr) int32
)

func (l *logFile) end() int64 { return l.start + int64(l.waiting) }

// flush writes what waits. What cannot be written waits on.
func (l *logFile) flush(tls *libc.TLS, file uintptr) int32 {
	if l.waiting == 0 {
		return lib.SQLITE_OK
	}
	code := function[transfer](l.system.FxWrite)(tls, file, l.buffer, int32(l.waiting), l.start)
	if code == lib.SQLITE_OK {
		l.waiting = 0
	}
	return code
}

// settle is flush for calls whose failure ends the transaction: what cannot be
// written is given up with it, and SQLite writes over its place next.
func (l *logFile) settle(tls *libc.TLS, file uintptr) int32 {
	code := l.flush(tls, file)
	l.waiting = 0
	return code
}

func writeLog(tls *libc.TLS, file, data uintptr, n int32, offset int64) int32 {
	l := logOf(file)
	if l.waiting > 0 && (offset != l.end() || l.waiting+int(n) > room) {
		if code := l.settle(tls, file); code != lib.SQLITE_OK {
			return code
		}
	}
	if n > room {
		return function[transfer](l.system.FxWrite)(tls, file, data, n, offset)
	}
	if l.waiting == 0 {
		l.start = offset
	}
	copy(bytesAt(l.buffer+uintptr(l.waiting), int(n)), bytesAt(data, int(n)))
	l.waiting += int(n)
	return lib.SQLITE_OK
}

func syncLog(tls *libc.TLS, file uintptr, flags int32) int32 {
	l := logOf(file)
	if code := l.settle(tls, file); code != lib.SQLITE_OK {
		return code
	}
	return function[func(*libc.TLS, uintptr, int32) int32](l.system.FxSync)(tls, file, flags)
}

func readLog(tls *libc.TLS, file, data uintptr, n int32, offset int64) int32 {
	l := logOf(file)
	if offset < l.end() && offset+int64(n) > l.start {
		if code := l.flush(tls, file); code != lib.SQLITE_OK {
			return code
		}
	}
	return function[transfer](l.system.FxRead)(tls, file, data, n, offset)
}

func truncateLog(tls *libc.TLS, file uintptr, size int64) int32 {
	l := logOf(file)
	if code := l.flush(tls, file); code != lib.SQLITE_OK {
		return code
	}
	return function[func(*libc.TLS, uintptr, int64) int32](l.system.FxTruncate)(tls, file, size)
}

func sizeLog(tls *libc.TLS, file, size uintptr) int32 {
	l := logOf(file)
	if code := l.flush(tls, file); code != lib.SQLITE_OK {
		return code
	}
	return function[about](l.system.FxFileSize)(tls, file, size)
}

func controlLog(tls *libc.TLS, file uintptr, operation int32, argument uintptr) int32 {
	l := logOf(file)
	if code := l.flush(tls, file); code != lib.SQLITE_OK {
		return code
	}
	return function[func(*libc.TLS, uintptr, int32, uintptr) int32](l.system.FxFileControl)(tls, file, operation, argument)
}

func closeLog(tls *libc.TLS, file uintptr) int32 {
	l := logOf(file)
	flushed := l.settle(tls, file)
	libc.Xfree(tls, l.buffer)
	code := function[func(*libc.TLS, uintptr) int32](l.system.FxClose)(tls, file)
	if code == lib.SQLITE_OK {
		return flushed
	}
	return code
}
