package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/comfygit-ai/studio-sidecar/manifest"
)

// Exit codes, for scripts.
const (
	exitOK     = 0
	exitFailed = 1 // what was asked for did not work
	exitUsage  = 2 // the command line or the configuration is wrong
)

// cli is the command line. Every flag has an environment variable; README's
// table of them is held to this grammar by a test.
type cli struct {
	Env      string `short:"e" name:"env" placeholder:"NAME" env:"STUDIO_SIDECAR_ENV" help:"Environment of the workspace (found by COMFYGIT_HOME, ~/comfygit, then upwards)."`
	EnvDir   string `name:"env-dir" placeholder:"DIR" env:"STUDIO_SIDECAR_ENV_DIR" help:"Folder of an environment; without it and -e the current folder."`
	LogLevel string `name:"log-level" enum:"debug,info,warn,error" default:"info" env:"STUDIO_SIDECAR_LOG_LEVEL" help:"What to log: debug, info, warn or error."`
	LogFile  string `name:"log-file" placeholder:"FILE" env:"STUDIO_SIDECAR_LOG_FILE" help:"Append the log to this file instead of standard error."`

	Serve     serveCmd     `cmd:"" help:"Serve the environment's contracts."`
	Demo      demoCmd      `cmd:"" help:"Serve an example environment with a built-in small ComfyUI."`
	Run       runCmd       `cmd:"" help:"Run a contract and bring its outputs here."`
	Contracts contractsCmd `cmd:"" help:"List the environment's contracts."`
	Digest    digestCmd    `cmd:"" help:"Print the environment's contract digest."`
	Health    healthCmd    `cmd:"" help:"Ask a running sidecar how it is."`
	Runs      runsCmd      `cmd:"" help:"List the runs in the state database."`
	Prune     pruneCmd     `cmd:"" help:"Remove finished runs that need not be kept."`
	Backup    backupCmd    `cmd:"" help:"Write a copy of the state database."`
	Restore   restoreCmd   `cmd:"" help:"Put a copy of the state database in its place."`
	Verify    verifyCmd    `cmd:"" help:"Look whether the state database is as it was written."`
	Version   versionCmd   `cmd:"" help:"Print the version."`
}

// console is where a command writes, and the context that ends it.
type console struct {
	ctx context.Context
	out io.Writer
	err io.Writer
}

// run executes one command line and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var line cli
	code := -1
	parser, err := kong.New(&line,
		kong.Name("studio-sidecar"),
		kong.Description("Serves the contracts of a ComfyUI environment and runs them."),
		kong.Writers(stdout, stderr),
		kong.Exit(func(c int) { code = c }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.UsageOnError(),
	)
	if err != nil {
		return complain(stderr, err)
	}
	parsed, err := parser.Parse(args)
	if code >= 0 { // --help was answered
		return code
	}
	if err != nil {
		fmt.Fprintf(stderr, "studio-sidecar: %v\nTry studio-sidecar --help.\n", err)
		return exitUsage
	}
	return complain(stderr, parsed.Run(&line, console{ctx: ctx, out: stdout, err: stderr}))
}

// complain writes an error as people read it: what, and on the next lines what
// to do about it.
func complain(stderr io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	var usage *usageError
	var silent silentError
	switch {
	case errors.As(err, &silent):
		return int(silent)
	case errors.As(err, &usage):
		for _, fault := range usage.faults {
			tell(stderr, fault, usage.advice)
		}
		return exitUsage
	}
	problem, advice := err.Error(), ""
	var fault *manifest.Fault
	var hinted hintedError
	var refused *refusal
	code := exitFailed
	switch {
	case errors.As(err, &fault):
		problem, advice = placed(fault), fault.Hint
	case errors.As(err, &hinted):
		advice = hinted.advice
	case errors.As(err, &refused):
		advice, code = refused.Hint, refused.exit()
	default:
		advice = adviceOf(err)
	}
	tell(stderr, problem, advice)
	return code
}

// placed is a fault with the place where it is, told once.
func placed(fault *manifest.Fault) string {
	if strings.HasPrefix(fault.Message, fault.Where()) {
		return fault.Message
	}
	return fault.Where() + ": " + fault.Message
}

func tell(stderr io.Writer, problem, advice string) {
	fmt.Fprintf(stderr, "studio-sidecar: %s\n", problem)
	if advice != "" {
		fmt.Fprintf(stderr, "  %s\n", advice)
	}
}

// usageError lists everything that is wrong with a command line or a
// configuration.
type usageError struct {
	faults []string
	advice string // "" where the faults say what to do
}

func (e *usageError) Error() string { return strings.Join(e.faults, "; ") }

// misuse is a usageError with one fault.
func misuse(format string, args ...any) *usageError {
	return &usageError{faults: []string{fmt.Sprintf(format, args...)}}
}

// silentError ends with a code after everything was said.
type silentError int

func (e silentError) Error() string { return fmt.Sprintf("exit %d", int(e)) }
