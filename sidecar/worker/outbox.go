package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/artifact"
	"github.com/comfygit-ai/studio-sidecar/sidecar/backend"
	"github.com/comfygit-ai/studio-sidecar/sidecar/protocol"
)

const (
	// askedAgain is how often, and after how long, a callback that a front
	// door does not know yet (404, 409) is repeated, as by the reference: the
	// callback may overtake the answer to the submission.
	askedAgain      = 20
	askedAgainPause = 250 * time.Millisecond
	// retryPause is the first pause after a callback that got no answer, or a
	// 5xx; it doubles up to retryPauseMax.
	retryPause    = time.Second
	retryPauseMax = 5 * time.Minute
	// retryLimit is how long after a run's end it is tried to tell of it: a
	// front door that was away for a night still hears.
	retryLimit = 24 * time.Hour
	// cancelLead is how long a cancel is not told of: a reference front door that
	// asked for it would take the word for an end that came before.
	cancelLead = time.Second
	// callsAtOnce bounds the callbacks under way: each may carry large files.
	callsAtOnce = 4
	// statusWithin bounds a callback without files.
	statusWithin = 30 * time.Second
)

// OutboxOptions are what an Outbox stands on. All but the last two are needed.
type OutboxOptions struct {
	Store     sidecar.DeliveryStore
	Studio    *sidecar.Studio
	Artifacts *artifact.Dir // copies that runs made

	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	Logger      *slog.Logger
}

// Outbox tells callers of the runs that they asked to be told of: of the
// beginning, and of the end with its files. It never changes how a run ended. What is
// left to tell is in the store, so that it is told after a restart, too.
type Outbox struct {
	opts  OutboxOptions
	http  *http.Client
	turns chan struct{} // holds one token for each callback under way
}

// NewOutbox makes an Outbox. It starts nothing.
func NewOutbox(o OutboxOptions) *Outbox {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.DialContext == nil {
		o.DialContext = (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext
	}
	return &Outbox{
		opts: o, turns: make(chan struct{}, callsAtOnce),
		http: backend.NewClient(o.DialContext, 0, conns),
	}
}

// Run makes deliveries until ctx ends, and then returns nil.
func (o *Outbox) Run(ctx context.Context) error {
	defer o.http.CloseIdleConnections()
	var g errgroup.Group
	for after := int64(0); ; {
		changed := o.opts.Store.Changed()
		found, err := o.opts.Store.Deliveries(ctx, after)
		if err != nil && ctx.Err() == nil {
			o.opts.Logger.Error("read what is left to tell", "err", err)
		}
		for _, d := range found {
			after = d.ID
			g.Go(func() error {
				one := delivery{o, d, o.opts.Logger.With("run", d.Run, "callback_run", d.Callback.Run)}
				one.make(ctx)
				return nil
			})
		}
		if len(found) > 0 {
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return g.Wait()
		}
	}
}

// delivery is what is told of one run.
type delivery struct {
	box *Outbox
	sidecar.Delivery
	log *slog.Logger
}

// make tells of the beginning and of the end, or leaves the rest to the next
// life when ctx ends.
func (d *delivery) make(ctx context.Context) {
	if d.Told == 0 {
		run, ok := d.wait(ctx, func(r *sidecar.Run) bool { return r.Accepted || r.Status.Terminal() })
		if !ok || run.Accepted && !d.tellBeginning(ctx, run) {
			return
		}
	}
	run, ok := d.wait(ctx, func(r *sidecar.Run) bool { return r.Status.Terminal() })
	if !ok || !d.tellEnd(ctx, run) {
		return
	}
	if err := d.box.opts.Store.DropDelivery(context.WithoutCancel(ctx), d.Delivery); err != nil {
		d.log.Error("forget what was told", "err", err)
	}
}

func (d *delivery) wait(ctx context.Context, wanted func(*sidecar.Run) bool) (*sidecar.Run, bool) {
	run, err := d.box.opts.Studio.Await(ctx, d.Run, wanted)
	if err != nil && ctx.Err() == nil {
		d.log.Error("read a run to tell of", "err", err)
	}
	return run, err == nil && wanted(run)
}

// tellBeginning tells that a run is running; false when ctx ended. Once the run
// has ended its end says it all: then a beginning that cannot be told is left.
func (d *delivery) tellBeginning(ctx context.Context, run *sidecar.Run) bool {
	word := protocol.Run{Status: protocol.StatusRunning, RunID: d.Callback.Run, PromptID: run.Prompt}
	told := d.persist(ctx, func(verdict) bool {
		latest, ok := d.wait(ctx, func(*sidecar.Run) bool { return true })
		return ok && latest.Status.Terminal()
	}, func(ctx context.Context) error { return d.post(ctx, word, nil) })
	if !told {
		return false
	}
	d.Told, d.Attempts, d.Error, d.DueAt = max(run.Revision, 1), 0, "", time.Time{}
	d.save(ctx)
	return true
}

func (d *delivery) tellEnd(ctx context.Context, run *sidecar.Run) bool {
	if run.Status == sidecar.StatusCancelled && !sleepUntil(ctx, run.FinishedAt.Add(cancelLead)) {
		return false
	}
	told := d.persist(ctx, func(verdict) bool {
		return time.Since(run.FinishedAt) > retryLimit
	}, func(ctx context.Context) error { return d.postEnd(ctx, run) })
	if told && d.Error != "" {
		if err := d.box.opts.Studio.NoteUndelivered(context.WithoutCancel(ctx), run.ID, "The end could not be told: "+d.Error); err != nil {
			d.log.Error("note that a run's end was not taken", "err", err)
		}
	}
	return told
}

// verdict is what the latest try of a callback came to.
type verdict int

const (
	taken   verdict = iota
	refused         // for good
	unknown         // the front door does not know the run, yet
	later           // it could not be told, for now
)

// persist calls until the other side took it, refused for good, or givesUp
// says that enough was tried; false when ctx ended first. Error is left where
// it was not taken.
func (d *delivery) persist(ctx context.Context, givesUp func(verdict) bool, call func(context.Context) error) bool {
	if !sleepUntil(ctx, d.DueAt) {
		return false
	}
	for {
		err := d.inTurn(ctx, call)
		if ctx.Err() != nil {
			return false
		}
		v := verdictOf(err)
		if v == taken {
			d.Error = ""
			return true
		}
		d.Attempts++
		d.Error = err.Error()
		d.log.Warn("callback", "attempt", d.Attempts, "err", err)
		pause := askedAgainPause
		switch {
		case v == refused, v == unknown && d.Attempts >= askedAgain:
			return true
		case v == later && givesUp(v):
			return true
		case v == later:
			pause = backOff(d.Attempts)
		}
		d.DueAt = time.Now().Add(pause)
		d.save(ctx)
		if !sleepUntil(ctx, d.DueAt) {
			return false
		}
	}
}

// inTurn calls when few others do.
func (d *delivery) inTurn(ctx context.Context, call func(context.Context) error) error {
	select {
	case d.box.turns <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-d.box.turns }()
	return call(ctx)
}

func (d *delivery) save(ctx context.Context) {
	if err := d.box.opts.Store.SaveDelivery(context.WithoutCancel(ctx), d.Delivery); err != nil {
		d.log.Error("note how far a run was told", "err", err)
	}
}

func backOff(attempts int) time.Duration {
	pause := retryPause
	for i := 1; i < attempts && pause < retryPauseMax; i++ {
		pause *= 2
	}
	return min(pause, retryPauseMax)
}

// statusError is an answer other than yes.
type statusError int

func (e statusError) Error() string {
	return fmt.Sprintf("the callback was answered with HTTP %d", int(e))
}

func verdictOf(err error) verdict {
	var status statusError
	switch {
	case err == nil:
		return taken
	case !errors.As(err, &status):
		return later
	case status == http.StatusNotFound, status == http.StatusConflict:
		return unknown
	case status >= 500, status == http.StatusRequestTimeout, status == http.StatusTooManyRequests:
		return later
	}
	return refused
}

func sleepUntil(ctx context.Context, at time.Time) bool {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
