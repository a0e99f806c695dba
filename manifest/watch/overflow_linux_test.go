//go:build linux

package watch_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/manifest/watch"
)

// TestOverflow holds the watching up until the kernel drops events, among them
// those of a real change.
func TestOverflow(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	limit, atoiErr := strconv.Atoi(strings.TrimSpace(string(text)))
	if err := errors.Join(err, atoiErr); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	put(t, filepath.Join(dir, "pyproject.toml"), declare("one"))
	env, err := manifest.Locate(dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	started, held, release := make(chan struct{}), make(chan struct{}), make(chan struct{})
	changes, told, done := make(chan watch.Change, 100), make(troubles, 100), make(chan error, 1)
	first := true
	go func() {
		done <- watch.Watch(ctx, manifest.Open(env), watch.Options{
			Quiet:   20 * time.Millisecond,
			Poll:    time.Hour,
			Started: func() { close(started) },
			Log:     slog.New(told),
		}, func(c watch.Change) {
			if first {
				first = false
				close(held)
				<-release
			}
			changes <- c
		})
	}()
	<-started
	put(t, filepath.Join(dir, "pyproject.toml"), declare("two"))
	<-held
	for range limit {
		put(t, filepath.Join(dir, "noise"), "")
		if err := os.Remove(filepath.Join(dir, "noise")); err != nil {
			t.Fatal(err)
		}
	}
	put(t, filepath.Join(dir, "pyproject.toml"), declare("three"))
	close(release)
	await(t, changes, "the change whose events were dropped", func(c watch.Change) bool { return len(c.Added) == 1 && c.Added[0] == name("three")[0] })
	select {
	case err := <-told:
		if !errors.Is(err, fsnotify.ErrEventOverflow) {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("the loss was not told")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
