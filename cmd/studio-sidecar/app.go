package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/manifest/watch"
	"github.com/comfygit-ai/studio-sidecar/routes"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/artifact"
	"github.com/comfygit-ai/studio-sidecar/sidecar/protocol"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
	"github.com/comfygit-ai/studio-sidecar/sidecar/upload"
	"github.com/comfygit-ai/studio-sidecar/static"
)

// shutdownLimit is how long requests may take to end. With the store's close
// it stays under the three seconds that supervisors give.
const shutdownLimit = 2 * time.Second

// app is a running sidecar: its long-lived parts.
type app struct {
	cfg       appConfig
	catalog   *manifest.Catalog
	store     *sqlite.Store
	artifacts *artifact.Dir
	uploads   *upload.Folder
	executor  executor
	tokens    protocol.Tokens // of callbacks
	studio    *sidecar.Studio
	handler   http.Handler
}

func newApp(ctx context.Context, cfg appConfig) (*app, error) {
	a := &app{cfg: cfg, catalog: manifest.Open(cfg.env)}
	// Reading the environment and asking git take as long as opening the store.
	var warm errgroup.Group
	warm.Go(func() error {
		a.catalog.Snapshot().Ref(ctx)
		return nil
	})
	if err := errors.Join(a.open(ctx), warm.Wait()); err != nil {
		return nil, errors.Join(err, a.close())
	}
	return a, nil
}

func (a *app) open(ctx context.Context) (err error) {
	cfg := a.cfg
	token, err := cfg.token()
	if err != nil {
		return err
	}
	proxies, err := cfg.proxies()
	if err != nil {
		return err
	}
	dbPath, artifactPath := statePaths(cfg.serveFlags, cfg.env)
	a.store, err = sqlite.Open(ctx, sqlite.Options{Path: dbPath, Ephemeral: cfg.State == "ephemeral", Reserve: sqlite.DefaultReserve, Logger: cfg.log, Waits: cfg.waits})
	if err != nil {
		return err
	}
	if cfg.State == "ephemeral" && cfg.ArtifactDir == "" {
		// What no gallery names after the end goes with the store's own folder.
		artifactPath = filepath.Join(filepath.Dir(a.store.Path()), "artifacts")
	}
	if a.artifacts, err = artifact.Open(artifactPath); err != nil {
		return hintedError{err, "Choose another folder with --artifact-dir."}
	}
	if a.uploads, err = openUploads(cfg.env, artifactPath, cfg.log); err != nil {
		return err
	}
	if err := a.openExecutor(ctx); err != nil {
		return err
	}
	a.studio = sidecar.New(sidecar.Options{
		Catalog: a.catalog, Store: a.store, Executor: a.executor,
		Window: cfg.Window, Limits: cfg.limits(), RunLimit: cfg.runLimit(), Lost: sidecar.LostPolicy(cfg.Lost), Uploads: a.uploads, Log: cfg.log,
		Keep: cfg.retention(), Copies: a.artifacts, OpenCopy: copies(a.artifacts),
		HealthOnDemand: cfg.remote(),
	})
	a.handler, err = routes.New(routes.Options{
		Studio: a.studio, Artifacts: a.artifacts, Static: static.FS(), StaticDir: cfg.StaticDir,
		PublicPrefix: cfg.PublicPrefix, PublicUIPrefix: cfg.PublicUIPrefix, RoutePrefix: cfg.RoutePrefix,
		MaxRequestBytes: cfg.maxRequest(), Shared: cfg.Gallery == "shared", State: cfg.State,
		ComfyURL: cfg.ComfyURL, ExecutorName: cfg.executorName(), Version: version(),
		Role: cfg.Role, ProxyToken: cfg.ProxyToken, Callbacks: cfg.remote() && cfg.CallbackURL != "", CallbackTokens: a.tokens,
		PublicHosts: append(cfg.callbackHost(), cfg.PublicHost...), Loopback: isLoopback(cfg.Host), Log: cfg.log,
		Token: token, TrustedProxies: proxies, LaunchSecret: os.Getenv(launchSecretEnv),
	})
	return err
}

// isLoopback reports whether a server at host is for this machine alone.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// run serves at l until ctx ends, then stops: streams and requests end, runs
// are left to the next start, the store is closed.
func (a *app) run(ctx context.Context, l net.Listener) error {
	server := routes.HTTPServer(a.handler, a.cfg.log)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return a.studio.Run(ctx) })
	g.Go(func() error { return a.watchContracts(ctx) })
	g.Go(func() error { return a.tellCallers(ctx) })
	g.Go(func() error {
		a.awaitTakenUp(ctx)
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		return shutdown(server)
	})
	return errors.Join(g.Wait(), a.close())
}

// takeUpLimit is how long the first answer waits for what an earlier life left.
const takeUpLimit = 2 * time.Second

// awaitTakenUp lets the first answer tell the truth of earlier runs.
func (a *app) awaitTakenUp(ctx context.Context) {
	ctx, done := context.WithTimeout(ctx, takeUpLimit)
	defer done()
	select {
	case <-a.studio.TakenUp():
	case <-ctx.Done():
	}
}

// shutdown lets requests end, and cuts those that do not in time.
func shutdown(server *http.Server) error {
	ctx, done := context.WithTimeout(context.Background(), shutdownLimit)
	defer done()
	err := server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return server.Close()
	}
	return err
}

func (a *app) watchContracts(ctx context.Context) error {
	err := watch.Watch(ctx, a.catalog, watch.Options{Log: a.cfg.log}, func(change watch.Change) {
		a.studio.ContractsChanged(ctx, change)
	})
	if err != nil && ctx.Err() == nil {
		// Requests look for themselves; only those who wait hear nothing.
		a.cfg.log.Error("contracts are not watched", "err", err)
	}
	return nil
}

// close releases what open opened, the store last.
func (a *app) close() error {
	var err error
	if a.executor != nil {
		a.executor.Close()
	}
	if a.artifacts != nil {
		err = a.artifacts.Close()
	}
	if a.uploads != nil {
		err = errors.Join(err, a.uploads.Close())
	}
	if a.store != nil {
		err = errors.Join(err, a.store.Close())
	}
	return err
}
