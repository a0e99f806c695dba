package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"syscall"

	"github.com/comfygit-ai/studio-sidecar/manifest"
)

type serveCmd struct{ serveFlags }

func (c *serveCmd) Run(line *cli, con console) error {
	if faults := c.faults(); len(faults) > 0 {
		return &usageError{faults: faults}
	}
	env, err := line.environment()
	if err != nil {
		return err
	}
	log, file, err := line.logger(con.err)
	if err != nil {
		return err
	}
	defer file.Close()
	easeCollector()
	listener, err := listen(con.ctx, c.listenFlags)
	if err != nil {
		return err
	}
	c.warnOfGuests(log)
	app, err := newApp(con.ctx, appConfig{serveFlags: c.serveFlags, env: env, log: log, err: con.err})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	if err := c.tell(con, env, listener.Addr()); err != nil {
		return errors.Join(err, listener.Close(), app.close())
	}
	ctx := con.ctx
	if c.ExitWithStdin {
		var stop context.CancelFunc
		ctx, stop = untilEnd(ctx, os.Stdin)
		defer stop()
	}
	return app.run(ctx, listener)
}

// easeCollector lets garbage grow to four times of what lives. That is a few
// MiB, and looking through it at its double was a quarter of the work of
// accepting runs. What the environment says about it wins.
func easeCollector() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(512 << 20)
	}
}

func listen(ctx context.Context, f listenFlags) (net.Listener, error) {
	var cfg net.ListenConfig
	l, err := cfg.Listen(ctx, "tcp", net.JoinHostPort(f.Host, strconv.Itoa(f.Port)))
	var unknown *net.DNSError
	switch {
	case err == nil:
		return l, nil
	case errors.As(err, &unknown), errors.Is(err, syscall.EADDRNOTAVAIL):
		fault := misuse("--host (STUDIO_SIDECAR_HOST): %q is no address of this machine: %v", f.Host, err)
		fault.advice = "Use 127.0.0.1 for this machine alone, or 0.0.0.0 for all that reach it."
		return nil, fault
	}
	return nil, hintedError{fmt.Errorf("listen at %s port %d: %w", f.Host, f.Port, err), "Choose another port with --port, or --port 0 for a free one."}
}

// tell prints where the server is: the lines that launchers of the reference
// look for, and one line of JSON when asked to.
func (c *serveCmd) tell(con console, env manifest.Environment, addr net.Addr) error {
	port := addr.(*net.TCPAddr).Port
	url := "http://" + net.JoinHostPort(c.Host, strconv.Itoa(port))
	if c.Announce {
		return json.NewEncoder(con.out).Encode(map[string]any{"port": port, "url": url})
	}
	_, err := io.WriteString(con.out, c.banner(env, port))
	return err
}

// untilEnd ends the returned context when r ends. The reading goroutine ends
// with the process: a read of standard input cannot be called back.
func untilEnd(ctx context.Context, r io.Reader) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, r) // an error is an end too
		stop()
	}()
	return ctx, stop
}

// hintedError adds what the user can do.
type hintedError struct {
	err    error
	advice string
}

func (e hintedError) Error() string { return e.err.Error() }
func (e hintedError) Unwrap() error { return e.err }

// statePaths are the database and the artifact folder: where the flags say, or
// in the workspace's .metadata/serve, as the reference.
func statePaths(f serveFlags, env manifest.Environment) (db, artifacts string) {
	folder := filepath.Join(env.MetadataDir(), "serve")
	db, artifacts = f.StateDB, f.ArtifactDir
	if db == "" {
		db = filepath.Join(folder, "serve.sqlite")
	}
	if artifacts == "" {
		artifacts = filepath.Join(folder, "artifacts")
	}
	return db, artifacts
}

// waits says whom a start waits for.
func (c appConfig) waits(reason string) {
	if c.err != nil {
		tell(c.err, reason+"; waiting for it to end", "")
	}
}

// appConfig is what a server is made of.
type appConfig struct {
	serveFlags
	env manifest.Environment
	log *slog.Logger
	err io.Writer // for what people wait for
}
