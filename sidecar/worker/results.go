package worker

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/artifact"
	"github.com/comfygit-ai/studio-sidecar/sidecar/protocol"
)

// Results copies a run's files onto our own disk, by streaming. When one
// cannot be had, the copies made so far are removed: a *RefusedError when the
// worker no longer has it, else it is tried again as a whole.
func (e *Executor) Results(ctx context.Context, job sidecar.Job, seen sidecar.Sighting) ([]sidecar.Result, error) {
	results, err := protocol.ResultsOf(job.Outputs, seen.Detail)
	if err != nil {
		f := e.http.unavailable(errNotWorker)
		f.Code, f.Message = CodeRejected, "The worker's outputs cannot be read."
		return nil, &sidecar.RefusedError{Failure: f}
	}
	for i := range results {
		for k := range results[i].Files {
			file := &results[i].Files[k]
			id := protocol.ArtifactOf(*file)
			if id == "" {
				continue
			}
			stem := fmt.Sprintf("artifact_%d_%d", results[i].Place, k)
			copied, err := e.copy(ctx, job, id, protocol.NameOf(*file), stem)
			if err != nil {
				return nil, errors.Join(fmt.Errorf("results of prompt %s: %w", job.Prompt, err), e.Discard(results))
			}
			file.Ref, file.ContentType = copied.Ref, copied.ContentType
		}
	}
	return results, nil
}

func (e *Executor) copy(ctx context.Context, job sidecar.Job, id, name, stem string) (artifact.Copy, error) {
	content, err := e.Fetch(ctx, sidecar.FileQuery{Filename: id, Type: artifactType, Method: http.MethodGet})
	if err != nil {
		return artifact.Copy{}, err
	}
	if content.Status != http.StatusOK {
		return artifact.Copy{}, errors.Join(e.goneFile(name, content.Status), content.Body.Close())
	}
	made, err := e.opts.Artifacts.AddNamed(string(job.Prompt), name, stem, content.Body)
	if err = errors.Join(err, content.Body.Close()); err != nil {
		return artifact.Copy{}, err
	}
	made.ContentType = protocol.KindOf(made.ContentType, http.Header(content.Header).Get("Content-Type"))
	return made, nil
}

func (e *Executor) goneFile(name string, status int) error {
	return &sidecar.RefusedError{Failure: sidecar.Failure{
		Code: CodeRejected, Message: fmt.Sprintf("The worker no longer has the output file '%s'.", name),
		Hint: "Run it again.", Status: status, URL: e.opts.URL, Proxy: true,
	}}
}

// Discard removes the copies of a run that ended otherwise.
func (e *Executor) Discard(results []sidecar.Result) error {
	return e.opts.Artifacts.RemoveAll(sidecar.CopiesOf(results)...)
}
