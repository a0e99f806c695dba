package comfy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/backend"
)

// filesAtOnce bounds how many files of a run are looked at side by side.
const filesAtOnce = 4

// Results collects the declared outputs. Sizes that ComfyUI reports are kept,
// others are read off the first bytes. What cannot be had, a size or a copy,
// is left out with a line in the log; it does not spoil the run. When ComfyUI
// stops answering before all is copied, the error is an *UnreachableError and
// nothing is kept: it has to be asked again.
func (e *Executor) Results(ctx context.Context, job sidecar.Job, seen sidecar.Sighting) ([]sidecar.Result, error) {
	collected := manifest.Collect(job.Outputs, seen.Outputs)
	results := make([]sidecar.Result, len(collected))
	c := &collection{e: e, prompt: job.Prompt, files: map[fileKey]*found{}}
	for i, res := range collected {
		results[i] = sidecar.Result{Result: res, Files: make([]sidecar.File, len(res.Artifacts))}
		for _, a := range res.Artifacts {
			c.want(res.Type, a)
		}
	}
	if err := c.look(ctx); err != nil {
		return nil, fmt.Errorf("results of prompt %s: %w", job.Prompt, errors.Join(err, c.discard()))
	}
	for i, res := range collected {
		for k, a := range res.Artifacts {
			results[i].Files[k] = c.file(res.Type, a)
		}
	}
	return results, nil
}

// Discard removes the copies of a run that ended otherwise.
func (e *Executor) Discard(results []sidecar.Result) error {
	if e.opts.Artifacts == nil {
		return nil
	}
	return e.opts.Artifacts.RemoveAll(sidecar.CopiesOf(results)...)
}

// collection is the files of one run, each looked at once however often it is
// named.
type collection struct {
	e      *Executor
	prompt sidecar.PromptID
	files  map[fileKey]*found
	gone   atomic.Bool // ComfyUI stopped answering: no more questions
}

type fileKey struct{ name, subfolder, kind string }

// found is what is known of a file. A picture is one of its own even where a
// video output names it too.
type found struct {
	picture, video bool // what to measure it as
	clip           clip // its size as a video
	sidecar.File        // its size as a picture
}

type clip struct{ width, height int }

func keyOf(a manifest.Artifact) (fileKey, bool) {
	if a.Filename == nil || *a.Filename == "" {
		return fileKey{}, false
	}
	key := fileKey{name: *a.Filename, kind: "output"}
	if a.Subfolder != nil {
		key.subfolder = *a.Subfolder
	}
	if a.Type != nil && *a.Type != "" {
		key.kind = *a.Type
	}
	return key, true
}

func (k fileKey) query(header http.Header) sidecar.FileQuery {
	return sidecar.FileQuery{Filename: k.name, Subfolder: k.subfolder, Type: k.kind, Method: http.MethodGet, Header: header}
}

func (c *collection) want(outputType string, a manifest.Artifact) {
	key, ok := keyOf(a)
	if !ok {
		return
	}
	f := c.files[key]
	if f == nil {
		f = &found{}
		c.files[key] = f
	}
	if _, _, reported := reportedSize(a.Raw); reported {
		return
	}
	switch manifest.Kind(outputType, key.name) {
	case "image":
		f.picture = true
	case "video":
		f.video = true
	}
}

// file is what is known of an artifact in the end.
func (c *collection) file(outputType string, a manifest.Artifact) sidecar.File {
	key, ok := keyOf(a)
	if !ok {
		return sidecar.File{}
	}
	file := c.files[key].File
	media := manifest.Kind(outputType, key.name)
	if media == "video" {
		file.Width, file.Height = c.files[key].clip.width, c.files[key].clip.height
	}
	if width, height, reported := reportedSize(a.Raw); reported && (media == "image" || media == "video") {
		file.Width, file.Height = width, height
	}
	return file
}

func reportedSize(raw json.RawMessage) (width, height int, ok bool) {
	var size struct {
		Width  amount `json:"width"`
		Height amount `json:"height"`
	}
	if !isObject(raw) || json.Unmarshal(raw, &size) != nil {
		return 0, 0, false
	}
	width, height = int(size.Width), int(size.Height)
	return width, height, width > 0 && height > 0
}

// discard removes what was copied.
func (c *collection) discard() error {
	var errs []error
	for _, f := range c.files {
		if f.Ref != "" {
			errs = append(errs, c.e.opts.Artifacts.Remove(f.Ref))
		}
	}
	return errors.Join(errs...)
}

// look copies and measures. Its error is the context's, or that ComfyUI stopped
// answering.
func (c *collection) look(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(filesAtOnce)
	for key, f := range c.files {
		g.Go(func() error {
			if c.localised(key) {
				file, err := c.copy(ctx, key)
				if err != nil {
					return err
				}
				f.File = file
			}
			c.measure(ctx, key, f)
			return ctx.Err()
		})
	}
	return g.Wait()
}

func (c *collection) localised(key fileKey) bool {
	if c.e.opts.Artifacts == nil {
		return false
	}
	kind := strings.ToLower(key.kind)
	return kind == "temp" || c.e.opts.Localise == LocaliseAll && kind == "output"
}

var errGone = errors.New("it stopped answering")

// copy streams a file to our own disk; the zero File leaves it with ComfyUI.
func (c *collection) copy(ctx context.Context, key fileKey) (sidecar.File, error) {
	if c.gone.Load() {
		return sidecar.File{}, c.e.http.unreachable(errGone)
	}
	content, err := c.e.Fetch(ctx, key.query(nil))
	if err != nil {
		return sidecar.File{}, c.notCopied(ctx, key, err)
	}
	defer c.shut(content, key)
	if content.Status != http.StatusOK {
		return sidecar.File{}, c.notCopied(ctx, key, fmt.Errorf("HTTP %d", content.Status))
	}
	made, err := c.e.opts.Artifacts.Add(string(c.prompt), key.name, content.Body)
	if errors.Is(err, backend.ErrIdle) {
		err = c.e.http.unreachable(err)
	}
	if err != nil {
		return sidecar.File{}, c.notCopied(ctx, key, err)
	}
	return sidecar.File{Ref: made.Ref, Bytes: made.Size, ContentType: contentType(made.ContentType, content.Header)}, nil
}

// notCopied returns the error that ends the whole collection; nil when the file
// alone is left out.
func (c *collection) notCopied(ctx context.Context, key fileKey, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	c.complain("copy", key, err)
	if _, away := errors.AsType[*sidecar.UnreachableError](err); away {
		c.gone.Store(true)
		return err
	}
	return nil
}

// contentType trusts the bytes; where they tell little, the backend.
func contentType(sniffed string, header http.Header) string {
	told := header.Get("Content-Type")
	if told != "" && (sniffed == "application/octet-stream" || strings.HasPrefix(sniffed, "text/plain")) {
		return told
	}
	return sniffed
}

func (c *collection) shut(content *sidecar.Content, key fileKey) {
	if err := content.Body.Close(); err != nil {
		c.e.opts.Logger.Debug("close file", "file", key.name, "err", err)
	}
}

func (c *collection) complain(what string, key fileKey, err error) {
	c.e.opts.Logger.Warn("could not "+what+" an output", "file", key.name, "type", key.kind, "prompt", c.prompt, "err", err)
}
