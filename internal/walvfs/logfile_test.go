package walvfs

import (
	"fmt"
	"slices"
	"testing"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// disk is the system's file below a log; its calls are functions of C, which
// have no receiver.
var disk struct {
	content [1 << 20]byte
	calls   []string
	refuses int32 // the code with which writing fails
	syncs   int32 // the code with which syncing ends
}

func writeDisk(_ *libc.TLS, _, data uintptr, n int32, offset int64) int32 {
	disk.calls = append(disk.calls, fmt.Sprintf("write %d at %d", n, offset))
	if disk.refuses != lib.SQLITE_OK {
		return disk.refuses
	}
	copy(disk.content[offset:], bytesAt(data, int(n)))
	return lib.SQLITE_OK
}

func readDisk(_ *libc.TLS, _, data uintptr, n int32, offset int64) int32 {
	disk.calls = append(disk.calls, fmt.Sprintf("read %d at %d", n, offset))
	copy(bytesAt(data, int(n)), disk.content[offset:])
	return lib.SQLITE_OK
}

func syncDisk(*libc.TLS, uintptr, int32) int32 {
	disk.calls = append(disk.calls, "sync")
	return disk.syncs
}

func truncateDisk(_ *libc.TLS, _ uintptr, size int64) int32 {
	disk.calls = append(disk.calls, fmt.Sprintf("truncate to %d", size))
	return lib.SQLITE_OK
}

func sizeDisk(*libc.TLS, uintptr, uintptr) int32 {
	disk.calls = append(disk.calls, "size")
	return lib.SQLITE_OK
}

func controlDisk(*libc.TLS, uintptr, int32, uintptr) int32 {
	disk.calls = append(disk.calls, "control")
	return lib.SQLITE_OK
}

func closeDisk(*libc.TLS, uintptr) int32 {
	disk.calls = append(disk.calls, "close")
	return lib.SQLITE_OK
}

type testLog struct {
	*testing.T
	tls  *libc.TLS
	file uintptr
	data uintptr
}

// onDisk is a log on an empty disk.
func onDisk(t *testing.T) *testLog {
	if _, err := Name(); err != nil {
		t.Fatal(err)
	}
	disk.content, disk.calls, disk.refuses, disk.syncs = [len(disk.content)]byte{}, nil, lib.SQLITE_OK, lib.SQLITE_OK
	l := &testLog{T: t, tls: libc.NewTLS()}
	l.file = libc.Xcalloc(l.tls, 1, libc.Tsize_t(behind+unsafe.Sizeof(logFile{})))
	l.data = libc.Xcalloc(l.tls, 1, 2*room)
	*logOf(l.file) = logFile{
		system: lib.Tsqlite3_io_methods{
			FxClose: pointer(closeDisk), FxRead: pointer(readDisk), FxWrite: pointer(writeDisk), FxTruncate: pointer(truncateDisk),
			FxSync: pointer(syncDisk), FxFileSize: pointer(sizeDisk), FxFileControl: pointer(controlDisk),
		},
		buffer: libc.Xmalloc(l.tls, room),
	}
	t.Cleanup(func() {
		libc.Xfree(l.tls, l.file)
		libc.Xfree(l.tls, l.data)
		l.tls.Close()
	})
	return l
}

func (l *testLog) write(text string, offset int64) int32 {
	copy(bytesAt(l.data, len(text)), text)
	return writeLog(l.tls, l.file, l.data, int32(len(text)), offset)
}

func (l *testLog) read(n int32, offset int64) (string, int32) {
	code := readLog(l.tls, l.file, l.data, n, offset)
	return string(bytesAt(l.data, int(n))), code
}

func (l *testLog) sync() int32 { return syncLog(l.tls, l.file, 0) }

// called compares the calls since the last look.
func (l *testLog) called(want ...string) {
	l.Helper()
	if !slices.Equal(disk.calls, want) {
		l.Errorf("the system was asked to %q, want %q", disk.calls, want)
	}
	disk.calls = nil
}

func (l *testLog) code(got, want int32) {
	l.Helper()
	if got != want {
		l.Errorf("code %d, want %d", got, want)
	}
}

func (l *testLog) holds(want string) {
	l.Helper()
	if got := string(disk.content[:len(want)]); got != want {
		l.Errorf("the disk has %q, want %q", got, want)
	}
}

func TestWritesWaitForTheSync(t *testing.T) {
	l := onDisk(t)
	l.code(l.write("head", 0), lib.SQLITE_OK)
	l.code(l.write("page", 4), lib.SQLITE_OK)
	l.called()
	l.code(l.sync(), lib.SQLITE_OK)
	l.called("write 8 at 0", "sync")
	l.holds("headpage")
	l.code(l.sync(), lib.SQLITE_OK)
	l.called("sync")
}

func TestWriteElsewhere(t *testing.T) {
	l := onDisk(t)
	l.write("abcd", 0)
	l.write("xy", 1) // over what waits
	l.called("write 4 at 0")
	l.write("far", 100)
	l.called("write 2 at 1")
	l.sync()
	l.called("write 3 at 100", "sync")
	l.holds("axyd")
}

func TestMoreThanThereIsRoomFor(t *testing.T) {
	l := onDisk(t)
	const size = 4096
	for i := range int64(room/size + 1) {
		l.code(l.write(string(make([]byte, size)), i*size), lib.SQLITE_OK)
	}
	l.called(fmt.Sprintf("write %d at 0", room/size*size))
	l.code(writeLog(l.tls, l.file, l.data, room+1, 0), lib.SQLITE_OK)
	l.called(fmt.Sprintf("write %d at %d", size, room/size*size), fmt.Sprintf("write %d at 0", room+1))
}

func TestReadSeesWhatWaits(t *testing.T) {
	l := onDisk(t)
	l.write("old.", 0)
	l.sync()
	l.write("new.", 4)
	l.called("write 4 at 0", "sync")
	if got, code := l.read(4, 0); got != "old." || code != lib.SQLITE_OK {
		t.Errorf("%q, %d", got, code)
	}
	l.called("read 4 at 0") // nothing of it waits
	if got, code := l.read(4, 3); got != ".new" || code != lib.SQLITE_OK {
		t.Errorf("%q, %d", got, code)
	}
	l.called("write 4 at 4", "read 4 at 3")
}

func TestOthersFindWhatWaits(t *testing.T) {
	for name, ask := range map[string]func(l *testLog) int32{
		"truncate to 3": func(l *testLog) int32 { return truncateLog(l.tls, l.file, 3) },
		"size":          func(l *testLog) int32 { return sizeLog(l.tls, l.file, l.data) },
		"control":       func(l *testLog) int32 { return controlLog(l.tls, l.file, 0, 0) },
		"close":         func(l *testLog) int32 { return closeLog(l.tls, l.file) },
	} {
		t.Run(name, func(t *testing.T) {
			l := onDisk(t)
			l.write("abcd", 0)
			l.code(ask(l), lib.SQLITE_OK)
			l.called("write 4 at 0", name)
		})
	}
}

// TestRefusedWrite: where SQLite ends the transaction, what could not be
// written goes with it and does not come up in the next one.
func TestRefusedWrite(t *testing.T) {
	for name, fail := range map[string]func(l *testLog) int32{
		"at the sync":  func(l *testLog) int32 { return l.sync() },
		"at the next":  func(l *testLog) int32 { return l.write("far", 100) },
		"at the close": func(l *testLog) int32 { return closeLog(l.tls, l.file) },
	} {
		t.Run(name, func(t *testing.T) {
			l := onDisk(t)
			l.write("lost", 8)
			disk.refuses = lib.SQLITE_FULL
			l.code(fail(l), lib.SQLITE_FULL)
			if name == "at the close" {
				l.called("write 4 at 8", "close")
				return
			}
			l.called("write 4 at 8")
			disk.refuses = lib.SQLITE_OK
			l.write("kept", 0)
			l.code(l.sync(), lib.SQLITE_OK)
			l.called("write 4 at 0", "sync")
			l.holds("kept\x00\x00\x00\x00\x00")
		})
	}
}

// TestRefusedBeforeRead: a transaction may go on after a read that failed, so
// that nothing of it may be missing then.
func TestRefusedBeforeRead(t *testing.T) {
	l := onDisk(t)
	l.write("abcd", 0)
	disk.refuses = lib.SQLITE_FULL
	_, code := l.read(4, 0)
	l.code(code, lib.SQLITE_FULL)
	disk.refuses = lib.SQLITE_OK
	l.write("efgh", 4)
	l.code(l.sync(), lib.SQLITE_OK)
	l.holds("abcdefgh")
}

func TestFailedSync(t *testing.T) {
	l := onDisk(t)
	l.write("abcd", 0)
	disk.syncs = lib.SQLITE_IOERR_FSYNC
	l.code(l.sync(), lib.SQLITE_IOERR_FSYNC)
	l.called("write 4 at 0", "sync")
}
