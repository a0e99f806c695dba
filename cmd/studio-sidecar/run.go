package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// Exit codes of run beyond those of every command.
const (
	exitInvalid     = 3   // there is no such contract, or its inputs were refused; nothing was run
	exitUnavailable = 4   // the sidecar, its worker or its ComfyUI does not answer
	exitInterrupted = 130 // Ctrl+C; a run that was started is cancelled
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

	values map[string]json.RawMessage // of --inputs
	pause  time.Duration              // see remote
}

func (c *runCmd) Run(line *cli, con console) error {
	flags := demoFlags(listenFlags{Host: "127.0.0.1"})
	flags.ComfyURL = c.ComfyURL
	if faults := append(c.faults(), flags.faults()...); len(faults) > 0 {
		return &usageError{faults: faults}
	}
	if err := c.readInputs(); err != nil {
		return err
	}
	if c.URL != "" {
		return c.runAt(con.ctx, c.URL, con)
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
	remote := &remote{
		base: strings.TrimRight(base, "/"), session: "cli_" + strings.ToLower(rand.Text()), token: c.tokenFlag,
		pause: cmp.Or(c.pause, followPause),
	}
	if err := os.MkdirAll(c.Out, 0o755); err != nil {
		return fmt.Errorf("make folder %s: %w", c.Out, err) // before anything is computed
	}
	launched, err := c.launch(ctx, remote)
	switch {
	case err != nil && ctx.Err() != nil:
		tell(con.err, "interrupted before the sidecar answered; whether it has the run is not known", "")
		return silentError(exitInterrupted)
	case err != nil:
		return c.refused(con, &outcome{}, err)
	}
	return c.bring(ctx, remote, launched, con)
}

// bring waits for the run's end and brings what it made here.
func (c *runCmd) bring(ctx context.Context, remote *remote, launched receipt, con console) error {
	id := launched.ID
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
		var silent *refusal
		if errors.As(err, &silent) && silent.exit() == exitUnavailable {
			silent.Hint = "The run may go on there; look for it at " + remote.url("runs", id) + "."
		}
		return c.refused(con, &outcome{RunID: id, Status: "unknown"}, err)
	}
	if len(launched.warnings()) > 0 && len(end.Issues) == 0 {
		end.Issues = launched.Issues
	}
	if end.Status == "completed" {
		end.Files, err = remote.download(ctx, end, c.Out)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		tell(con.err, "interrupted; run "+id+" has ended, and not all that it made is here", "")
		return silentError(exitInterrupted)
	case err != nil:
		return c.refused(con, end, err)
	}
	return c.report(con, end)
}

// refused reports what is known of a run, and what the sidecar refused; other
// faults are told alone.
func (c *runCmd) refused(con console, known *outcome, err error) error {
	var refused *refusal
	if !errors.As(err, &refused) {
		return err
	}
	told := *refused
	told.Message = err.Error()
	known.Err = &told
	return c.report(con, known)
}

// faults lists what is wrong with the command line, each with its flag.
func (c *runCmd) faults() (out []string) {
	if workflow, contract := c.names(); workflow == "" || contract == "" {
		out = append(out, fmt.Sprintf("%q names no contract; write WORKFLOW or WORKFLOW/CONTRACT", c.Contract))
	}
	for _, pair := range c.Input {
		if !strings.Contains(pair, "=") {
			out = append(out, fmt.Sprintf("-i (STUDIO_SIDECAR_INPUT): %q has no value; write NAME=VALUE", pair))
		}
	}
	if c.URL != "" && !isAddress(c.URL) {
		out = append(out, noSidecarURL(c.URL))
	}
	return out
}

func noSidecarURL(given string) string {
	return fmt.Sprintf("--url (STUDIO_SIDECAR_URL): %q is no address; use one like http://127.0.0.1:8190", given)
}

// names are the workflow and the contract to run.
func (c *runCmd) names() (workflow, contract string) {
	if at := strings.LastIndex(c.Contract, "/"); at >= 0 {
		return c.Contract[:at], c.Contract[at+1:]
	}
	return c.Contract, "default"
}

func (c *runCmd) launch(ctx context.Context, remote *remote) (receipt, error) {
	workflow, contract := c.names()
	form, err := remote.form(ctx, workflow, contract)
	if err != nil {
		return receipt{}, err
	}
	inputs, err := c.give(ctx, remote, form)
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

// give are the inputs of the command line as JSON members.
func (c *runCmd) give(ctx context.Context, remote *remote, form *contractForm) (map[string]json.RawMessage, error) {
	values := map[string]json.RawMessage{}
	maps.Copy(values, c.values)
	for _, pair := range c.Input {
		name, text, _ := strings.Cut(pair, "=")
		value, err := inputValue(ctx, remote, form.typeOf(name), text)
		var usage *usageError
		switch {
		case errors.As(err, &usage):
			return nil, misuse("-i %s (STUDIO_SIDECAR_INPUT): %v", name, usage)
		case err != nil:
			return nil, fmt.Errorf("-i %s: %w", name, err)
		}
		values[name] = value
	}
	return values, nil
}

// readInputs reads the file of --inputs, before anybody is asked.
func (c *runCmd) readInputs() error {
	if c.Inputs == "" {
		return nil
	}
	var raw []byte
	var err error
	if c.Inputs == "-" {
		raw, err = io.ReadAll(os.Stdin)
	} else {
		raw, err = os.ReadFile(c.Inputs)
	}
	if err != nil {
		return misuse("--inputs (STUDIO_SIDECAR_INPUTS): %v", err)
	}
	if err = json.Unmarshal(raw, &c.values); err == nil && c.values == nil {
		err = errors.New("it is null")
	}
	if err != nil {
		return misuse("--inputs (STUDIO_SIDECAR_INPUTS): %s must hold a JSON object: %v", c.Inputs, err)
	}
	return nil
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
	case o.Err != nil && o.RunID != "" && o.Err.exit() == exitInvalid:
		return silentError(exitFailed) // something was run
	case o.Err != nil:
		return silentError(o.Err.exit())
	case o.Status != "completed":
		return silentError(exitFailed)
	}
	return nil
}
