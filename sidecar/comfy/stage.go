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

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/backend"
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
	ctx, idle, stop := backend.Watched(ctx, e.opts.IdleTimeout)
	defer stop()
	body, kind, size, err := uploadForm(file, &backend.Paced{Reader: src, Idle: idle})
	if err != nil {
		return "", errors.Join(err, src.Close())
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.http.base+"/upload/image", body)
	if err != nil {
		return "", errors.Join(err, src.Close())
	}
	req.Header.Set("User-Agent", "studio-sidecar")
	req.Header.Set("Content-Type", kind)
	req.ContentLength = size
	idle.Start()
	a, err := backend.Exchange(e.http.files, req, answerLimit)
	if closing := src.Close(); err != nil || closing != nil {
		return "", e.http.unheard(errors.Join(err, closing))
	}
	return takenName(file, answer{a})
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
	if !a.OK() {
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
				Hint: "Check that ComfyUI's address is right.", Status: a.Status, URL: a.URL, Detail: a.detail(),
			},
			Err: fmt.Errorf("hand on %s: %w", file.Name, errors.Join(err, errNotComfy)),
		}
	}
	return strings.TrimPrefix(path.Join(plain(taken.Subfolder), plain(taken.Name)), "/"), nil
}

// refusedUpload tells a no from an answer after which it may be tried again.
func refusedUpload(file sidecar.InputFile, a answer) error {
	f := rejected(sidecar.CodeRejected, a)
	if a.Status >= 500 || a.Status == http.StatusRequestTimeout {
		return &sidecar.UnsureError{Failure: f, Err: fmt.Errorf("hand on %s: HTTP %d", file.Name, a.Status)}
	}
	f.Outcome = sidecar.OutcomeRejected
	if a.Status == http.StatusRequestEntityTooLarge {
		f.Message = "ComfyUI does not take a file of this size: " + file.Name
		f.Hint = "Start ComfyUI with a larger --max-upload-size, or send a smaller file."
	}
	return &sidecar.RefusedError{Failure: f}
}
