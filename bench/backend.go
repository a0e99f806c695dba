package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

// backend is the ComfyUI behind every server of the bench, and tells what
// happens in it.
type backend struct {
	fake   *comfyfake.Server
	addr   string
	served error // how serving ended; read after close
	group  sync.WaitGroup
	srv    *http.Server

	// handed gets the time at which POST /prompt was answered, stored the one
	// at which a run was in history. Times that nobody waits for are dropped.
	handed chan time.Time
	stored chan time.Time
}

func newBackend(ctx context.Context, dir string) (*backend, error) {
	var cfg net.ListenConfig
	l, err := cfg.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the built-in ComfyUI: %w", err)
	}
	b := &backend{addr: l.Addr().String(), handed: make(chan time.Time, 1), stored: make(chan time.Time, 1)}
	b.fake = comfyfake.New(comfyfake.Options{Dir: dir, Log: slog.New(runsEnded{b})})
	b.srv = &http.Server{Handler: b.watch(b.fake.Handler()), ReadHeaderTimeout: 10 * time.Second}
	b.group.Go(func() { b.served = b.srv.Serve(l) })
	return b, nil
}

func (b *backend) url() string { return "http://" + b.addr }

// close ends the backend and waits for it.
func (b *backend) close() error {
	errs := []error{b.srv.Close(), b.fake.Close()}
	b.group.Wait()
	if !errors.Is(b.served, http.ErrServerClosed) {
		errs = append(errs, b.served)
	}
	return errors.Join(errs...)
}

// watch tells when a prompt was handed over.
func (b *backend) watch(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r)
		if r.Method == http.MethodPost && (r.URL.Path == "/prompt" || r.URL.Path == "/api/prompt") {
			tell(b.handed)
		}
	})
}

func tell(c chan time.Time) {
	select {
	case c <- time.Now():
	default:
	}
}

// forget drops what was told and what the ComfyUI has in queue and history.
func (b *backend) forget() {
	b.fake.Forget()
	for _, c := range []chan time.Time{b.handed, b.stored} {
		select {
		case <-c:
		default:
		}
	}
}

// bigFile puts a file of that size, without any blocks on disk, among the
// outputs.
func (b *backend) bigFile(name string, size int64) error {
	f, err := os.Create(filepath.Join(b.fake.Dir("output"), name))
	if err != nil {
		return fmt.Errorf("make a big output: %w", err)
	}
	return errors.Join(f.Truncate(size), f.Close())
}

// runsEnded is a log handler that hears the fake say that a run has ended; the
// run is in history then.
type runsEnded struct{ b *backend }

// Enabled implements slog.Handler.
func (runsEnded) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// Handle implements slog.Handler.
func (h runsEnded) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "run ended" {
		tell(h.b.stored)
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (h runsEnded) WithAttrs([]slog.Attr) slog.Handler { return h }

// WithGroup implements slog.Handler.
func (h runsEnded) WithGroup(string) slog.Handler { return h }
