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
	methods lib.Tsqlite3_io_methods
	calls   []string
	refuses int32 // the code with which writing fails
	syncs   int32 // the code with which syncing ends
	traits  int32
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

func unlockDisk(_ *libc.TLS, _ uintptr, offset, _, flags int32) int32 {
	disk.calls = append(disk.calls, fmt.Sprintf("lock %d %d", offset, flags))
	return lib.SQLITE_OK
}

func traitsOfDisk(*libc.TLS, uintptr) int32 { return disk.traits }

func closeDisk(*libc.TLS, uintptr) int32 {
	disk.calls = append(disk.calls, "close")
	return lib.SQLITE_OK
}

type testLog struct {
	*testing.T
	tls      *libc.TLS
	database uintptr
	handle   uintptr
	data     uintptr
}

// onDisk is a log on an empty disk.
func onDisk(t *testing.T) *testLog {
	if _, err := Name(); err != nil {
		t.Fatal(err)
	}
	disk.content, disk.calls, disk.refuses, disk.syncs = [len(disk.content)]byte{}, nil, lib.SQLITE_OK, lib.SQLITE_OK
	disk.methods = lib.Tsqlite3_io_methods{
		FxClose: pointer(closeDisk), FxRead: pointer(readDisk), FxWrite: pointer(writeDisk), FxTruncate: pointer(truncateDisk),
		FxSync: pointer(syncDisk), FxFileSize: pointer(sizeDisk), FxFileControl: pointer(controlDisk), FxShmLock: pointer(unlockDisk),
	}
	disk.traits = lib.SQLITE_IOCAP_POWERSAFE_OVERWRITE
	l := &testLog{T: t, tls: libc.NewTLS()}
	l.database, l.handle, l.data = l.alloc(behind+unsafe.Sizeof(file{})), l.alloc(behind+unsafe.Sizeof(file{})), l.alloc(2*room)
	disk.methods.FxDeviceCharacteristics = pointer(traitsOfDisk)
	for _, handle := range []uintptr{l.database, l.handle} {
		at[lib.Tsqlite3_file](handle).FpMethods = uintptr(unsafe.Pointer(&disk.methods))
	}
	wrap(l.database).ours.FxShmLock = pointer(lockDatabase)
	openLog(l.tls, l.handle, l.database)
	t.Cleanup(func() {
		if fileOf(l.database).log != 0 {
			l.close()
		}
		for _, address := range []uintptr{l.database, l.handle, l.data} {
			libc.Xfree(l.tls, address)
		}
		l.tls.Close()
	})
	return l
}

func (l *testLog) alloc(n uintptr) uintptr { return libc.Xcalloc(l.tls, 1, libc.Tsize_t(n)) }

func (l *testLog) write(text string, offset int64) int32 {
	copy(bytesAt(l.data, len(text)), text)
	return function[transfer](l.methods().FxWrite)(l.tls, l.handle, l.data, int32(len(text)), offset)
}

func (l *testLog) read(n int32, offset int64) (string, int32) {
	code := function[transfer](l.methods().FxRead)(l.tls, l.handle, l.data, n, offset)
	return string(bytesAt(l.data, int(n))), code
}

func (l *testLog) sync() int32 {
	return function[func(*libc.TLS, uintptr, int32) int32](l.methods().FxSync)(l.tls, l.handle, 0)
}

func (l *testLog) truncate(size int64) int32 {
	return function[func(*libc.TLS, uintptr, int64) int32](l.methods().FxTruncate)(l.tls, l.handle, size)
}

func (l *testLog) size() int32 {
	return function[func(*libc.TLS, uintptr, uintptr) int32](l.methods().FxFileSize)(l.tls, l.handle, l.data)
}

func (l *testLog) control() int32 {
	return function[func(*libc.TLS, uintptr, int32, uintptr) int32](l.methods().FxFileControl)(l.tls, l.handle, 0, 0)
}

func (l *testLog) close() int32 {
	return function[func(*libc.TLS, uintptr) int32](l.methods().FxClose)(l.tls, l.handle)
}

// methods are what SQLite calls.
func (l *testLog) methods() *lib.Tsqlite3_io_methods {
	return at[lib.Tsqlite3_io_methods](at[lib.Tsqlite3_file](l.handle).FpMethods)
}

// unlock lets go of the lock of those who write.
func (l *testLog) unlock() {
	l.code(lockDatabase(l.tls, l.database, 0, 1, lib.SQLITE_SHM_UNLOCK|lib.SQLITE_SHM_EXCLUSIVE), lib.SQLITE_OK)
}

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
	l.code(function[transfer](l.methods().FxWrite)(l.tls, l.handle, l.data, room+1, 0), lib.SQLITE_OK)
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
		"truncate to 3": func(l *testLog) int32 { return l.truncate(3) },
		"size":          (*testLog).size,
		"control":       (*testLog).control,
	} {
		t.Run(name, func(t *testing.T) {
			l := onDisk(t)
			l.write("abcd", 0)
			l.code(ask(l), lib.SQLITE_OK)
			l.called("write 4 at 0", name)
		})
	}
}

// TestUnlock: others may write where the log ends as soon as the lock is let
// go; nothing comes after that.
func TestUnlock(t *testing.T) {
	l := onDisk(t)
	l.write("spilled", 0)
	for _, other := range [][2]int32{{0, lib.SQLITE_SHM_LOCK | lib.SQLITE_SHM_EXCLUSIVE}, {3, lib.SQLITE_SHM_UNLOCK | lib.SQLITE_SHM_SHARED}, {1, lib.SQLITE_SHM_UNLOCK | lib.SQLITE_SHM_EXCLUSIVE}} {
		l.code(lockDatabase(l.tls, l.database, other[0], 1, other[1]), lib.SQLITE_OK)
	}
	l.called("lock 0 10", "lock 3 5", "lock 1 9")
	l.unlock()
	l.called("write 7 at 0", "lock 0 9")
	l.code(l.sync(), lib.SQLITE_OK)
	l.write("too late", 0)
	l.code(l.close(), lib.SQLITE_OK)
	l.unlock()
	l.called("sync", "close", "lock 0 9")
}

// TestRefusedWrite: under the lock under which a write failed nothing more is
// written, synced or read behind it, and nothing of it comes up later.
func TestRefusedWrite(t *testing.T) {
	for name, fail := range map[string]func(l *testLog) int32{
		"at the sync": func(l *testLog) int32 { return l.sync() },
		"at the next": func(l *testLog) int32 { return l.write("far", 100) },
		"at a read":   func(l *testLog) int32 { _, code := l.read(4, 8); return code },
		"at the size": (*testLog).size,
	} {
		t.Run(name, func(t *testing.T) {
			l := onDisk(t)
			l.write("old.", 0)
			l.sync()
			l.unlock()
			disk.calls = nil
			l.write("lost", 8)
			disk.refuses = lib.SQLITE_FULL
			l.code(fail(l), lib.SQLITE_FULL)
			l.called("write 4 at 8")
			disk.refuses = lib.SQLITE_OK
			l.code(l.write("hole", 12), lib.SQLITE_FULL)
			l.code(l.sync(), lib.SQLITE_FULL)
			_, code := l.read(4, 8)
			l.code(code, lib.SQLITE_FULL)
			l.called()
			if got, code := l.read(4, 0); got != "old." || code != lib.SQLITE_OK {
				t.Errorf("before the hole: %q, %d", got, code)
			}
			l.unlock()
			l.called("read 4 at 0", "lock 0 9")
			l.write("kept", 4)
			l.code(l.sync(), lib.SQLITE_OK)
			l.called("write 4 at 4", "sync")
			l.holds("old.kept\x00\x00\x00\x00")
		})
	}
}

func TestRefusedAtTheUnlock(t *testing.T) {
	l := onDisk(t)
	l.write("spilled", 0)
	disk.refuses = lib.SQLITE_FULL
	l.unlock()
	disk.refuses = lib.SQLITE_OK
	l.write("kept", 0)
	l.code(l.sync(), lib.SQLITE_OK)
	l.called("write 7 at 0", "lock 0 9", "write 4 at 0", "sync")
	l.holds("kept\x00\x00\x00")
}

func TestFailedSync(t *testing.T) {
	l := onDisk(t)
	l.write("abcd", 0)
	disk.syncs = lib.SQLITE_IOERR_FSYNC
	l.code(l.sync(), lib.SQLITE_IOERR_FSYNC)
	l.called("write 4 at 0", "sync")
}

// TestPaddedLog: where overwriting is not safe, SQLite adds to the log after it
// was synced, and tells of it before it lets go of its lock.
func TestPaddedLog(t *testing.T) {
	l := onDisk(t)
	disk.traits = lib.SQLITE_IOCAP_SAFE_APPEND
	padded := l.alloc(behind + unsafe.Sizeof(file{}))
	defer libc.Xfree(l.tls, padded)
	theirs := uintptr(unsafe.Pointer(&disk.methods))
	at[lib.Tsqlite3_file](padded).FpMethods = theirs
	openLog(l.tls, padded, l.database)
	if at[lib.Tsqlite3_file](padded).FpMethods != theirs {
		t.Error("its writes wait")
	}
}
