package main

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

// demoFiles is the example environment.
//
//go:embed demo
var demoFiles embed.FS

// demoStep is how long the built-in ComfyUI takes for a step: long enough to
// see progress, short enough to wait for.
const demoStep = 70 * time.Millisecond

type demoCmd struct {
	listenFlags
	Once bool   `env:"STUDIO_SIDECAR_ONCE" help:"Run one contract, write its picture into the current folder and end."`
	Out  string `short:"o" name:"out" default:"." placeholder:"DIR" env:"STUDIO_SIDECAR_OUT" help:"Folder for the picture of --once."`
}

func (c *demoCmd) Run(line *cli, con console) error {
	if faults := c.faults(); len(faults) > 0 {
		return &usageError{faults: faults}
	}
	log, file, err := line.logger(con.err)
	if err != nil {
		return err
	}
	defer file.Close()
	dir, err := os.MkdirTemp("", "studio-sidecar-demo-")
	if err != nil {
		return fmt.Errorf("make a folder for the demo: %w", err)
	}
	defer os.RemoveAll(dir)
	env, err := layDemo(dir)
	if err != nil {
		return err
	}
	fake := comfyfake.New(comfyfake.Options{Dir: filepath.Join(dir, "ComfyUI"), StepDelay: c.stepDelay(), Previews: true})
	comfyListener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return errors.Join(fmt.Errorf("listen for the built-in ComfyUI: %w", err), fake.Close())
	}
	flags := demoFlags(c.listenFlags)
	flags.ComfyURL = "http://" + comfyListener.Addr().String()
	g, ctx := errgroup.WithContext(con.ctx)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g.Go(func() error { return fake.Serve(comfyListener) })
	g.Go(func() error {
		defer fake.Close()
		defer stop()
		app, err := newApp(ctx, appConfig{serveFlags: flags, env: env, log: log})
		if err != nil {
			return err
		}
		if c.Once {
			return c.once(ctx, app, con)
		}
		return c.serve(ctx, app, con)
	})
	return g.Wait()
}

func (c *demoCmd) stepDelay() time.Duration {
	if c.Once {
		return 0
	}
	return demoStep
}

// demoFlags are the defaults of serve, for the demo's own server.
func demoFlags(l listenFlags) serveFlags {
	return serveFlags{
		listenFlags: l, State: "ephemeral", Gallery: "private", MaxMB: 256,
		RunTimeout: sidecar.DefaultRunLimit.Seconds(), Window: sidecar.DefaultWindow, queueFlags: defaultQueue,
	}
}

// layDemo writes the example environment and a picture to work on into dir.
func layDemo(dir string) (manifest.Environment, error) {
	files, err := fs.Sub(demoFiles, "demo")
	if err != nil {
		return manifest.Environment{}, fmt.Errorf("open the example environment: %w", err)
	}
	root := filepath.Join(dir, "demo")
	if err := os.CopyFS(root, files); err != nil {
		return manifest.Environment{}, fmt.Errorf("write the example environment: %w", err)
	}
	if err := writeExample(filepath.Join(dir, "ComfyUI", "input", "example.png")); err != nil {
		return manifest.Environment{}, err
	}
	return manifest.Locate(root)
}

// writeExample paints a small picture with all colours in it.
func writeExample(path string) error {
	const width, height = 384, 256
	pic := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			pic.SetNRGBA(x, y, color.NRGBA{uint8(255 * x / width), uint8(255 * y / height), uint8(255 - 255*x/width), 255})
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make the input folder: %w", err)
	}
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write the example picture: %w", err)
	}
	return errors.Join(png.Encode(file, pic), file.Close())
}

// serve shows the panel until ctx ends. A taken port is no reason to fail: a
// newcomer wants to see something.
func (c *demoCmd) serve(ctx context.Context, app *app, con console) error {
	listener, err := listen(ctx, c.listenFlags)
	if err != nil {
		listener, err = listen(ctx, listenFlags{Host: c.Host})
	}
	if err != nil {
		return errors.Join(err, app.close())
	}
	port := listener.Addr().(*net.TCPAddr).Port
	fmt.Fprintf(con.out, "Studio is at http://%s/\nPress Ctrl+C to stop.\n", net.JoinHostPort(c.Host, strconv.Itoa(port)))
	return app.run(ctx, listener)
}

// once runs the first contract over HTTP, as a client would, and writes its
// first picture.
func (c *demoCmd) once(ctx context.Context, app *app, con console) error {
	listener, err := listen(ctx, listenFlags{Host: "127.0.0.1"})
	if err != nil {
		return errors.Join(err, app.close())
	}
	base := "http://" + listener.Addr().String()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return app.run(ctx, listener) })
	g.Go(func() error {
		defer stop()
		path, err := c.fetchOne(ctx, base, app.catalog.Snapshot())
		if err != nil {
			return fmt.Errorf("run the demo: %w", err)
		}
		_, err = fmt.Fprintln(con.out, path)
		return err
	})
	return g.Wait()
}

func (c *demoCmd) fetchOne(ctx context.Context, base string, snap *manifest.Snapshot) (string, error) {
	contracts := snap.Contracts()
	if len(contracts) == 0 {
		return "", errors.New("the example environment has no contract")
	}
	var answer struct {
		Message string `json:"message"`
		Items   []struct {
			URL      string `json:"url"`
			Filename string `json:"filename"`
		} `json:"gallery_items"`
	}
	url := base + "/contracts/" + contracts[0].Workflow + "/" + contracts[0].Name + "/run"
	body, err := call(ctx, http.MethodPost, url, `{"inputs":{"steps":6},"wait":true}`)
	if err != nil {
		return "", err
	}
	defer body.Close()
	if err := json.NewDecoder(body).Decode(&answer); err != nil {
		return "", fmt.Errorf("read the answer: %w", err)
	}
	if len(answer.Items) == 0 || answer.Items[0].URL == "" {
		return "", fmt.Errorf("no picture came back: %s", answer.Message)
	}
	picture, err := call(ctx, http.MethodGet, base+answer.Items[0].URL, "")
	if err != nil {
		return "", err
	}
	defer picture.Close()
	return save(picture, c.Out, answer.Items[0].Filename)
}

func call(ctx context.Context, method, url, body string) (io.ReadCloser, error) {
	req, err := newJSONRequest(ctx, method, url, body)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, url, err)
	}
	return resp.Body, nil
}
