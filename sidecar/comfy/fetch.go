package comfy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/backend"
)

// connectionHeaders concern one connection, not the file.
var connectionHeaders = []string{
	"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade", "Set-Cookie",
}

// Fetch opens a file of ComfyUI's. It may take as long as it likes while bytes
// move. An answer that is not about the file is a *RefusedError.
func (e *Executor) Fetch(ctx context.Context, query sidecar.FileQuery) (*sidecar.Content, error) {
	if query.Method != http.MethodGet && query.Method != http.MethodHead {
		return nil, fmt.Errorf("fetch %q: the method must be GET or HEAD, not %q", query.Filename, query.Method)
	}
	if overridesType(query.Filename) {
		return &sidecar.Content{Status: http.StatusNotFound, Header: http.Header{}, Body: http.NoBody}, nil
	}
	resp, err := e.view(ctx, query)
	if err != nil {
		return nil, e.http.unreachable(fmt.Errorf("fetch %q: %w", query.Filename, err))
	}
	if !backend.AboutFile(resp.StatusCode) {
		return nil, errors.Join(e.refusedFile(resp), resp.Body.Close())
	}
	return &sidecar.Content{
		Status: resp.StatusCode, Header: fileHeader(resp.Header), Size: resp.ContentLength, Body: resp.Body,
	}, nil
}

// overridesType: ComfyUI lets such an ending of the name win over the type,
// and with it over whoever allowed the type.
func overridesType(name string) bool {
	return strings.HasSuffix(name, "[output]") || strings.HasSuffix(name, "[input]") || strings.HasSuffix(name, "[temp]")
}

func viewPath(query sidecar.FileQuery) string {
	kind := query.Type
	if kind == "" {
		kind = "output"
	}
	return "/view?filename=" + url.QueryEscape(query.Filename) +
		"&subfolder=" + url.QueryEscape(query.Subfolder) + "&type=" + url.QueryEscape(kind)
}

func (e *Executor) view(ctx context.Context, query sidecar.FileQuery) (*http.Response, error) {
	ctx, idle, stop := backend.Watched(ctx, e.opts.IdleTimeout)
	req, err := newRequest(ctx, query.Method, e.http.base+viewPath(query), nil)
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
	return &sidecar.RefusedError{Failure: rejected(sidecar.CodeUnavailable, answer{a})}
}

func fileHeader(from http.Header) http.Header {
	header := from.Clone()
	for _, named := range from.Values("Connection") {
		for name := range strings.SplitSeq(named, ",") {
			header.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range connectionHeaders {
		header.Del(name)
	}
	return header
}
