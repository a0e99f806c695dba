// Package watch tells what changed in an environment's contracts, for those who
// do not ask. Whoever answers a request takes a fresh snapshot from the catalog
// and does not rely on it.
package watch

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/comfygit-ai/studio-sidecar/manifest"
)

// Options says how patiently to watch. The zero value is what a server wants.
type Options struct {
	Quiet    time.Duration // without news before the files are read again; 0 means 250 ms
	Poll     time.Duration // between looks that nothing prompted, for mounts without events; 0 means 5 s
	NoEvents bool          // look only every Poll
	Started  func()        // called when the beginning is taken down: what changes from here on is reported. May be nil
	Log      *slog.Logger  // warned when events are lost or cannot be had; looking every Poll goes on. May be nil
}

// Contract names a contract.
type Contract struct {
	Workflow string `json:"workflow"`
	Contract string `json:"contract"`
}

// Change is what is different since the last Change, or since Watch began. Its
// lists are never nil, so that JSON has them as lists.
type Change struct {
	Added   []Contract       `json:"added"`
	Removed []Contract       `json:"removed"`
	Changed []Contract       `json:"changed"` // its declaration or its graph
	Digest  string           `json:"digest"`  // the contract digest now; "" when there is none
	Faults  []manifest.Fault `json:"faults"`
	// Repository says that git moved too, so that commit and cleanliness may
	// be different.
	Repository bool `json:"repository"`
}

// busyFactor bounds the wait for quiet: files that never rest are read after
// this many times Options.Quiet.
const busyFactor = 10

// Watch reports changes until ctx is done, which is no error. The state at the
// beginning is not reported; report is called from the calling goroutine and
// holds the watching up while it runs. A manifest that is broken keeps its last
// good contracts and shows its faults.
func Watch(ctx context.Context, c *manifest.Catalog, opts Options, report func(Change)) error {
	w := &watcher{catalog: c, opts: opts.withDefaults(), report: report, folders: folders{catalog: c}}
	if !w.opts.NoEvents {
		events, err := fsnotify.NewWatcher()
		if err != nil {
			w.trouble(err)
		} else {
			defer func() { _ = events.Close() }()
			w.folders.events = events
		}
	}
	w.trouble(w.folders.sync())
	w.state = look(c, state{})
	w.opts.Started()
	return w.run(ctx)
}

func (o Options) withDefaults() Options {
	if o.Quiet <= 0 {
		o.Quiet = 250 * time.Millisecond
	}
	if o.Poll <= 0 {
		o.Poll = 5 * time.Second
	}
	if o.Started == nil {
		o.Started = func() {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// watcher is one Watch; all of it belongs to the goroutine that called.
type watcher struct {
	catalog *manifest.Catalog
	opts    Options
	report  func(Change)
	folders folders
	state   state
	git     bool      // the repository moved since the last look
	busy    time.Time // when the first news since the last look came
	told    string    // of the folders that cannot be watched
}

func (w *watcher) run(ctx context.Context) error {
	quiet := time.NewTimer(w.opts.Quiet) // the first look covers what changed while watching began
	defer quiet.Stop()
	poll := time.NewTicker(w.opts.Poll)
	defer poll.Stop()
	events, errs := w.folders.channels()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-events:
			if !ok {
				return errors.New("watch manifest: the events ended")
			}
			w.git = w.git || w.folders.isGit(e.Name)
			w.news(quiet)
		case err := <-errs:
			// After an overflow nobody knows what was missed: look at all.
			w.warn(err)
			w.news(quiet)
		case <-poll.C:
			if w.busy.IsZero() {
				w.news(quiet)
			}
		case <-quiet.C:
			w.look()
		}
	}
}

// news puts the look off until all is quiet, but not for ever.
func (w *watcher) news(quiet *time.Timer) {
	if w.busy.IsZero() {
		w.busy = time.Now()
	}
	if time.Since(w.busy) < busyFactor*w.opts.Quiet {
		quiet.Reset(w.opts.Quiet)
	}
}

func (w *watcher) look() {
	w.busy = time.Time{}
	w.trouble(w.folders.sync()) // before looking, so that nothing falls between
	now := look(w.catalog, w.state)
	change, ok := compare(w.state, now)
	change.Repository = w.git
	if ok || w.git {
		w.report(change)
	}
	w.state, w.git = now, false
}

// trouble tells of what stays as it is once.
func (w *watcher) trouble(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != w.told && err != nil {
		w.warn(err)
	}
	w.told = text
}

func (w *watcher) warn(err error) {
	w.opts.Log.Warn("events of the manifest's folders are lost", "err", err, "poll", w.opts.Poll)
}
