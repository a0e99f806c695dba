package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// Exit codes of run beyond those of every command.
const (
	exitInvalid     = 3   // the inputs were refused; nothing was run
	exitUnavailable = 4   // no sidecar, or its ComfyUI does not answer
	exitInterrupted = 130 // Ctrl+C; the run was cancelled
)

type runCmd struct {
	tokenFlag
	Contract string   `arg:"" placeholder:"WORKFLOW[/CONTRACT]" help:"What to run; the contract is default unless named."`
	Input    []string `short:"i" sep:"none" placeholder:"NAME=VALUE" env:"STUDIO_SIDECAR_INPUT" help:"Set an input; NAME=@FILE gives a picture, video, sound or file."`
	Inputs   string   `placeholder:"FILE" env:"STUDIO_SIDECAR_INPUTS" help:"Read inputs from a JSON object in a file; - is standard input."`
	Out      string   `short:"o" name:"out" default:"." placeholder:"DIR" env:"STUDIO_SIDECAR_OUT" help:"Folder for the files that come back."`
	URL      string   `name:"url" env:"STUDIO_SIDECAR_URL" help:"Run at this sidecar; without it one is started for the run."`
	ComfyURL string   `name:"comfy-url" default:"http://127.0.0.1:8188" env:"STUDIO_SIDECAR_COMFY_URL" help:"ComfyUI's address, when a sidecar is started for the run."`
	JSON     bool     `name:"json" env:"STUDIO_SIDECAR_JSON" help:"Print one JSON object about the run."`
}

func (c *runCmd) Run(line *cli, con console) error {
	if c.URL != "" {
		return c.runAt(con.ctx, c.URL, con)
	}
	flags := demoFlags(listenFlags{Host: "127.0.0.1"})
	flags.ComfyURL = c.ComfyURL
	if faults := flags.faults(); len(faults) > 0 {
		return &usageError{faults}
	}
	env, err := line.environment()
	if err != nil {
		return err
	}
	log, file, err := line.logger(con.err)
	if err != nil {
		return err
	}
	defer file.Close()
	if line.LogLevel == "info" && line.LogFile == "" {
		log = slog.New(slog.DiscardHandler) // the outcome says it all
	}
	listener, err := listen(con.ctx, flags.listenFlags)
	if err != nil {
		return err
	}
	// The sidecar outlives Ctrl+C by what it takes to cancel the run.
	ctx, stop := context.WithCancel(context.WithoutCancel(con.ctx))
	defer stop()
	app, err := newApp(ctx, appConfig{serveFlags: flags, env: env, log: log})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return app.run(ctx, listener) })
	g.Go(func() error {
		defer stop()
		return c.runAt(con.ctx, "http://"+listener.Addr().String(), con)
	})
	return g.Wait()
}

// runAt runs the contract at a sidecar and brings its outputs here.
func (c *runCmd) runAt(ctx context.Context, base string, con console) error {
	workflow, contract, named := strings.Cut(c.Contract, "/")
	if !named {
		contract = "default"
	}
	if at := strings.LastIndex(c.Contract, "/"); at > 0 {
		workflow, contract = c.Contract[:at], c.Contract[at+1:]
	}
	remote := &remote{base: strings.TrimRight(base, "/"), session: "cli_" + strings.ToLower(rand.Text()), token: c.tokenFlag}
	if err := os.MkdirAll(c.Out, 0o755); err != nil {
		return fmt.Errorf("make folder %s: %w", c.Out, err) // before anything is computed
	}
	launched, err := c.launch(ctx, remote, workflow, contract)
	id := launched.ID
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		return c.report(con, &outcome{Err: refused})
	case err != nil:
		return err
	}
	for _, warning := range launched.warnings() {
		tell(con.err, warning, "")
	}
	bar := newProgressBar(con.err, c.JSON)
	end, err := remote.follow(ctx, id, bar.show)
	bar.clear()
	if ctx.Err() != nil {
		return c.interrupted(con, remote, id)
	}
	if err != nil {
		return err
	}
	if len(launched.warnings()) > 0 && len(end.Issues) == 0 {
		end.Issues = launched.Issues
	}
	if end.Status == "completed" {
		end.Files, err = remote.download(ctx, end, c.Out)
	}
	return errors.Join(c.report(con, end), err)
}

func (c *runCmd) launch(ctx context.Context, remote *remote, workflow, contract string) (receipt, error) {
	form, err := remote.form(ctx, workflow, contract)
	if err != nil {
		return receipt{}, err
	}
	inputs, err := c.values(ctx, remote, form)
	if err != nil {
		return receipt{}, err
	}
	return remote.launch(ctx, workflow, contract, inputs)
}

// cancelLimit is how long Ctrl+C waits for the sidecar to take the cancel.
const cancelLimit = 2 * time.Second

func (c *runCmd) interrupted(con console, remote *remote, id string) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(con.ctx), cancelLimit)
	defer stop()
	if err := remote.cancel(ctx, id); err != nil {
		return fmt.Errorf("cancel run %s: %w", id, err)
	}
	fmt.Fprintf(con.err, "studio-sidecar: run %s was cancelled\n", id)
	return silentError(exitInterrupted)
}

// values are the inputs of the command line as JSON members.
func (c *runCmd) values(ctx context.Context, remote *remote, form *contractForm) (map[string]json.RawMessage, error) {
	values := map[string]json.RawMessage{}
	if c.Inputs != "" {
		raw, err := readInputs(c.Inputs)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(raw, &values); err != nil {
			return nil, &usageError{[]string{fmt.Sprintf("--inputs %s: it must hold a JSON object: %v", c.Inputs, err)}}
		}
	}
	for _, pair := range c.Input {
		name, text, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, &usageError{[]string{fmt.Sprintf("-i %s: write NAME=VALUE", pair)}}
		}
		value, err := inputValue(ctx, remote, form.typeOf(name), text)
		if err != nil {
			return nil, fmt.Errorf("-i %s: %w", name, err)
		}
		values[name] = value
	}
	return values, nil
}

func readInputs(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(os.Stdin)
	}
	raw, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("--inputs: %w", err)
	}
	return raw, nil
}

// inputValue writes a value as its input's type wants it. What does not fit
// goes as text: the sidecar says best what is wrong with it.
func inputValue(ctx context.Context, remote *remote, kind, text string) (json.RawMessage, error) {
	switch kind {
	case "image", "video", "audio", "file":
		if path, isFile := strings.CutPrefix(text, "@"); isFile {
			return remote.upload(ctx, path)
		}
	case "integer", "number":
		if number := json.Number(text); json.Valid([]byte(text)) && number.String() != "" && strings.ContainsAny(text[:1], "-0123456789") {
			return json.RawMessage(text), nil
		}
	case "boolean":
		if text == "true" || text == "false" {
			return json.RawMessage(text), nil
		}
	}
	return json.Marshal(text)
}

// outcome is how a run ended, as it is reported.
type outcome struct {
	RunID   string          `json:"run_id,omitempty"`
	Status  string          `json:"status"`
	Outcome string          `json:"outcome,omitempty"`
	Files   []outputFile    `json:"outputs"`
	Message string          `json:"message,omitempty"`
	Issues  json.RawMessage `json:"issues,omitempty"`

	items []galleryItem
	Err   *refusal `json:"error,omitempty"`
}

// outputFile is one output: a file that was written, or a text.
type outputFile struct {
	Name string `json:"name"`
	Type string `json:"type"`
	Path string `json:"path,omitempty"`
	Text string `json:"text,omitempty"`
}

func (c *runCmd) report(con console, end *outcome) error {
	if end.Status == "" {
		end.Status = "error"
	}
	if end.Files == nil {
		end.Files = []outputFile{}
	}
	if c.JSON {
		enc := json.NewEncoder(con.out)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(end); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
		return end.exit()
	}
	for _, f := range end.Files {
		switch {
		case f.Path != "":
			fmt.Fprintln(con.out, filepath.ToSlash(f.Path))
		case f.Text != "":
			fmt.Fprintln(con.out, f.Text)
		}
	}
	if end.exit() != nil {
		end.complain(con.err)
	}
	return end.exit()
}

// complain says why there is nothing, field by field where fields are at fault.
func (o *outcome) complain(w io.Writer) {
	if o.Err == nil {
		tell(w, fmt.Sprintf("run %s ended as %s: %s", o.RunID, o.Status, o.Message), "")
		return
	}
	tell(w, o.Err.Message, o.Err.Hint)
	for _, issue := range o.Err.Issues {
		fmt.Fprintf(w, "  %s\n", issue.Message)
	}
}

// exit is nil for a completed run, else what the process ends with.
func (o *outcome) exit() error {
	switch {
	case o.Err != nil && (o.Err.Status == 400 || o.Err.Status == 413):
		return silentError(exitInvalid)
	case o.Err != nil && o.Err.Status >= 502:
		return silentError(exitUnavailable)
	case o.Status != "completed":
		return silentError(exitFailed)
	}
	return nil
}
