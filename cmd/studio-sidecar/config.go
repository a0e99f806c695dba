package main

import (
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/routes"
)

// listenFlags say where a server listens.
type listenFlags struct {
	Host string `default:"127.0.0.1" env:"STUDIO_SIDECAR_HOST" help:"Address to listen at."`
	Port int    `default:"8190" env:"STUDIO_SIDECAR_PORT" help:"Port to listen at; 0 takes a free one."`
}

// faults lists what is wrong, each with its flag.
func (f *listenFlags) faults() (out []string) {
	if _, err := netip.ParseAddr(f.Host); err != nil && strings.ContainsAny(f.Host, ":/[] ") {
		out = append(out, fmt.Sprintf("--host (STUDIO_SIDECAR_HOST): %q is no address; use one like 127.0.0.1 or ::1, with the port in --port", f.Host))
	}
	if f.Port < 0 || f.Port > 65535 {
		out = append(out, fmt.Sprintf("--port (STUDIO_SIDECAR_PORT): %d is no port; use 0 to 65535", f.Port))
	}
	return out
}

// serveFlags are those of "cg serve", and ours beside them.
type serveFlags struct {
	listenFlags
	proxyFlags
	accessFlags
	keepFlags
	ComfyURL    string  `name:"comfy-url" default:"http://127.0.0.1:8188" env:"STUDIO_SIDECAR_COMFY_URL" help:"ComfyUI's address."`
	State       string  `enum:"ephemeral,local" default:"ephemeral" env:"STUDIO_SIDECAR_STATE" help:"Keep runs and gallery until the end (ephemeral) or in a database (local)."`
	StateDB     string  `name:"state-db" placeholder:"FILE" env:"STUDIO_SIDECAR_STATE_DB" help:"Database of --state local; by default in the workspace's .metadata/serve."`
	Gallery     string  `enum:"private,shared" default:"private" env:"STUDIO_SIDECAR_GALLERY" help:"Show a session its own runs (private) or everybody's (shared)."`
	ArtifactDir string  `name:"artifact-dir" placeholder:"DIR" env:"STUDIO_SIDECAR_ARTIFACT_DIR" help:"Folder for copies of outputs; by default in the workspace's .metadata/serve, wherever the database is."`
	MaxMB       int64   `name:"max-request-mb" default:"256" env:"STUDIO_SIDECAR_MAX_REQUEST_MB" help:"Largest request body in MiB."`
	MaxBytes    int64   `name:"max-request-bytes" default:"0" hidden:"" env:"STUDIO_SIDECAR_MAX_REQUEST_BYTES" help:"Largest request body in bytes; wins over --max-request-mb."`
	RunTimeout  float64 `name:"run-timeout-seconds" default:"43200" env:"STUDIO_SIDECAR_RUN_TIMEOUT_SECONDS" help:"How long a run may take."`
	Window      int     `default:"4" env:"STUDIO_SIDECAR_WINDOW" help:"How many runs may wait in ComfyUI's queue at once."`
	Lost        string  `enum:"fail,again" default:"fail" env:"STUDIO_SIDECAR_LOST" help:"What becomes of a run that ComfyUI had begun and lost: it fails, or is run again, once."`

	queueFlags

	PublicPrefix   string   `name:"public-prefix" aliases:"api-base-path" placeholder:"PATH" env:"STUDIO_SIDECAR_PUBLIC_PREFIX" help:"Path under which browsers see the API."`
	PublicUIPrefix string   `name:"public-ui-prefix" placeholder:"PATH" env:"STUDIO_SIDECAR_PUBLIC_UI_PREFIX" help:"Path under which browsers see the panel."`
	RoutePrefix    string   `name:"route-prefix" placeholder:"PATH" env:"STUDIO_SIDECAR_ROUTE_PREFIX" help:"Path that this server mounts everything at."`
	PublicHost     []string `name:"public-host" placeholder:"HOST" env:"STUDIO_SIDECAR_PUBLIC_HOST" help:"Host name that browsers use for this server."`
	StaticDir      string   `name:"static-dir" placeholder:"DIR" env:"STUDIO_SIDECAR_STATIC_DIR" help:"Serve the panel in this folder instead of the built-in one."`
	Announce       bool     `env:"STUDIO_SIDECAR_ANNOUNCE" help:"Print one JSON line with port and URL when listening."`
	ExitWithStdin  bool     `name:"exit-with-stdin" env:"STUDIO_SIDECAR_EXIT_WITH_STDIN" help:"End when standard input ends."`
}

// faults lists everything that is wrong, each with its flag.
func (f *serveFlags) faults() []string {
	var out []string
	say := func(ok bool, format string, args ...any) {
		if !ok {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	out = append(out, f.listenFlags.faults()...)
	say(isAddress(f.ComfyURL), "--comfy-url (STUDIO_SIDECAR_COMFY_URL): %q is no address; use one like http://127.0.0.1:8188", f.ComfyURL)
	say(f.MaxMB > 0 && f.MaxMB <= math.MaxInt64>>20,
		"--max-request-mb (STUDIO_SIDECAR_MAX_REQUEST_MB): %d is out of range; use 1 or more", f.MaxMB)
	say(f.MaxBytes >= 0, "--max-request-bytes (STUDIO_SIDECAR_MAX_REQUEST_BYTES): %d is negative; use 0 to leave it to --max-request-mb, or more", f.MaxBytes)
	say(f.RunTimeout > 0 && f.RunTimeout <= maxSeconds,
		"--run-timeout-seconds (STUDIO_SIDECAR_RUN_TIMEOUT_SECONDS): %v is out of range; use more than 0 and at most %d", f.RunTimeout, int64(maxSeconds))
	say(f.Window >= 1 && f.Window <= 1000, "--window (STUDIO_SIDECAR_WINDOW): %d is out of range; use 1 to 1000", f.Window)
	out = append(out, f.queueFlags.faults()...)
	for _, p := range []struct{ flag, env, value string }{
		{"--public-prefix", "STUDIO_SIDECAR_PUBLIC_PREFIX", f.PublicPrefix},
		{"--public-ui-prefix", "STUDIO_SIDECAR_PUBLIC_UI_PREFIX", f.PublicUIPrefix},
		{"--route-prefix", "STUDIO_SIDECAR_ROUTE_PREFIX", f.RoutePrefix},
	} {
		say(routes.ValidPrefix(p.value), "%s (%s): %q is no path; use letters, digits and ._~- between single slashes", p.flag, p.env, p.value)
	}
	for _, host := range f.PublicHost {
		say(routes.ValidHost(host), "--public-host (STUDIO_SIDECAR_PUBLIC_HOST): %q is no host name; give it without scheme and path", host)
	}
	out = append(out, f.proxyFlags.faults()...)
	out = append(out, f.keepFlags.faults()...)
	if f.StaticDir != "" {
		_, err := os.Stat(filepath.Join(f.StaticDir, "index.html"))
		say(err == nil, "--static-dir (STUDIO_SIDECAR_STATIC_DIR): there is no index.html in %s", f.StaticDir)
	}
	return append(out, f.accessFlags.faults()...)
}

// maxSeconds is a hundred years, far below what a time.Duration holds.
const maxSeconds = 100 * 365 * 24 * 3600

func (f *serveFlags) maxRequest() int64 {
	if f.MaxBytes > 0 {
		return f.MaxBytes
	}
	return f.MaxMB << 20
}

func (f *serveFlags) runLimit() time.Duration {
	return time.Duration(f.RunTimeout * float64(time.Second))
}

// environment finds the environment that the command line names.
func (c *cli) environment() (manifest.Environment, error) {
	var env manifest.Environment
	var err error
	switch {
	case c.Env != "" && c.EnvDir != "":
		return env, misuse("-e (STUDIO_SIDECAR_ENV) and --env-dir (STUDIO_SIDECAR_ENV_DIR) name an environment each; give one of them")
	case c.Env != "":
		env, err = manifest.Find(c.Env, os.Getenv)
	case c.EnvDir != "":
		env, err = manifest.Locate(c.EnvDir)
	default:
		env, err = manifest.Locate(".")
	}
	if err != nil {
		return env, misuse("%v", err)
	}
	return env, nil
}

// logger writes to the log file, or to standard error. Close it at the end.
func (c *cli) logger(stderr io.Writer) (*slog.Logger, io.Closer, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return nil, nil, misuse("--log-level (STUDIO_SIDECAR_LOG_LEVEL): %v", err)
	}
	var to io.Writer = stderr
	var file io.Closer = io.NopCloser(nil)
	if c.LogFile != "" {
		f, err := os.OpenFile(c.LogFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return nil, nil, misuse("--log-file (STUDIO_SIDECAR_LOG_FILE): %v", err)
		}
		to, file = f, f
	}
	return slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{Level: level})), file, nil
}
