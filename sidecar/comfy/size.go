package comfy

import (
	"context"
	"errors"
	"fmt"
	"image"
	_ "image/gif"  // for image.DecodeConfig
	_ "image/jpeg" // for image.DecodeConfig
	_ "image/png"  // for image.DecodeConfig
	"io"
	"net/http"
	"strconv"
	"strings"

	_ "golang.org/x/image/bmp"  // for image.DecodeConfig
	_ "golang.org/x/image/webp" // for image.DecodeConfig

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

const (
	// headWindow is how much of a picture is asked for at a time. Nearly all
	// tell their size in the first one; a JPEG may have its colour profile
	// and previews in front.
	headWindow = 64 << 10
	// headLimit is after how many bytes a size stays unknown.
	headLimit = 1 << 20
)

var errNoFile = errors.New("no such file")

// measure finds the size of a picture or video, and with a picture's that of
// its file; what cannot be found stays 0.
func (c *collection) measure(ctx context.Context, key fileKey, f *found) {
	if f.picture && !c.gone.Load() {
		measured, err := f.File, error(nil)
		if f.Ref != "" {
			measured.Width, measured.Height, err = c.copiedSize(f.Ref)
		} else {
			measured.Width, measured.Height, measured.Bytes, err = c.e.pictureSize(ctx, key)
		}
		if err == nil {
			f.File = measured
		}
		c.unmeasured(key, err)
	}
	if f.video && !c.gone.Load() {
		width, height, err := c.e.probe(ctx, key)
		if err == nil {
			f.clip = clip{width, height}
		}
		c.unmeasured(key, err)
	}
}

// unmeasured tells why a size stays unknown.
func (c *collection) unmeasured(key fileKey, err error) {
	if err == nil {
		return
	}
	if _, away := errors.AsType[*sidecar.UnreachableError](err); away {
		c.gone.Store(true)
	}
	c.e.opts.Logger.Info("size of an output stays unknown", "file", key.name, "prompt", c.prompt, "err", err)
}

func (c *collection) copiedSize(ref string) (width, height int, err error) {
	file, err := c.e.opts.Artifacts.Open(ref)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return decodeSize(io.LimitReader(file, headLimit))
}

// pictureSize reads as much of the picture as its header takes. bytes is the
// size of the whole file, where ComfyUI tells it.
func (e *Executor) pictureSize(ctx context.Context, key fileKey) (width, height int, bytes int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.opts.CallTimeout)
	defer cancel()
	head := &head{ctx: ctx, e: e, key: key}
	defer func() { err = errors.Join(err, head.Close()) }()
	width, height, err = decodeSize(head)
	if head.err != nil {
		err = head.err // the decoders take it for an unknown format
	}
	return width, height, head.size, err
}

func decodeSize(src io.Reader) (width, height int, err error) {
	config, _, err := image.DecodeConfig(src)
	if err != nil {
		return 0, 0, fmt.Errorf("read picture header: %w", err)
	}
	if config.Width <= 0 || config.Height <= 0 {
		return 0, 0, image.ErrFormat
	}
	return config.Width, config.Height, nil
}

// head reads the beginning of a file, one window after the other.
type head struct {
	ctx  context.Context // of one pictureSize
	e    *Executor
	key  fileKey
	off  int64 // bytes read so far
	end  int64 // where the open window ends
	size int64 // of the whole file; 0 when not told
	body io.ReadCloser
	err  error // why nothing more can be had
}

func (h *head) Read(p []byte) (int, error) {
	if h.off >= headLimit {
		return 0, io.EOF
	}
	if h.body == nil && h.err == nil {
		h.err = h.open()
	}
	if h.err != nil {
		return 0, h.err
	}
	n, err := h.body.Read(p[:min(int64(len(p)), headLimit-h.off)])
	h.off += int64(n)
	if errors.Is(err, io.EOF) && h.off == h.end {
		err = h.Close() // there may be more behind a full window
	}
	return n, err
}

func (h *head) open() error {
	h.end = h.off + headWindow
	header := http.Header{"Range": {fmt.Sprintf("bytes=%d-%d", h.off, h.end-1)}}
	content, err := h.e.Fetch(h.ctx, h.key.query(header))
	if err != nil {
		return err
	}
	switch {
	case content.Status == http.StatusPartialContent:
		h.body, h.size = content.Body, wholeSize(content.Header)
		return nil
	case content.Status == http.StatusOK && h.off == 0:
		h.end = -1 // the whole file: no window follows
		h.body, h.size = content.Body, max(content.Size, 0)
		return nil
	case content.Status == http.StatusRequestedRangeNotSatisfiable && h.off > 0:
		return errors.Join(io.ErrUnexpectedEOF, content.Body.Close())
	}
	return errors.Join(fmt.Errorf("%w: HTTP %d", errNoFile, content.Status), content.Body.Close())
}

// wholeSize reads the end of "bytes 0-99/1234"; 0 when it is not told.
func wholeSize(header http.Header) int64 {
	_, told, _ := strings.Cut(header.Get("Content-Range"), "/")
	size, err := strconv.ParseInt(strings.TrimSpace(told), 10, 64)
	if err != nil {
		return 0
	}
	return max(size, 0)
}

func (h *head) Close() error {
	if h.body == nil {
		return nil
	}
	err := h.body.Close()
	h.body = nil
	return err
}
