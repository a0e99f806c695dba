package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// startLimit is how long a server may take to its first answer.
	startLimit = 60 * time.Second
	// stopLimit is how long a server may take to end by itself.
	stopLimit = 5 * time.Second
	// startPoll is how often a starting server is asked whether it is there.
	startPoll = 500 * time.Microsecond
)

// process is a running server. All servers of the bench end when their
// standard input does, so that none outlives the bench, however it ends.
type process struct {
	addr  string
	pid   int
	took  time.Duration // from the start to the first good answer
	end   context.CancelFunc
	ended chan struct{}
	group sync.WaitGroup
	out   *tail
}

// launch starts a command that will listen at addr and waits for the first
// good answer of /health.
func launch(ctx context.Context, addr string, mirror io.Writer, name string, args []string, env []string) (*process, error) {
	// The process is ended by stop, not by the end of ctx: the caller stops
	// what it started in any case.
	own, end := context.WithCancel(context.WithoutCancel(ctx))
	p := &process{addr: addr, end: end, ended: make(chan struct{}), out: &tail{mirror: mirror}}
	cmd := exec.CommandContext(own, name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = p.out, p.out
	life, err := cmd.StdinPipe()
	if err != nil {
		end()
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	cmd.Cancel = life.Close
	cmd.WaitDelay = stopLimit
	start := time.Now()
	if err := cmd.Start(); err != nil {
		end()
		return nil, fmt.Errorf("start: %w", err)
	}
	p.pid = cmd.Process.Pid
	p.group.Go(func() {
		defer close(p.ended)
		cmd.Wait() //nolint:errcheck // how it ended shows in its output
	})
	if err := p.await(ctx); err != nil {
		p.stop()
		return nil, fmt.Errorf("start %s: %w\n%s", name, err, p.out)
	}
	p.took = time.Since(start)
	return p, nil
}

// stop ends the process: by the end of its standard input, and by force when
// it takes longer than stopLimit.
func (p *process) stop() {
	p.end()
	p.group.Wait()
}

var errEnded = errors.New("the process has ended")

func (p *process) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	ask := request("GET", p.addr, "/health", "", nil)
	tick := time.NewTicker(startPoll)
	defer tick.Stop()
	for {
		_, err := once(ctx, p.addr, ask)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.ended:
			return errEnded
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// resident is the process's memory in MiB, as the kernel counts it.
func (p *process) resident() (float64, error) { return p.memory("VmRSS") }

// peak is the most memory in MiB since forgetPeak.
func (p *process) peak() (float64, error) { return p.memory("VmHWM") }

func (p *process) forgetPeak() error {
	if err := os.WriteFile(p.proc("clear_refs"), []byte("5"), 0); err != nil {
		return fmt.Errorf("reset peak memory: %w", err)
	}
	return nil
}

func (p *process) proc(file string) string { return "/proc/" + strconv.Itoa(p.pid) + "/" + file }

func (p *process) memory(field string) (float64, error) {
	text := procField(p.proc("status"), field)
	kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(text, "kB")), 64)
	if err != nil {
		return 0, fmt.Errorf("read %s of process %d (memory is read from /proc): %w", field, p.pid, err)
	}
	return kib / 1024, nil
}

// freeAddr is a loopback address that nobody listens at.
func freeAddr(ctx context.Context) (string, error) {
	var cfg net.ListenConfig
	l, err := cfg.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().String(), l.Close()
}

// tailSize is how much of a server's output is kept.
const tailSize = 4 << 10

// tail keeps the end of what is written to it, and passes all on to mirror
// unless that is nil.
type tail struct {
	mirror io.Writer

	mu   sync.Mutex
	last []byte
}

// Write never fails: output is for people.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, p...)
	if extra := len(t.last) - tailSize; extra > 0 {
		t.last = append(t.last[:0], t.last[extra:]...)
	}
	if t.mirror != nil {
		t.mirror.Write(p) //nolint:errcheck // see above
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.last)
}
