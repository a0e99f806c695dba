//go:build linux

package sqlite_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/comfygit-ai/studio-sidecar/internal/need"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

// injected runs the test binary in a role below a tracer that makes system
// calls fail, and returns the lines that it wrote.
func injected(t *testing.T, role, path, fault string) []string {
	t.Helper()
	tracer := need.Command(t, "strace")
	return start(t, role, path, tracer, "-f", "-qq", "-o", os.DevNull, "-e", "inject="+fault).rest(t)
}

// TestFailedSync makes one fsync fail, at many places, those of the start too:
// what was acknowledged stays, what was refused may be there or not, and
// nothing is written until the file is opened anew.
func TestFailedSync(t *testing.T) {
	positions, starts, runs, missed := fully(4, 10), 0, 0, 0
	for i := range positions {
		path := filepath.Join(t.TempDir(), "state.db")
		when := 1 + 5*i
		lines := injected(t, "fsync", path, fmt.Sprintf("fsync,fdatasync:error=EIO:when=%d", when))
		if len(lines) > 0 && strings.HasPrefix(lines[0], "error") {
			if starts++; !strings.Contains(lines[0], path) || strings.Contains(lines[0], "damaged") {
				t.Errorf("fsync %d: %q does not name the file", when, lines[0])
			}
			create(t, open(t, path), newRun("alice", 1))
			continue
		}
		if len(lines) < 2 {
			t.Fatalf("fsync %d: %q", when, lines)
		}
		if len(lines) == unsyncedRuns {
			missed++ // of a folder: SQLite goes on, as do those who know none
			continue
		}
		runs++
		made := len(lines) - 2
		if !strings.HasPrefix(lines[made], fmt.Sprintf("refused %d ", made+1)) || !strings.Contains(lines[made], "may or may not") ||
			!strings.Contains(lines[made], path) {
			t.Errorf("fsync %d: %q", when, lines[made])
		}
		diff(t, "again false true true", lines[made+1])
		store := open(t, path)
		if n := count(t, store, "SELECT count(*) FROM runs"); n != made && n != made+1 {
			t.Errorf("fsync %d: %d runs, %d were acknowledged", when, n, made)
		}
		history(t, store)
	}
	if runs == 0 {
		t.Error("no run was hit")
	}
	t.Logf("%d failed fsyncs, %d of them while starting, and %d that SQLite can do without: no false acknowledgement", starts+runs, starts, missed)
}

// TestNoSpaceForOneWrite makes one write fail for lack of space, at many
// places: what was refused is not there, and the next one works.
func TestNoSpaceForOneWrite(t *testing.T) {
	positions, starts, refusals := fully(4, 20), 0, 0
	for i := range positions {
		path := filepath.Join(t.TempDir(), "state.db")
		when := 5 + 100/positions*i
		lines := injected(t, "nospace", path, fmt.Sprintf("pwrite64:error=ENOSPC:when=%d", when))
		if len(lines) > 0 && strings.HasPrefix(lines[0], "error") {
			if starts++; !strings.Contains(lines[0], path) || strings.Contains(lines[0], "damaged") {
				t.Errorf("write %d: %q does not name the file", when, lines[0])
			}
			create(t, open(t, path), newRun("alice", 1))
			continue
		}
		acknowledged := 0
		for _, line := range lines {
			switch {
			case strings.HasPrefix(line, "made"):
				acknowledged++
			case strings.HasPrefix(line, "refused") && strings.Contains(line, "no space left") && strings.Contains(line, path):
				refusals++
			default:
				t.Errorf("write %d: %q", when, line)
			}
		}
		store := open(t, path)
		if n := count(t, store, "SELECT count(*) FROM runs"); n != acknowledged || !strings.HasPrefix(lines[len(lines)-1], "made") {
			t.Errorf("write %d: %d runs, %d were acknowledged, and last %q", when, n, acknowledged, lines[len(lines)-1])
		}
		history(t, store)
	}
	if refusals == 0 {
		t.Error("no write was hit")
	}
	t.Logf("%d writes without space, %d of them while starting, %d runs refused: nothing half written, all went on", positions, starts, refusals)
}

// TestReadOnlyFolder: a state database that cannot be written is refused with
// its path and stays as it is, with and without a log; reading it works; and
// no new one is made.
func TestReadOnlyFolder(t *testing.T) {
	need.That(t, os.Getuid() == 0, "root, to mount a folder read-only")
	left := filepath.Join(t.TempDir(), "state.db")
	writer := start(t, "one", left)
	for range 5 {
		writer.lines.Scan()
	}
	writer.kill(t)
	for _, c := range []struct {
		name     string
		log      bool
		file     bool
		readable bool
	}{{"whole", false, true, true}, {"with_a_log", true, true, false}, {"none", false, false, false}} {
		t.Run(c.name, func(t *testing.T) {
			folder := t.TempDir()
			path := filepath.Join(folder, "state.db")
			if c.file {
				write(t, path, readFile(t, left))
			}
			if c.log {
				write(t, path+"-wal", readFile(t, left+"-wal"))
			} else if c.file {
				write(t, path+"-wal", readFile(t, left+"-wal"))
				closeStore(t, open(t, path)) // moves the log into the file
			}
			before := content(t, path)
			readOnly(t, folder)
			store, err := sqlite.Open(context.Background(), sqlite.Options{Path: path, LockWait: -1})
			if err == nil {
				closeStore(t, store)
				t.Fatal("it was opened")
			}
			var told *sidecar.Error
			if !errors.As(err, &told) || !strings.Contains(told.Message, path) || told.Hint == "" {
				t.Errorf("got %v", err)
			}
			diff(t, before, content(t, path))
			if reader, err := sqlite.OpenReader(context.Background(), path); (err == nil) != c.readable {
				t.Errorf("reading: %v", err)
			} else if err == nil {
				report, err := reader.Verify(context.Background())
				if err := errors.Join(err, reader.Close()); err != nil || len(report.Faults) > 0 || report.Runs == 0 {
					t.Errorf("got %+v, %v", report, err)
				}
			}
		})
	}
}

// content is what a folder holds beside the lock.
func content(t *testing.T, path string) map[string]string {
	t.Helper()
	files := folder(t, path)
	delete(files, "state.db.lock")
	return files
}

// readOnly mounts a folder over itself so that nobody can write in it.
func readOnly(t *testing.T, folder string) {
	t.Helper()
	need.That(t, exec.Command("mount", "--bind", folder, folder).Run() == nil, "the right to mount a folder")
	t.Cleanup(func() {
		if err := exec.Command("umount", folder).Run(); err != nil {
			t.Error(err)
		}
	})
	if err := exec.Command("mount", "-o", "remount,bind,ro", folder).Run(); err != nil {
		t.Fatal(err)
	}
}

// TestPausedHolder: a process that was stopped, and overtaken where locks do
// not hold, cannot write when it goes on.
func TestPausedHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	holder := start(t, "stopped", path)
	for range 2 {
		holder.lines.Scan()
		if got := holder.lines.Text(); !strings.HasPrefix(got, "made") {
			t.Fatal(got)
		}
		if err := holder.command.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		if err := holder.command.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintln(holder.input, "go on"); err != nil {
			t.Fatal(err)
		}
	}
	holder.lines.Scan()
	if err := holder.command.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	// As on a file system that forgets locks.
	if err := os.Remove(path + ".lock"); err != nil {
		t.Fatal(err)
	}
	store := open(t, path)
	create(t, store, newRun("bobby", 1))
	if err := holder.command.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintln(holder.input, "go on"); err != nil {
		t.Fatal(err)
	}
	lines := holder.rest(t)
	if len(lines) != 2 || !strings.Contains(lines[0], "refused") || !strings.Contains(lines[0], path) || !strings.Contains(lines[0], "another process") {
		t.Errorf("got %q", lines)
	}
	diff(t, "again false", lines[len(lines)-1])
	create(t, store, newRun("bobby", 2))
	if n := count(t, store, "SELECT count(*) FROM runs"); n != 5 {
		t.Errorf("%d runs, 5 were acknowledged", n)
	}
	history(t, store)
}

// TestDamagedFiles damages files at random: each is refused untouched with its
// path, or opens with all that it held, or verification finds what is wrong.
// Cells of the reference's tables carry no sum: one bit of them may be another.
// None is ever replaced by a new one.
func TestDamagedFiles(t *testing.T) {
	source := filepath.Join(t.TempDir(), "state.db")
	store := open(t, source)
	const runs = 40
	for n := range runs {
		endedRun(t, store, "alice", n)
	}
	closeStore(t, store)
	whole := readFile(t, source)
	want := dump(t, source)
	choose := random()
	ends := map[string]int{}
	files := fully(20, 50)
	for i := range files {
		data := append([]byte(nil), whole...)
		page := choose.IntN(len(data)/4096) * 4096
		switch i % 5 {
		case 0: // a page of nothing
			clear(data[page : page+4096])
		case 1: // a shorter file
			data = data[:choose.IntN(len(data))]
		case 2: // another page in its place
			copy(data[page:page+4096], data[choose.IntN(len(data)/4096)*4096:])
		case 3: // nonsense within a page
			for range 64 {
				data[page+choose.IntN(4096)] = byte(choose.IntN(256))
			}
		case 4: // one bit
			data[choose.IntN(len(data))] ^= 1 << choose.IntN(8)
		}
		path := filepath.Join(t.TempDir(), "state.db")
		write(t, path, data)
		end := damagedEnd(t, path, data, want)
		if end == "" && i%5 == 4 {
			end = "a bit of a cell that no sum covers"
		}
		if end == "" {
			end = "silently something else"
			t.Logf("file %d (%d bytes, page %d): %s", i, len(data), page/4096, end)
			if i%5 != 4 {
				t.Error("only a single bit may go unnoticed, in a cell that no event tells of")
			}
		}
		ends[end]++
	}
	t.Logf("%d damaged files: %v", files, ends)
	if most := 1 + files/50; ends["silently something else"] > most {
		t.Errorf("more than %d went unnoticed", most)
	}
}

// damagedEnd says how a damaged file ended; "" when badly.
func damagedEnd(t *testing.T, path string, data []byte, want string) string {
	t.Helper()
	store, err := sqlite.Open(context.Background(), sqlite.Options{Path: path, LockWait: -1})
	if err != nil {
		var told *sidecar.Error
		if !errors.As(err, &told) || !strings.Contains(told.Message, path) {
			t.Errorf("got %v", err)
		}
		if !bytes.Equal(data, readFile(t, path)) {
			t.Error("it was refused, and changed")
		}
		return "refused"
	}
	defer closeStore(t, store)
	report, err := store.Verify(context.Background())
	switch {
	case err != nil, len(report.Faults) > 0:
		return "found by verification"
	case len(data) == 0:
		return "empty, so a new one"
	}
	closeStore(t, store)
	if dump(t, path) != want {
		return ""
	}
	return "nothing that counts"
}

func TestFullDisk(t *testing.T) {
	need.That(t, os.Getuid() == 0, "root, to mount a small disk")
	disk := t.TempDir()
	mount := func(options string) error {
		return exec.Command("mount", "-t", "tmpfs", "-o", options, "tmpfs", disk).Run()
	}
	need.That(t, mount("size=4m") == nil, "the right to mount a small disk")
	t.Cleanup(func() {
		if err := exec.Command("umount", disk).Run(); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(disk, "state.db")
	store := open(t, path)
	made, err := fill(store, 1)
	refused(t, err, path)
	if store.Trouble() == nil {
		t.Error("there is no trouble")
	}
	if _, runs := runIDs(t, store, sidecar.RunFilter{Scope: "alice"}); len(runs) != made {
		t.Errorf("%d runs are read, %d were made", len(runs), made)
	}
	if err := mount("remount,size=32m"); err != nil {
		t.Fatal(err)
	}
	until(t, "the trouble ends by itself", func() bool { return store.Trouble() == nil })
	create(t, store, newRun("alice", 1_000_000))
	history(t, store)
}

func refused(t *testing.T, err error, path string) {
	t.Helper()
	var told *sidecar.Error
	if !errors.As(err, &told) || told.Code != sidecar.CodeStorage || !strings.Contains(told.Message, path) || !strings.Contains(told.Message, "space") {
		t.Errorf("got %v", err)
	}
}

func TestLimitedFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	lines := start(t, "starved", path).rest(t)
	if len(lines) != 3 {
		t.Fatalf("got %q", lines)
	}
	var made int
	if _, err := fmt.Sscanf(lines[0], "made %d", &made); err != nil || made == 0 {
		t.Errorf("got %q", lines[0])
	}
	if !strings.Contains(lines[1], path) || !strings.Contains(lines[1], "no space left") {
		t.Errorf("got %q", lines[1])
	}
	diff(t, "read 1 <nil>", lines[2])
	store := open(t, path)
	if n := count(t, store, "SELECT count(*) FROM runs"); n != made+1 {
		t.Errorf("%d runs, %d were acknowledged", n, made+1)
	}
	history(t, store)
}
