package worker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/backend"
)

// artifactType is the type of files that a FileQuery names by their id at the
// worker.
const artifactType = "proxy_artifact"

// Fetch opens an artifact that the worker holds, by its id and with
// type=proxy_artifact. A worker shows no other files.
func (e *Executor) Fetch(ctx context.Context, query sidecar.FileQuery) (*sidecar.Content, error) {
	if query.Type != artifactType {
		return &sidecar.Content{Status: http.StatusNotFound, Header: http.Header{}, Body: http.NoBody}, nil
	}
	resp, err := e.open(ctx, query)
	if err != nil {
		return nil, e.http.unreachable(fmt.Errorf("fetch %q: %w", query.Filename, err))
	}
	if resp.StatusCode == http.StatusForbidden || !backend.AboutFile(resp.StatusCode) {
		return nil, errors.Join(e.refusedFile(resp), resp.Body.Close())
	}
	return &sidecar.Content{
		Status: resp.StatusCode, Header: resp.Header, Size: resp.ContentLength, Body: resp.Body,
	}, nil
}

func (e *Executor) open(ctx context.Context, query sidecar.FileQuery) (*http.Response, error) {
	ctx, idle, stop := backend.Watched(ctx, e.opts.IdleTimeout)
	req, err := e.http.request(ctx, query.Method, "/proxy/artifacts/"+url.PathEscape(query.Filename), nil)
	if err != nil {
		stop()
		return nil, err
	}
	backend.PassOn(req, query.Header)
	return backend.Open(e.http.files, req, idle)
}

func (e *Executor) refusedFile(resp *http.Response) error {
	a, err := backend.Read(resp, answerLimit)
	if err != nil {
		return e.http.unreachable(err)
	}
	f := rejected(answer{a})
	if resp.StatusCode >= 500 {
		return &sidecar.UnsureError{Failure: f, Err: fmt.Errorf("fetch: HTTP %d", resp.StatusCode)}
	}
	return &sidecar.RefusedError{Failure: f}
}
