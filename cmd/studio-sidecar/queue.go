package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/artifact"
)

// queueFlags bound what may wait.
type queueFlags struct {
	MaxWaiting           int `name:"max-waiting" default:"1000" env:"STUDIO_SIDECAR_MAX_WAITING" help:"How many runs may wait here; beyond it they are refused."`
	MaxWaitingPerSession int `name:"max-waiting-per-session" default:"200" env:"STUDIO_SIDECAR_MAX_WAITING_PER_SESSION" help:"How many runs of one session may wait here."`
}

// defaultQueue are the limits of commands that have no flags for them.
var defaultQueue = queueFlags{sidecar.DefaultMaxWaiting, sidecar.DefaultMaxWaitingPerSession}

func (f *queueFlags) faults() (out []string) {
	for _, limit := range []struct {
		name  string
		value int
	}{
		{"--max-waiting (STUDIO_SIDECAR_MAX_WAITING)", f.MaxWaiting},
		{"--max-waiting-per-session (STUDIO_SIDECAR_MAX_WAITING_PER_SESSION)", f.MaxWaitingPerSession},
	} {
		if limit.value < 1 {
			out = append(out, fmt.Sprintf("%s: %d is out of range; use 1 or more", limit.name, limit.value))
		}
	}
	return out
}

func (f *queueFlags) limits() sidecar.Limits {
	return sidecar.Limits{Waiting: f.MaxWaiting, PerSession: f.MaxWaitingPerSession}
}

// copies opens our copies of outputs.
func copies(dir *artifact.Dir) func(string) (io.ReadCloser, error) {
	return func(ref string) (io.ReadCloser, error) {
		file, err := dir.Open(ref)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("%w: %w", sidecar.ErrNotFound, err)
		case err != nil:
			return nil, err
		}
		return file, nil
	}
}
