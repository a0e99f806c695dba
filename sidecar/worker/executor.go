package worker

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/artifact"
	"github.com/comfygit-ai/studio-sidecar/sidecar/protocol"
)

// Options shape an Executor. URL and Artifacts are needed.
type Options struct {
	// URL is where the worker answers.
	URL string
	// Token opens the worker; empty: it asks for none.
	Token string
	// CallbackURL is where the worker reaches this front door, to tell of
	// runs; empty: it is not asked to. Tokens make the tokens that it brings.
	CallbackURL string
	Tokens      protocol.Tokens
	// Artifacts is where files are copied to.
	Artifacts *artifact.Dir
	// RequireMatch refuses to hand over to a worker whose environment is not
	// the run's.
	RequireMatch bool

	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	Logger      *slog.Logger
	// CallTimeout bounds one question; zero means 10 s.
	CallTimeout time.Duration
	// IdleTimeout is how long a file may stand still; zero means 60 s.
	IdleTimeout time.Duration
	// Patience is how long a callback may stay away before the worker is
	// asked; zero means 15 s.
	Patience time.Duration
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.CallTimeout <= 0 {
		o.CallTimeout = 10 * time.Second
	}
	if o.IdleTimeout <= 0 {
		o.IdleTimeout = 60 * time.Second
	}
	if o.Patience <= 0 {
		o.Patience = 15 * time.Second
	}
	if o.DialContext == nil {
		o.DialContext = (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext
	}
	return o
}

// Executor is a sidecar.Executor on another sidecar.
type Executor struct {
	opts Options
	http *client

	mu     sync.Mutex
	staged map[sidecar.PromptID][]sidecar.InputFile
	quiet  map[sidecar.PromptID]rest // callbacks that are waited for
	env    json.RawMessage           // the worker's environment_ref, as last heard
}

// callbackLead is how long an ended run's callback may be on its way.
const callbackLead = 3 * time.Second

// rest is a time in which a callback is waited for and the worker not asked.
type rest struct {
	until time.Time
	seen  sidecar.Sighting // what the worker said last
}

var _ sidecar.Executor = (*Executor)(nil)

// New prepares an executor; nothing is asked of the worker yet.
func New(o Options) *Executor {
	o = o.withDefaults()
	return &Executor{
		opts: o, http: newClient(o),
		staged: map[sidecar.PromptID][]sidecar.InputFile{}, quiet: map[sidecar.PromptID]rest{},
	}
}

// Close lets go of idle connections. Calls under way are not ended.
func (e *Executor) Close() { e.http.close() }

// await puts questions about a prompt off: a callback is to come.
func (e *Executor) await(job sidecar.Job, prompt sidecar.PromptID, seen sidecar.Sighting, patience time.Duration) {
	if e.callbackURL(job) == "" {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.quiet[prompt] = rest{until: time.Now().Add(patience), seen: seen}
}

// resting is what was seen of a prompt whose callback is waited for.
func (e *Executor) resting(prompt sidecar.PromptID) (sidecar.Sighting, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r, ok := e.quiet[prompt]
	if ok && time.Now().Before(r.until) {
		return r.seen, true
	}
	delete(e.quiet, prompt)
	return sidecar.Sighting{}, false
}

// wake makes the next question about a prompt be asked; of all with "".
func (e *Executor) wake(prompt sidecar.PromptID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if prompt == "" {
		clear(e.quiet)
		return
	}
	delete(e.quiet, prompt)
}

// hasten makes a prompt that ended be asked for soon: its callback, which may
// bring its files, has a moment to come first.
func (e *Executor) hasten(prompt sidecar.PromptID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r, ok := e.quiet[prompt]
	if soon := time.Now().Add(callbackLead); ok && soon.Before(r.until) {
		r.until = soon
		e.quiet[prompt] = r
	}
}

// heard notes the environment that the worker told.
func (e *Executor) heard(ref json.RawMessage) {
	if len(ref) == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.env = ref
}

func (e *Executor) environment() json.RawMessage {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.env
}
