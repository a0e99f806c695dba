package comfy

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/artifact"
)

// Localise says which files of a run are copied to our own disk.
type Localise string

// What can be localised. Files of type temp vanish when ComfyUI ends.
const (
	LocaliseTemp Localise = "temp"
	LocaliseAll  Localise = "all"
)

// Options shape an Executor. Only URL is needed.
type Options struct {
	// URL is where ComfyUI answers, "http://127.0.0.1:8188"; a path in it is
	// put before ComfyUI's own.
	URL string
	// DialContext replaces the net.Dialer.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	// Artifacts is where files are copied to; nil: nothing is copied.
	Artifacts *artifact.Dir
	// Localise says what is copied; empty means LocaliseTemp.
	Localise Localise
	// Logger gets what went wrong without anybody having to know; nil
	// discards it.
	Logger *slog.Logger
	// CallTimeout bounds one question to ComfyUI, body included; zero means
	// 10 s. A tenth of it is how long Submit waits for the socket.
	CallTimeout time.Duration
	// IdleTimeout is how long a file that Fetch opened may stand still; zero
	// means 60 s.
	IdleTimeout time.Duration
	// PingEvery is after how much silence the socket is pinged; zero means
	// 15 s.
	PingEvery time.Duration
}

func (o Options) withDefaults() Options {
	if o.Localise == "" {
		o.Localise = LocaliseTemp
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.CallTimeout <= 0 {
		o.CallTimeout = 10 * time.Second
	}
	if o.IdleTimeout <= 0 {
		o.IdleTimeout = 60 * time.Second
	}
	if o.PingEvery <= 0 {
		o.PingEvery = 15 * time.Second
	}
	if o.DialContext == nil {
		o.DialContext = (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext
	}
	o.URL = strings.TrimRight(o.URL, "/")
	return o
}

// Executor is a sidecar.Executor on one ComfyUI.
type Executor struct {
	opts      Options
	http      *client
	link      *link
	jobs      registry
	abilities abilities
	watching  sync.Mutex // held by the one Watch
}

var _ sidecar.Executor = (*Executor)(nil)

// New prepares an executor; nothing is asked of ComfyUI yet. An address that
// is none is told by every method.
func New(o Options) *Executor {
	o = o.withDefaults()
	return &Executor{opts: o, http: newClient(o), link: newLink()}
}

// Close lets go of idle connections. Calls under way are not ended.
func (e *Executor) Close() { e.http.close() }
