package routes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/gorilla/mux"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/artifact"
	"github.com/comfygit-ai/studio-sidecar/sidecar/protocol"
)

// DefaultMaxRequestBytes bounds a request's body, as in the reference.
const DefaultMaxRequestBytes = 256 << 20

// Options are what a Server stands on. Studio is required; the zero values of
// the others are the defaults.
type Options struct {
	Studio *sidecar.Studio
	// Artifacts holds our own copies of outputs; without it there are none.
	Artifacts *artifact.Dir
	// Static is our panel: index.html and what it names. StaticDir is the
	// folder of another one, such as the reference's, and wins.
	Static    fs.FS
	StaticDir string

	// PublicPrefix and PublicUIPrefix are what browsers see before the paths of
	// the API and of the panel. RoutePrefix is what this server mounts at:
	// nothing outside it is served, and it stands in for the others where
	// those are empty.
	PublicPrefix   string
	PublicUIPrefix string
	RoutePrefix    string

	MaxRequestBytes int64  // default DefaultMaxRequestBytes
	Shared          bool   // one gallery for all sessions
	State           string // "ephemeral" (default) or "local", as told to clients
	ComfyURL        string // told to callers on this machine only
	ExecutorName    string // default "local"
	Version         string

	// Loopback says that the server listens on loopback alone: then only
	// loopback's names and PublicHosts are answered to. Else also addresses
	// and this machine's own names.
	Loopback    bool
	PublicHosts []string
	// TrustedProxies are the hops whose X-Forwarded-Host and -Proto count;
	// so do those of whoever knows LaunchSecret.
	TrustedProxies []netip.Prefix
	LaunchSecret   string
	// Token, when set, is asked for on everything but liveness.
	Token string

	// Role is RoleProxy for a worker, which computes for other sidecars and
	// asks them for ProxyToken; else the server is a front door.
	Role       string
	ProxyToken string
	// Callbacks is set when workers are asked to tell of runs; CallbackTokens
	// open the way in.
	Callbacks      bool
	CallbackTokens protocol.Tokens

	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.MaxRequestBytes <= 0 {
		o.MaxRequestBytes = DefaultMaxRequestBytes
	}
	if o.State == "" {
		o.State = "ephemeral"
	}
	if o.ExecutorName == "" {
		o.ExecutorName = "local"
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Server answers HTTP requests. It holds no goroutine; streams end with the
// context of their request, see HTTPServer.
type Server struct {
	opts      Options
	studio    *sidecar.Studio
	log       *slog.Logger
	guard     *guard
	urls      addresses
	uiPrefix  string
	mounted   string
	router    *mux.Router
	endpoints map[string]*endpoint
	words     map[string]bool // first segments of the API's paths
	pages     pageCache
	chunks    chunks
	turns     turns
	cancels   cancels
	panel     *panel
}

// New makes a Server. All faults of the options are told at once.
func New(o Options) (*Server, error) {
	o = o.withDefaults()
	s := &Server{opts: o, studio: o.Studio, log: o.Log}
	var faults []error
	note := func(err error) {
		if err != nil {
			faults = append(faults, err)
		}
	}
	if o.Studio == nil {
		note(errors.New("a studio is required"))
	}
	note(s.takePrefixes())
	var err error
	s.guard, err = newGuard(o)
	note(err)
	s.panel, err = newPanel(o)
	note(err)
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("set up routes: %w", err)
	}
	s.mount(routesOf(o.Role))
	return s, nil
}

func (s *Server) takePrefixes() error {
	mounted, err1 := cleanPrefix("route prefix", s.opts.RoutePrefix)
	api, err2 := cleanPrefix("public prefix", s.opts.PublicPrefix)
	ui, err3 := cleanPrefix("public UI prefix", s.opts.PublicUIPrefix)
	if api == "" {
		api = mounted
	}
	if ui == "" {
		ui = mounted
	}
	s.mounted, s.uiPrefix, s.urls = mounted, ui, newAddresses(api)
	return errors.Join(err1, err2, err3)
}

const (
	headerLimit = 5 * time.Second
	idleLimit   = 60 * time.Second
	headerBytes = 64 << 10
)

// HTTPServer makes a server for h whose open streams and waiting requests end
// when Shutdown is called. It has no write limit, which would cut streams: each
// write has its own.
func HTTPServer(h http.Handler, log *slog.Logger) *http.Server {
	base, stop := context.WithCancel(context.Background())
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerLimit,
		IdleTimeout:       idleLimit,
		MaxHeaderBytes:    headerBytes,
		BaseContext:       func(net.Listener) context.Context { return base },
		ConnContext:       withLine,
	}
	if log != nil {
		srv.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	}
	srv.RegisterOnShutdown(stop)
	return srv
}
