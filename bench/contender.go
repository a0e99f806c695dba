package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// role is a column of the table.
type role string

const (
	sidecarRole   role = "sidecar"
	referenceRole role = "reference"
	rawRole       role = "raw"
)

// contender is a program that can be started and measured.
type contender struct {
	role    role
	version string
	mirror  io.Writer // gets the program's output; nil: nobody
	// command is the command line for a server at addr.
	command func(place) []string
}

// place is where a server of the bench works.
type place struct {
	addr     string
	comfyURL string
	database string
}

func (p place) port() string {
	_, port, _ := net.SplitHostPort(p.addr) //nolint:errcheck // made by freeAddr
	return port
}

func (c *contender) start(ctx context.Context, comfyURL, database string) (*process, error) {
	addr, err := freeAddr(ctx)
	if err != nil {
		return nil, err
	}
	line := c.command(place{addr, comfyURL, database})
	return launch(ctx, addr, c.mirror, line[0], line[1:], []string{"NO_PROXY=*"})
}

const sidecarPackage = "github.com/comfygit-ai/studio-sidecar/cmd/studio-sidecar"

// newSidecar builds the sidecar into dir, unless a program is named.
func newSidecar(ctx context.Context, dir, program, envDir, state string, mirror io.Writer) (*contender, error) {
	if program == "" {
		program = filepath.Join(dir, "studio-sidecar")
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", program, sidecarPackage)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build the sidecar: %w\n%s", err, out)
		}
	}
	version, err := exec.CommandContext(ctx, program, "version").Output()
	if err != nil {
		return nil, fmt.Errorf("%s version: %w", program, err)
	}
	return &contender{
		role: sidecarRole, version: strings.TrimSpace(string(version)), mirror: mirror,
		command: func(p place) []string {
			return []string{program, "--env-dir", envDir, "--log-level", "warn", "serve", "--port", p.port(),
				"--comfy-url", p.comfyURL, "--state", state, "--state-db", p.database, "--exit-with-stdin",
				// One session of the bench asks for more than any person does.
				"--max-waiting", "1000000", "--max-waiting-per-session", "1000000"}
		},
	}, nil
}

//go:embed reference.py
var referenceProgram []byte

// errNoReference says that this machine has no reference to compare with.
var errNoReference = errors.New("no reference")

// probeLimit is how long Python may take to tell what it has.
const probeLimit = 30 * time.Second

// newReference finds the reference in a Python. The interpreter is asked for
// its own path: a wrapper's start is not the reference's.
func newReference(ctx context.Context, dir, python string, w workspace, state string, mirror io.Writer) (*contender, error) {
	const probe = "import sys, comfygit_studio.runtime, importlib.metadata as m; print(sys.executable); print(m.version('comfygit-studio'))"
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, python, "-c", probe).Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s cannot import comfygit_studio: %w", errNoReference, python, err)
	}
	interpreter, version, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	script := filepath.Join(dir, "reference.py")
	if err := os.WriteFile(script, referenceProgram, 0o644); err != nil {
		return nil, fmt.Errorf("write the reference's launcher: %w", err)
	}
	return &contender{
		role: referenceRole, version: version, mirror: mirror,
		command: func(p place) []string {
			return []string{interpreter, script, w.root, w.name, p.port(), p.comfyURL, state, p.database}
		},
	}, nil
}
