package routes

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// chunk is how much is copied at once: large enough that two connections are
// kept busy, small enough for many downloads at a time.
const chunk = 1 << 20

// chunkLimit is how long a client may take for one chunk: 18 kB/s.
const chunkLimit = time.Minute

// chunks holds buffers between downloads.
type chunks struct{ pool sync.Pool }

func (p *chunks) take() *[]byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, chunk)
	return &b
}

func (p *chunks) give(b *[]byte) { p.pool.Put(b) }

// askedHeaders are what a client may ask for about a file.
var askedHeaders = []string{"Range", "If-Range", "If-None-Match", "If-Modified-Since", "If-Match", "If-Unmodified-Since"}

// toldHeaders are what a backend may tell about a file. Its type and its name
// are looked at first.
var toldHeaders = []string{"Content-Range", "Accept-Ranges", "Etag", "Last-Modified"}

func (c *call) viewOutput() error {
	query := c.r.URL.Query()
	if ref := query.Get("serve_artifact"); ref != "" {
		return c.viewArtifact(ref)
	}
	ask, err := c.fileQuery(query)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(c.r.Context())
	defer stop()
	content, err := c.studio.Executor().Fetch(ctx, ask)
	if err != nil {
		return c.fetchFault(err)
	}
	err = c.showContent(ask, content)
	if content.Body == nil {
		return err
	}
	if closing := content.Body.Close(); closing != nil {
		c.log.Debug("close a backend's file", "err", closing, "request_id", c.id)
	}
	return err
}

func (c *call) fileQuery(query url.Values) (sidecar.FileQuery, error) {
	ask := sidecar.FileQuery{
		Filename: query.Get("filename"), Subfolder: query.Get("subfolder"), Type: query.Get("type"),
		Method: c.r.Method, Header: map[string][]string{},
	}
	if ask.Filename == "" {
		return ask, badRequest("'filename' query parameter is required.", "Use the url of a gallery item as it is.")
	}
	if !query.Has("type") {
		ask.Type = "output"
	}
	if restricted(ask.Type) && !c.urls.proves(query) {
		return ask, &fault{
			code: sidecar.CodeForbidden, message: "Files of type '" + ask.Type + "' are shown through the address of a run's item only.",
			hint: "Use the url of a gallery item as it is; it is renewed when the server restarts.",
		}
	}
	for _, name := range askedHeaders {
		if values := c.r.Header.Values(name); len(values) > 0 {
			ask.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	return ask, nil
}

// fetchFault says why a backend gave no file. What it refuses in an unusual
// way is no fault of the client's, nor of ours.
func (c *call) fetchFault(err error) error {
	var refused *sidecar.RefusedError
	if !errors.As(err, &refused) {
		return err
	}
	return &fault{
		code: sidecar.CodeUnavailable, message: refused.Failure.Message, hint: refused.Failure.Hint, cause: err,
		more: func(t *text) {
			if c.direct {
				t.optStr("comfy_url", c.opts.ComfyURL)
			}
		},
	}
}

func (c *call) showContent(ask sidecar.FileQuery, content *sidecar.Content) error {
	told := http.Header(content.Header)
	h := c.w.Header()
	switch content.Status {
	case http.StatusOK, http.StatusPartialContent, http.StatusNotModified:
	default:
		if content.Status == http.StatusRequestedRangeNotSatisfiable && told.Get("Content-Range") != "" {
			h.Set("Content-Range", told.Get("Content-Range"))
		}
		return contentFault(ask, content.Status)
	}
	for _, name := range toldHeaders {
		if value := told.Get(name); value != "" {
			h.Set(name, value)
		}
	}
	if content.Status == http.StatusNotModified {
		c.w.WriteHeader(content.Status)
		return nil
	}
	kind := told.Get("Content-Type")
	if kind == "" {
		kind = "application/octet-stream"
	}
	describe(h, kind, told.Get("Content-Disposition"), ask.Filename)
	if content.Size >= 0 {
		h.Set("Content-Length", strconv.FormatInt(content.Size, 10))
	}
	c.w.WriteHeader(content.Status)
	if c.r.Method == http.MethodHead || content.Body == nil {
		return nil
	}
	return c.pass(content.Body)
}

func contentFault(ask sidecar.FileQuery, status int) *fault {
	switch status {
	case http.StatusNotFound:
		return &fault{
			code: codeOutput, message: "ComfyUI no longer has this output artifact.",
			hint: "It was deleted or its folder was changed; run the contract again.",
			more: func(t *text) {
				t.str("filename", ask.Filename)
				t.str("type", ask.Type)
			},
		}
	case http.StatusBadRequest:
		return badRequest("ComfyUI does not take this file name, subfolder or type.", "Use the url of a gallery item as it is.")
	case http.StatusForbidden:
		return &fault{code: sidecar.CodeForbidden, message: "ComfyUI does not show files of this subfolder.", hint: "Use the url of a gallery item as it is."}
	case http.StatusRequestedRangeNotSatisfiable:
		return &fault{code: codeRange, message: "The file does not have this range.", hint: "Ask for 'bytes=FIRST-LAST' within its size."}
	case http.StatusPreconditionFailed:
		return &fault{code: sidecar.CodeCondition, message: "The file is not the one that was asked for.", hint: "Ask without If-Match and If-Unmodified-Since."}
	}
	return &fault{
		code: sidecar.CodeUnavailable, message: "ComfyUI answered with status " + strconv.Itoa(status) + ".",
		hint: "Look at ComfyUI's log.",
	}
}

// pass copies a backend's file to the client, the first bytes at once. An end
// that comes too early is made visible.
func (c *call) pass(src io.Reader) error {
	buf := c.chunks.take()
	defer c.chunks.give(buf)
	for first := true; ; first = false {
		n, err := src.Read(*buf)
		if n > 0 {
			if gone := c.send((*buf)[:n], first); gone != nil {
				c.log.Debug("the client left", "err", gone, "request_id", c.id)
				return nil
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			c.log.Debug("a backend's file ended early", "err", err, "request_id", c.id)
			c.cut()
			return nil
		}
	}
}

func (c *call) send(part []byte, first bool) error {
	if err := c.write(part); err != nil {
		return err
	}
	if first {
		return c.control().Flush()
	}
	return nil
}
