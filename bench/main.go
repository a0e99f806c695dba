// Command bench measures Studio Sidecar beside the server that it replaces and
// beside raw copies, all in one run on one machine, so that the ratios mean
// something.
//
//	go run ./bench                         # everything, in less than five minutes
//	go run ./bench -only wait,view -v      # two groups, with progress
//	go run ./bench -check -json bench.json # exit code 1 when a wanted value is missed
//
// The groups are rate, start, memory, wait, view, accept and large. All servers work
// on the same environment and on the same built-in ComfyUI, listen on loopback
// and get the same requests from the same client. The reference is
// comfygit-studio in the Python that -python names; without it the sidecar is
// measured against raw copies alone. What "raw" is depends on the measure: a
// bare Go server that sends the same bytes (rate, start, memory), one question
// to ComfyUI itself (wait), the same file from ComfyUI itself and a loop that
// copies and does nothing else (view), 1 KiB appended to a file and synced
// (accept).
//
// Memory is read from /proc, so the groups memory and view want Linux.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench: ")
	if len(os.Args) == 4 {
		switch os.Args[1] {
		case rawCommand:
			end(serveRaw(os.Args[2], os.Args[3], os.Stdin))
			return
		case relayCommand:
			end(listen(os.Args[2], relayHandler(os.Args[3]), os.Stdin))
			return
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if !errors.Is(err, flag.ErrHelp) {
		end(err)
	}
}

func end(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// options are the command line.
type options struct {
	python       string
	sidecar      string
	only         string
	json         string
	state        string
	seconds      float64
	limit        time.Duration
	referenceMiB int64
	verbose      bool
	check        bool

	groups []group // what only names
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	names := make([]string, len(groups))
	for i, g := range groups {
		names[i] = g.name
	}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.python, "python", "python3", "`interpreter` that has comfygit-studio; empty for none")
	f.StringVar(&o.sidecar, "sidecar", "", "`program` to measure in place of the one built from this tree; none for none")
	f.StringVar(&o.only, "only", strings.Join(names, ","), "comma separated `list` of groups to measure")
	f.StringVar(&o.json, "json", "", "also write the figures to this `file`")
	f.StringVar(&o.state, "state", "local", "where both servers keep runs: local (on disk) or ephemeral")
	f.Float64Var(&o.seconds, "seconds", 1.5, "how long each rate is measured")
	f.DurationVar(&o.limit, "limit", 8*time.Minute, "how long all measuring may take; what is not measured by then fails")
	f.Int64Var(&o.referenceMiB, "reference-mib", 256, "size in `MiB` of the output that the reference sends; it keeps all of it in memory")
	f.BoolVar(&o.verbose, "v", false, "tell progress and show what the servers say")
	f.BoolVar(&o.check, "check", false, "end with exit code 1 when a wanted value is missed")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	return o, o.settle(f.Args())
}

func (o *options) settle(rest []string) error {
	var faults []error
	if len(rest) > 0 {
		faults = append(faults, fmt.Errorf("%q is no flag", rest[0]))
	}
	if o.seconds <= 0 || o.seconds > 60 {
		faults = append(faults, fmt.Errorf("-seconds: %v is out of range; use more than 0 and at most 60", o.seconds))
	}
	if o.limit <= 0 {
		faults = append(faults, fmt.Errorf("-limit: %v is not a time", o.limit))
	}
	if o.state != "local" && o.state != "ephemeral" {
		faults = append(faults, fmt.Errorf("-state: %q is neither local nor ephemeral", o.state))
	}
	if o.referenceMiB < 1 || o.referenceMiB > 4096 {
		faults = append(faults, fmt.Errorf("-reference-mib: %d is out of range; use 1 to 4096", o.referenceMiB))
	}
	for name := range strings.SplitSeq(o.only, ",") {
		i := slices.IndexFunc(groups, func(g group) bool { return g.name == strings.TrimSpace(name) })
		if i < 0 {
			faults = append(faults, fmt.Errorf("-only: there is no group %q", name))
			continue
		}
		o.groups = append(o.groups, groups[i])
	}
	return errors.Join(faults...)
}

var (
	errMissed      = errors.New("wanted values were missed")
	errInterrupted = errors.New("interrupted")
	errLimit       = errors.New("the time limit was reached")
)

// restTime is how old the environment's files must be when measuring begins: a
// server may look twice at a file that changed just now.
const restTime = 4 * time.Second

// run measures what args ask for and prints the table. Everything that it
// starts and writes is gone when it returns, except for the file of -json.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "studio-sidecar-bench-")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	rep, err := o.measure(ctx, dir, stderr)
	if err != nil {
		return err
	}
	if err := rep.write(stdout); err != nil {
		return fmt.Errorf("print report: %w", err)
	}
	if o.json != "" {
		if err := rep.writeJSON(o.json); err != nil {
			return err
		}
	}
	if o.check && len(rep.missed()) > 0 {
		return errMissed
	}
	return nil
}

func (o options) measure(ctx context.Context, dir string, stderr io.Writer) (rep report, err error) {
	start := time.Now()
	rep.machine = thisMachine(start)
	l, notes, err := o.equip(ctx, dir, stderr)
	if err != nil {
		return rep, err
	}
	rep.notes = notes
	if l.back, err = newBackend(ctx, filepath.Join(dir, "ComfyUI")); err != nil {
		return rep, err
	}
	defer func() { err = errors.Join(err, l.back.close()) }()
	if err := pause(ctx, time.Until(start.Add(restTime))); err != nil {
		return rep, errInterrupted
	}
	limited, cancel := context.WithTimeoutCause(ctx, o.limit, errLimit)
	defer cancel()
	rep.rows = measureAll(limited, l, o.groups)
	rep.took = time.Since(start)
	if ctx.Err() != nil {
		return rep, errInterrupted
	}
	return rep, nil
}

// measureAll measures group after group. One that fails has a row that says so
// beside the rows that it finished; after the end of ctx all of them do.
func measureAll(ctx context.Context, l *lab, groups []group) []row {
	var all []row
	for _, g := range groups {
		l.say("%s: %s", g.name, g.about)
		var rows []row
		err := context.Cause(ctx)
		if err == nil {
			if rows, err = g.measure(ctx, l); err != nil && ctx.Err() != nil {
				err = context.Cause(ctx)
			}
		}
		all = append(all, rows...)
		if err != nil {
			failed := blank(g.name, g.about, "", goal{})
			failed.err = err
			all = append(all, failed)
			l.say("%s: %v", g.name, err)
		}
	}
	return all
}

// equip prepares the contenders and says what there is.
func (o options) equip(ctx context.Context, dir string, stderr io.Writer) (*lab, []string, error) {
	l := &lab{dir: dir, seconds: time.Duration(o.seconds * float64(time.Second)), referenceMiB: o.referenceMiB, say: func(string, ...any) {}}
	var mirror io.Writer
	if o.verbose {
		mirror = stderr
		l.say = func(format string, args ...any) { fmt.Fprintf(stderr, format+"\n", args...) }
	}
	// Each server has a workspace of its own: the reference's questions to git
	// touch the repository, and the sidecar would have to look again.
	spaces := map[role]workspace{}
	for _, who := range []role{sidecarRole, referenceRole} {
		w, err := layWorkspace(ctx, filepath.Join(dir, string(who)))
		if err != nil {
			return nil, nil, err
		}
		spaces[who] = w
	}
	var notes []string
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	if o.sidecar == "none" {
		note("Sidecar: not measured.")
	} else {
		c, err := newSidecar(ctx, dir, o.sidecar, spaces[sidecarRole].envDir(), o.state, mirror)
		if err != nil {
			return nil, nil, err
		}
		l.sidecar = c
		note("Sidecar: %s, state %s.", l.sidecar.version, o.state)
	}
	reference, err := o.findReference(ctx, dir, spaces[referenceRole], mirror)
	switch l.reference = reference; {
	case errors.Is(err, errNoReference):
		note("Reference: none (%v). Measured against raw copies alone.", firstLine(err.Error()))
	case err != nil:
		return nil, nil, err
	default:
		note("Reference: comfygit-studio %s, state %s; it sends %d MiB where the sidecar sends 1 GiB.", l.reference.version, o.state, o.referenceMiB)
	}
	if l.sidecar == nil && l.reference == nil {
		return nil, nil, errors.New("there is nothing to measure: neither a sidecar nor a reference")
	}
	return l, notes, nil
}

func (o options) findReference(ctx context.Context, dir string, w workspace, mirror io.Writer) (*contender, error) {
	if o.python == "" {
		return nil, errNoReference
	}
	return newReference(ctx, dir, o.python, w, o.state, mirror)
}
