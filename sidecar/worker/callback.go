package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/artifact"
	"github.com/comfygit-ai/studio-sidecar/sidecar/backend"
	"github.com/comfygit-ai/studio-sidecar/sidecar/protocol"
)

// postEnd tells how a run ended, with the files that it made.
func (d *delivery) postEnd(ctx context.Context, run *sidecar.Run) error {
	word, err := protocol.Describe(run)
	if err != nil {
		return err
	}
	word.RunID, word.ComfyURL = d.Callback.Run, ""
	word.Phase = ""
	var files []protocol.File
	for i := range word.Outputs {
		for k := range word.Outputs[i].Artifacts {
			file, err := d.attach(ctx, &word.Outputs[i].Artifacts[k], fmt.Sprintf("artifact_%d_%d", i, k))
			if err != nil {
				return err
			}
			if file != nil {
				files = append(files, *file)
			}
		}
	}
	return d.post(ctx, word, files)
}

// attach makes a part of an artifact's file; nil when there is none, or no
// more.
func (d *delivery) attach(ctx context.Context, a *protocol.Artifact, field string) (*protocol.File, error) {
	if a.ID == "" {
		return nil, nil
	}
	head, err := open(ctx, d.box.opts, *a, http.MethodHead, nil)
	if err != nil {
		return nil, err
	}
	if err := head.Body.Close(); err != nil {
		return nil, err
	}
	if head.Status != http.StatusOK {
		d.log.Warn("an output is gone", "file", *a.Filename, "status", head.Status)
		return nil, nil
	}
	a.Field, a.ContentType = field, contentType(head)
	artifactOf := *a
	return &protocol.File{
		Field: field, Name: artifact.CleanName(*a.Filename, field), Type: a.ContentType, Size: -1,
		Open: func() (io.ReadCloser, error) {
			content, err := open(ctx, d.box.opts, artifactOf, http.MethodGet, nil)
			if err != nil {
				return nil, err
			}
			if content.Status != http.StatusOK {
				return nil, errors.Join(fmt.Errorf("open %s: HTTP %d", *artifactOf.Filename, content.Status), content.Body.Close())
			}
			return content.Body, nil
		},
	}, nil
}

// open opens an artifact's file at the backend that made it, or our copy.
func open(ctx context.Context, o OutboxOptions, a protocol.Artifact, method string, header http.Header) (*sidecar.Content, error) {
	if a.Ref == "" {
		return o.Studio.Executor().Fetch(ctx, protocol.QueryOf(a, method, header))
	}
	file, err := o.Artifacts.Open(a.Ref)
	if err != nil {
		return &sidecar.Content{Status: http.StatusNotFound, Header: http.Header{}, Body: http.NoBody}, nil
	}
	told := http.Header{}
	told.Set("Content-Type", a.ContentType)
	return &sidecar.Content{Status: http.StatusOK, Header: told, Size: -1, Body: file}, nil
}

func contentType(c *sidecar.Content) string {
	if kind := http.Header(c.Header).Get("Content-Type"); kind != "" {
		return kind
	}
	return "application/octet-stream"
}

// post makes one callback. A form with files may take as long as it likes
// while bytes move.
func (d *delivery) post(ctx context.Context, word protocol.Run, files []protocol.File) error {
	payload, err := protocol.Encode(word)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		ctx, stop := context.WithTimeout(ctx, statusWithin)
		defer stop()
		return d.send(ctx, bytes.NewReader(payload), "application/json")
	}
	form, err := protocol.NewForm(payload, files)
	if err != nil {
		return err
	}
	ctx, idle, stop := backend.Watched(ctx, idleCallback)
	idle.Start()
	err = d.send(ctx, &backend.Paced{Reader: form, Idle: idle}, form.ContentType)
	stop() // lets go of a file that is still being read
	return errors.Join(err, form.Close())
}

// idleCallback is how long a callback with files may stand still: a reference
// front door writes them all before it answers.
const idleCallback = 2 * time.Minute

func (d *delivery) send(ctx context.Context, body io.Reader, kind string) (err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.Callback.URL, body)
	if err != nil {
		return hopeless(err)
	}
	req.Header.Set("User-Agent", "studio-sidecar")
	req.Header.Set("Content-Type", kind)
	if d.Callback.Token != "" {
		req.Header.Set(protocol.Authorization, protocol.Bearer(d.Callback.Token))
	}
	resp, err := d.box.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, answerLimit)); err != nil {
		d.log.Debug("a callback's answer broke off", "err", err)
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return statusError(resp.StatusCode)
	}
	return nil
}

// hopeless marks an address that will never be one.
func hopeless(err error) error {
	var bad *url.Error
	if errors.As(err, &bad) {
		return errors.Join(statusError(http.StatusBadRequest), err)
	}
	return err
}
