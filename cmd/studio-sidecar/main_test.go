package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"studio-sidecar": main, "fakecomfy": fakeComfy, "statedb": stateDB})
}

// fakeComfy serves a small ComfyUI at the port of its argument until it is
// interrupted, with the input folder of its second.
func fakeComfy() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	l, err := net.Listen("tcp", "127.0.0.1:"+os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	fake := comfyfake.New(comfyfake.Options{Dir: os.Args[2]})
	context.AfterFunc(ctx, func() { _ = fake.Close() })
	if err := fake.Serve(l); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// freePort finds a port that nobody listens at just now.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), nil
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:  filepath.Join("testdata", "script"),
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"waitfor": waitFor, "exits": exits, "damage": damage},
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("TMPDIR", e.WorkDir)
			port, err := freePort()
			e.Setenv("COMFY_PORT", port)
			e.Setenv("STUDIO_SIDECAR_COMFY_URL", "http://127.0.0.1:"+port)
			return err
		},
	})
}

// waitFor waits until a file is there.
func waitFor(ts *testscript.TestScript, _ bool, args []string) {
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			ts.Fatalf("%s did not come", args[0])
		}
	}
}

// exits runs a program that has to end with a code.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || strconv.Itoa(exit.ExitCode()) != args[0] {
		ts.Fatalf("%v: %v, want code %s", args[1:], err, args[0])
	}
}

// damage changes a letter of an event's time in a state database.
func damage(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	data, err := os.ReadFile(path)
	ts.Check(err)
	at := bytes.LastIndex(data, []byte("run_completed"))
	if at < 0 {
		ts.Fatalf("there is no event in %s", path)
	}
	data[at] ^= 1
	ts.Check(os.WriteFile(path, data, 0o644))
}

// binary builds the program without the race detector, once: what is killed
// and measured is what people run.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "studio-sidecar-test-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "studio-sidecar")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
})

// startFake serves a small ComfyUI on loopback until the test ends.
func startFake(t *testing.T, o comfyfake.Options) (*comfyfake.Server, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	fake := comfyfake.New(o)
	served := make(chan error, 1)
	go func() { served <- fake.Serve(l) }()
	t.Cleanup(func() {
		if err := errors.Join(fake.Close(), <-served); err != nil {
			t.Error(err)
		}
	})
	return fake, "http://" + l.Addr().String()
}

// process is a running sidecar.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	url  string
	err  bytes.Buffer
	ends sync.Once
}

// start runs the sidecar on an environment folder and returns when it listens.
func start(t *testing.T, env, comfy string, flags ...string) *process {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"--env-dir", env, "serve", "--port", "0", "--announce", "--comfy-url", comfy}, flags...)
	p := &process{t: t, cmd: exec.Command(path, args...)}
	p.cmd.Stderr = &p.err
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.end(syscall.SIGKILL) })
	line, err := bufio.NewReader(out).ReadString('\n')
	var announced struct{ URL string }
	if err == nil {
		err = json.Unmarshal([]byte(line), &announced)
	}
	if err != nil {
		p.end(syscall.SIGKILL)
		t.Fatalf("no announcement: %v\n%s", err, p.err.String())
	}
	p.url = announced.URL
	return p
}

// end signals the process, once, and waits for it.
func (p *process) end(sig syscall.Signal) {
	p.ends.Do(func() {
		if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
			p.t.Error(err)
		}
		_ = p.cmd.Wait() // how a killed process ended is no news
	})
}

type answer struct {
	status int
	body   []byte
}

func (a answer) decode(t *testing.T, v any) {
	t.Helper()
	if err := json.Unmarshal(a.body, v); err != nil {
		t.Fatalf("%v in %s", err, a.body)
	}
}

// ask sends a request as session "me".
func (p *process) ask(ctx context.Context, method, path, body string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, p.url+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("X-ComfyGit-Studio-Session", "me")
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, raw}, err
}

// must is ask that fails the test when there is no answer.
func (p *process) must(method, path, body string) answer {
	p.t.Helper()
	a, err := p.ask(p.t.Context(), method, path, body)
	if err != nil {
		p.t.Fatalf("%s %s: %v\n%s", method, path, err, p.err.String())
	}
	return a
}

// eventually waits until ok, asking again and again.
func eventually(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(limit)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}
