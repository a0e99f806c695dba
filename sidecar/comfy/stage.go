package comfy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"path"
	"strings"
	"sync/atomic"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// Stage makes sure that ComfyUI has a file in its folder of inputs. Where that
// folder is ours too, it is there already; else it is handed on. ComfyUI keeps
// what is there: the same bytes under the same name are the same file, and
// other bytes get another name, which Stage returns.
func (e *Executor) Stage(ctx context.Context, _ sidecar.Job, file sidecar.InputFile) (string, error) {
	if !file.Rewritten {
		there, err := e.holds(ctx, file)
		if err != nil || there {
			return file.Name, err
		}
	}
	return e.upload(ctx, file)
}

// holds asks whether ComfyUI can load the file, byte for byte as far as its
// size tells: names of ours are never given twice.
func (e *Executor) holds(ctx context.Context, file sidecar.InputFile) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, e.opts.CallTimeout)
	defer cancel()
	content, err := e.Fetch(ctx, sidecar.FileQuery{Filename: file.Name, Type: "input", Method: http.MethodHead})
	var refused *sidecar.RefusedError
	if errors.As(err, &refused) {
		return false, nil // it does not show files; perhaps it takes them
	}
	if err != nil {
		return false, err
	}
	there := content.Status == http.StatusOK && content.Size == file.Size
	return there, content.Body.Close()
}

// upload sends the file. Its size is known before, so that nothing is held in
// memory; it may take as long as it likes while bytes move.
func (e *Executor) upload(ctx context.Context, file sidecar.InputFile) (string, error) {
	src, err := file.Open()
	if err != nil {
		return "", fmt.Errorf("open %s: %w", file.Name, err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := newWatchdog(e.opts.IdleTimeout, cancel)
	body, kind, size, err := uploadForm(file, &paced{src, idle})
	if err != nil {
		return "", errors.Join(err, src.Close())
	}
	var heard atomic.Bool
	req, err := http.NewRequestWithContext(traced(ctx, &heard), http.MethodPost, e.http.base+"/upload/image", body)
	if err != nil {
		return "", errors.Join(err, src.Close())
	}
	req.Header.Set("User-Agent", "studio-sidecar")
	req.Header.Set("Content-Type", kind)
	req.ContentLength = size
	idle.start()
	defer idle.stop()
	a, err := e.http.send(req)
	err = errors.Join(err, src.Close())
	if err != nil {
		if errors.Is(context.Cause(ctx), errIdle) {
			err = errIdle
		}
		return "", e.http.unheard(&callError{reached: heard.Load(), err: fmt.Errorf("POST /upload/image: %w", err)})
	}
	return takenName(file, a)
}

// send makes an exchange of any length; its answer is an ordinary one.
func (c *client) send(req *http.Request) (a answer, err error) {
	resp, err := c.files.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, answerLimit))
	return answer{status: resp.StatusCode, url: req.URL.String(), header: resp.Header, body: body}, err
}

// paced is a file on its way out: each piece that leaves is a sign of life.
type paced struct {
	io.Reader
	idle *watchdog
}

// Read gives ComfyUI its time for the next piece.
func (p *paced) Read(b []byte) (int, error) {
	p.idle.start()
	return p.Reader.Read(b)
}

// uploadForm wraps a file into the form that ComfyUI takes.
func uploadForm(file sidecar.InputFile, src io.Reader) (body io.Reader, kind string, size int64, err error) {
	var head bytes.Buffer
	form := multipart.NewWriter(&head)
	for name, value := range map[string]string{"type": "input", "overwrite": "false"} {
		if err := form.WriteField(name, value); err != nil {
			return nil, "", 0, err
		}
	}
	header := textproto.MIMEHeader{}
	header.Set("Content-Disposition", multipart.FileContentDisposition("image", file.Name))
	header.Set("Content-Type", file.Type)
	if _, err := form.CreatePart(header); err != nil {
		return nil, "", 0, err
	}
	before := head.Len()
	if err := form.Close(); err != nil {
		return nil, "", 0, err
	}
	whole := head.Bytes()
	size = int64(len(whole)) + file.Size
	body = io.MultiReader(bytes.NewReader(whole[:before]), io.LimitReader(src, file.Size), bytes.NewReader(whole[before:]))
	return body, form.FormDataContentType(), size, nil
}

// takenName reads under which name ComfyUI keeps a file.
func takenName(file sidecar.InputFile, a answer) (string, error) {
	if !a.ok() {
		return "", refusedUpload(file, a)
	}
	var taken struct {
		Name      json.RawMessage `json:"name"`
		Subfolder json.RawMessage `json:"subfolder"`
	}
	if err := a.object(&taken); err != nil || plain(taken.Name) == "" {
		return "", &sidecar.UnsureError{
			Failure: sidecar.Failure{
				Code: string(sidecar.CodeRejected), Message: "ComfyUI did not say under which name it keeps a file.",
				Hint: "Check that ComfyUI's address is right.", Status: a.status, URL: a.url, Detail: a.detail(),
			},
			Err: fmt.Errorf("hand on %s: %w", file.Name, errors.Join(err, errNotComfy)),
		}
	}
	return strings.TrimPrefix(path.Join(plain(taken.Subfolder), plain(taken.Name)), "/"), nil
}

// refusedUpload tells a no from an answer after which it may be tried again.
func refusedUpload(file sidecar.InputFile, a answer) error {
	f := rejected(sidecar.CodeRejected, a)
	if a.status >= 500 || a.status == http.StatusRequestTimeout {
		return &sidecar.UnsureError{Failure: f, Err: fmt.Errorf("hand on %s: HTTP %d", file.Name, a.status)}
	}
	f.Outcome = sidecar.OutcomeRejected
	if a.status == http.StatusRequestEntityTooLarge {
		f.Message = "ComfyUI does not take a file of this size: " + file.Name
		f.Hint = "Start ComfyUI with a larger --max-upload-size, or send a smaller file."
	}
	return &sidecar.RefusedError{Failure: f}
}
