package main

import (
	"context"
	"fmt"
	"net/url"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/routes"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfy"
	"github.com/comfygit-ai/studio-sidecar/sidecar/protocol"
	"github.com/comfygit-ai/studio-sidecar/sidecar/worker"
)

// proxyFlags say how a server stands to another: as a worker beside a remote
// ComfyUI, or as the front door of one.
type proxyFlags struct {
	Role          string `enum:"studio,proxy" default:"studio" env:"STUDIO_SIDECAR_ROLE" help:"Serve people and programs (studio), or compute for another sidecar (proxy)."`
	Executor      string `enum:"local,proxy" default:"local" env:"STUDIO_SIDECAR_EXECUTOR" help:"Run contracts on ComfyUI (local), or on another sidecar (proxy)."`
	ProxyURL      string `name:"proxy-url" placeholder:"URL" env:"STUDIO_SIDECAR_PROXY_URL" help:"Address of the sidecar of --role proxy that --executor proxy runs contracts on."`
	ProxyToken    string `name:"proxy-token" placeholder:"TOKEN" env:"STUDIO_SIDECAR_PROXY_TOKEN" help:"Token that --role proxy asks for and --executor proxy brings."`
	CallbackURL   string `name:"callback-url" placeholder:"URL" env:"STUDIO_SIDECAR_CALLBACK_URL" help:"Address under which the worker reaches this server, to tell of runs."`
	CallbackToken string `name:"callback-token" placeholder:"TOKEN" env:"STUDIO_SIDECAR_CALLBACK_TOKEN" help:"Token that opens all callbacks, beside each run's own."`
	RequireMatch  bool   `name:"require-digest-match" env:"STUDIO_SIDECAR_REQUIRE_DIGEST_MATCH" help:"Refuse runs when the worker's environment offers other contracts."`
}

// faults lists what is wrong, each with its flag.
func (f *proxyFlags) faults() []string {
	var out []string
	say := func(ok bool, format string, args ...any) {
		if !ok {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	say(f.Role != routes.RoleProxy || f.Executor != "proxy",
		"--executor (STUDIO_SIDECAR_EXECUTOR): a worker (--role proxy) computes on its own ComfyUI; leave --executor proxy to the front door")
	say(f.Executor != "proxy" || f.ProxyURL != "", "--proxy-url (STUDIO_SIDECAR_PROXY_URL): --executor proxy needs the worker's address")
	say(f.ProxyURL == "" || isAddress(f.ProxyURL), "--proxy-url (STUDIO_SIDECAR_PROXY_URL): %q is no address; use one like http://gpu:8190", f.ProxyURL)
	say(f.CallbackURL == "" || isAddress(f.CallbackURL), "--callback-url (STUDIO_SIDECAR_CALLBACK_URL): %q is no address; use one like http://front:8190", f.CallbackURL)
	return out
}

func isAddress(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// remote tells that contracts are run on another sidecar.
func (f *proxyFlags) remote() bool { return f.Executor == "proxy" && f.Role != routes.RoleProxy }

func (f *proxyFlags) executorName() string {
	if f.remote() {
		return "proxy"
	}
	return "local"
}

// callbackHost is the host name that workers call back at, which has to be
// answered to; nil when they do not.
func (f *proxyFlags) callbackHost() []string {
	u, err := url.Parse(f.CallbackURL)
	if err != nil || u.Hostname() == "" {
		return nil
	}
	return []string{u.Hostname()}
}

// executor is where runs go: it asks nothing of it yet.
type executor interface {
	sidecar.Executor
	Close()
}

// openExecutor chooses the executor and makes the tokens of callbacks.
func (a *app) openExecutor(ctx context.Context) error {
	if !a.cfg.remote() {
		a.executor = comfy.New(comfy.Options{URL: a.cfg.ComfyURL, Artifacts: a.artifacts, Logger: a.cfg.log})
		return nil
	}
	secret, err := a.store.Secret(ctx, "callback")
	if err != nil {
		return err
	}
	a.tokens = protocol.Tokens{Secret: secret, Configured: a.cfg.CallbackToken}
	a.executor = worker.New(worker.Options{
		URL: a.cfg.ProxyURL, Token: a.cfg.ProxyToken, CallbackURL: a.cfg.CallbackURL, Tokens: a.tokens,
		Artifacts: a.artifacts, RequireMatch: a.cfg.RequireMatch, Logger: a.cfg.log,
	})
	return nil
}

// tellCallers calls back whoever asked a worker to be told of a run.
func (a *app) tellCallers(ctx context.Context) error {
	if a.cfg.Role != routes.RoleProxy {
		return nil
	}
	return worker.NewOutbox(worker.OutboxOptions{
		Store: a.store, Studio: a.studio, Artifacts: a.artifacts, Logger: a.cfg.log,
	}).Run(ctx)
}

// banner is what launchers of the reference look for.
func (c *serveCmd) banner(env manifest.Environment, port int) string {
	kind := map[string]string{"local": "persistent", "ephemeral": "ephemeral"}[c.State]
	role := "studio"
	if c.Role != "" {
		role = c.Role
	}
	text := fmt.Sprintf("Serving ComfyGit environment '%s' on http://%s:%d\nServe role: %s\n", env.Name, c.Host, port, role)
	if role == routes.RoleProxy {
		text += "Proxy ComfyUI API target: " + c.ComfyURL + "\n"
	} else {
		text += "Executor: " + c.executorName() + "\nComfyUI API target: " + c.ComfyURL + "\n"
	}
	if c.remote() {
		text += "Proxy runtime target: " + c.ProxyURL + "\n"
		if c.CallbackURL != "" {
			text += "Worker callback base URL: " + c.CallbackURL + "\n"
		}
	}
	return text + fmt.Sprintf("Serve state: %s (%s)\nPress Ctrl+C to stop.\n", c.State, kind)
}
