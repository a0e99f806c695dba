//go:build linux

package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

// The test binary is also the process that tests kill, starve or cut off. The
// first variable says what it does, the second on which file.
const (
	childRole = "SQLITE_TEST_ROLE"
	childPath = "SQLITE_TEST_PATH"
)

// child plays a role if there is one to play.
func child() bool {
	roles := map[string]func(*sqlite.Store) error{
		"many":    writeMany,
		"one":     writeOne,
		"mixed":   writeMixed,
		"open":    writeNothing,
		"prune":   pruneAll,
		"starved": writeStarved,
		"fsync":   writeUnsynced,
		"nospace": writeSpaceless,
		"stopped": writeWhenTold,
	}
	if os.Getenv(childRole) == "" {
		return false
	}
	runtime.LockOSThread() // the tracer counts by thread; who writes alone does all on its own
	if os.Getenv(childRole) == "restore" {
		path := os.Getenv(childPath)
		restored, err := sqlite.Restore(context.Background(), path+".backup", path)
		fmt.Println(restored.Runs, restored.Replaced, err)
		return true
	}
	if os.Getenv(childRole) == "backup" {
		from, to, _ := strings.Cut(os.Getenv(childPath), " ")
		if err := backup(from, to); err != nil {
			fmt.Println(err)
		}
		return true
	}
	role := roles[os.Getenv(childRole)]
	if role == nil {
		return false
	}
	store, err := sqlite.Open(context.Background(), sqlite.Options{Path: os.Getenv(childPath)})
	if err == nil {
		err = errors.Join(role(store), store.Close())
	}
	if err != nil {
		fmt.Println("error", err)
	}
	return true
}

// backup copies a file that another process writes.
func backup(from, to string) error {
	r, err := sqlite.OpenReader(context.Background(), from)
	if err != nil {
		return err
	}
	_, err = r.Backup(context.Background(), to)
	return errors.Join(err, r.Close())
}

// process is a child that a test started, and the lines that it writes.
type process struct {
	command *exec.Cmd
	input   io.WriteCloser
	lines   *bufio.Scanner
}

// start runs the test binary in a role, below the words of prefix.
func start(t *testing.T, role, path string, prefix ...string) *process {
	t.Helper()
	words := append(prefix, os.Args[0])
	command := exec.Command(words[0], words[1:]...)
	command.Env = append(os.Environ(), childRole+"="+role, childPath+"="+path)
	command.Stderr = os.Stderr
	in, inErr := command.StdinPipe()
	out, err := command.StdoutPipe()
	if err = errors.Join(inErr, err); err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return &process{command, in, bufio.NewScanner(out)}
}

// kill ends the child at once and returns what it had still written.
func (p *process) kill(t *testing.T) (rest []string) {
	t.Helper()
	if err := p.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	return p.rest(t)
}

func (p *process) rest(t *testing.T) (rest []string) {
	t.Helper()
	for p.lines.Scan() {
		rest = append(rest, p.lines.Text())
	}
	var exit *exec.ExitError
	if err := p.command.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return rest
}

// writeMany creates and moves runs from eight goroutines until it is killed.
// Each line is an acknowledged change: a run and its revision.
func writeMany(store *sqlite.Store) error {
	ctx := context.Background()
	var out sync.Mutex
	var writers sync.WaitGroup
	first := store.Head()
	for w := range 8 {
		writers.Go(func() {
			for n := int(first) * 1000; ; n++ {
				run := newRun(sidecar.Scope(fmt.Sprintf("w%03d", w)), n)
				if err := put(store, run); err != nil {
					fmt.Println("error", err)
					return
				}
				acknowledge(&out, run)
				for _, sig := range []sidecar.Signal{{Kind: sidecar.SignalHanding}, accepted(), {Kind: sidecar.SignalFinished}} {
					moved, err := store.Update(ctx, run.ID, func(r *sidecar.Run) ([]sidecar.Event, error) {
						return r.Apply(sig, r.UpdatedAt), nil
					})
					if err != nil {
						fmt.Println("error", err)
						return
					}
					acknowledge(&out, moved)
				}
			}
		})
	}
	writers.Wait()
	return nil
}

func acknowledge(out *sync.Mutex, run *sidecar.Run) {
	out.Lock()
	defer out.Unlock()
	fmt.Println(run.ID, run.Revision)
}

// writeOne makes runs one after the other and tells the length of the log
// after each.
func writeOne(store *sqlite.Store) error {
	for n := 1; ; n++ {
		run := newRun("alice", n)
		if err := put(store, run); err != nil {
			return err
		}
		info, err := os.Stat(store.Path() + "-wal")
		if err != nil {
			return err
		}
		fmt.Println(n, info.Size())
	}
}

// writeStarved writes until a limit on the size of files stops it, reads all
// the same, and goes on when the limit is lifted.
func writeStarved(store *sqlite.Store) error {
	signal.Ignore(syscall.SIGXFSZ)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	low := limit
	low.Cur = 1 << 20
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &low); err != nil {
		return err
	}
	made, err := fill(store, 1)
	fmt.Println("made", made)
	fmt.Println("refused", err)
	page, err := store.Runs(context.Background(), sidecar.RunFilter{Scope: "alice", Limit: 1})
	fmt.Println("read", len(page.Runs), err)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	return put(store, newRun("alice", 1_000_000))
}

// fill makes runs until one is refused, at most 10,000.
func fill(store *sqlite.Store, from int) (made int, err error) {
	for n := from; n < from+10_000; n++ {
		run := newRun("alice", n)
		run.Workflow = strings.Repeat("w", 2000)
		if err := put(store, run); err != nil {
			return made, err
		}
		made++
	}
	return made, errors.New("nothing was refused")
}

// unsyncedRuns is how many runs writeUnsynced makes when nothing fails.
const unsyncedRuns = 50

// writeUnsynced writes below a tracer that makes one fsync fail.
func writeUnsynced(store *sqlite.Store) error {
	for n := 1; n <= unsyncedRuns; n++ {
		run := newRun("alice", n)
		err := put(store, run)
		if err == nil {
			fmt.Println("made", n)
			continue
		}
		fmt.Println("refused", n, err)
		again := put(store, newRun("alice", 1000))
		page, err := store.Runs(context.Background(), sidecar.RunFilter{Scope: "alice", Limit: 1})
		fmt.Println("again", again == nil, store.Trouble() != nil, n == 1 || len(page.Runs) == 1)
		return err
	}
	return nil
}

// noSpaceRuns is how many runs writeSpaceless makes at least.
const noSpaceRuns = 60

// writeSpaceless writes below a tracer that makes one write fail, until a run is
// made after it.
func writeSpaceless(store *sqlite.Store) error {
	for n := 1; n < 2*noSpaceRuns; n++ {
		if err := put(store, newRun("alice", n)); err != nil {
			fmt.Println("refused", n, err)
			continue
		}
		fmt.Println("made", n)
		if n >= noSpaceRuns {
			return nil
		}
	}
	return nil
}

// writeWhenTold makes a run after each line of its input until one is refused.
func writeWhenTold(store *sqlite.Store) error {
	input := bufio.NewScanner(os.Stdin)
	for n := 1; ; n++ {
		if err := put(store, newRun("alice", n)); err != nil {
			fmt.Println("refused", n, err)
			fmt.Println("again", put(store, newRun("alice", 1000)) == nil)
			return nil
		}
		fmt.Println("made", n)
		if !input.Scan() {
			return input.Err()
		}
	}
}
