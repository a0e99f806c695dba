package sidecar

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
)

// InputFile is a file of ours that a graph names.
type InputFile struct {
	Name string // as the graph names it
	// Input is the input that brought it; empty when that is not known.
	Input string
	Type  string
	Size  int64
	// Rewritten tells that other bytes may have stood under this name.
	Rewritten bool
	// Open opens the file; the caller closes it.
	Open func() (io.ReadCloser, error)
}

// stageTries is how often a file whose answer got lost is handed on at once.
// Handing on what is there already changes nothing.
const stageTries = 2

// stage makes sure that the backend can load what the run's graph names. It
// returns the job with the names that the backend gave. The prompt has not
// been handed over when it fails: the error is never an *UnsureError.
func (s *Studio) stage(ctx context.Context, run *Run, job Job) (Job, error) {
	for _, id := range run.Uploads {
		file, err := s.inputFile(ctx, id)
		if err != nil {
			return job, err
		}
		file.Input = inputOf(run.Inputs, file.Name)
		name, err := s.stageFile(ctx, job, file)
		if err != nil {
			return job, fmt.Errorf("hand on %s: %w", file.Name, err)
		}
		if name != file.Name {
			job.Graph = renameInGraph(job.Graph, file.Name, name)
		}
	}
	return job, nil
}

func (s *Studio) stageFile(ctx context.Context, job Job, file InputFile) (string, error) {
	for try := 1; ; try++ {
		name, err := s.exec.Stage(ctx, job, file)
		var unsure *UnsureError
		if !errors.As(err, &unsure) {
			return name, err
		}
		if try >= stageTries || ctx.Err() != nil {
			return "", &UnreachableError{Failure: unsure.Failure, Err: err}
		}
	}
}

// inputOf is the first of a run's inputs that is a file's name.
func inputOf(inputs json.RawMessage, name string) string {
	var values map[string]json.RawMessage
	if json.Unmarshal(inputs, &values) != nil {
		return ""
	}
	for _, input := range slices.Sorted(maps.Keys(values)) {
		if textOf(values[input]) == name {
			return input
		}
	}
	return ""
}

func (s *Studio) inputFile(ctx context.Context, id UploadID) (InputFile, error) {
	u, err := s.store.Upload(ctx, id)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return InputFile{}, fmt.Errorf("read upload %s: %w", id, err)
	}
	if err != nil || !s.holds(u) {
		return InputFile{}, &RefusedError{Failure: Failure{
			Code: string(CodeBadRequest), Message: "The file of an upload that the run uses is gone.",
			Hint: "Upload it again, then start the run anew.", Outcome: OutcomeRejected,
		}}
	}
	return InputFile{
		Name: u.StoredName(), Type: u.Type, Size: u.Size, Rewritten: u.Writes > 1,
		Open: func() (io.ReadCloser, error) {
			file, err := s.uploads.Open(u.StoredName())
			if errors.Is(err, fs.ErrNotExist) {
				err = fmt.Errorf("%w: %w", ErrNotFound, err)
			}
			if err != nil {
				return nil, err
			}
			return file, nil
		},
	}, nil
}

// renameInGraph replaces every text of a graph that is the name of a file.
// Such a name holds 122 random bits, so that no other text is meant; the rest
// of the graph stays as it is, byte for byte.
func renameInGraph(graph json.RawMessage, from, to string) json.RawMessage {
	name, err := json.Marshal(to)
	if err != nil {
		return graph // a text always can be
	}
	start := append([]byte{'"'}, uploadNamed(from)...)
	var out []byte
	rest := []byte(graph)
	for {
		i := bytes.Index(rest, start)
		if i < 0 {
			return append(out, rest...)
		}
		end := i + endOfText(rest[i:])
		out = append(out, rest[:i]...)
		if textOf(rest[i:end]) == from {
			out = append(out, name...)
		} else {
			out = append(out, rest[i:end]...)
		}
		rest = rest[end:]
	}
}

// endOfText is how long the JSON text at the beginning of raw is.
func endOfText(raw []byte) int {
	for i := 1; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(raw)
}
