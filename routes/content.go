package routes

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/gabriel-vasile/mimetype"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// sandbox keeps a document that carries scripts from running them here.
const sandbox = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"

// describe says what a file is and how to treat it. What could run scripts in
// our name is offered for saving.
func describe(h http.Header, kind, disposition, name string) {
	h.Set("Content-Type", kind)
	h.Set("X-Content-Type-Options", "nosniff")
	if active(kind) {
		h.Set("Content-Security-Policy", sandbox)
		h.Set("Content-Disposition", attachment(disposition, name))
		return
	}
	if disposition != "" {
		h.Set("Content-Disposition", safely(disposition, name))
	}
}

// active tells the types that a browser runs or renders with scripts.
func active(kind string) bool {
	base, _, err := mime.ParseMediaType(kind)
	if err != nil {
		return true
	}
	switch base {
	case "text/html", "text/xml", "application/xml", "text/xsl", "text/javascript", "application/javascript",
		"application/x-javascript", "application/ecmascript", "text/ecmascript", "multipart/x-mixed-replace",
		"multipart/related", "message/rfc822", "text/cache-manifest":
		return true
	}
	return strings.HasSuffix(base, "+xml")
}

// plainName is a disposition that every client reads alike.
var plainName = regexp.MustCompile(`^((inline|attachment); )?filename="[A-Za-z0-9 ._()+,=@-]{1,200}"$`)

// safely passes a plain disposition on and writes any other in both forms.
func safely(disposition, name string) string {
	if plainName.MatchString(disposition) {
		return disposition
	}
	kind, given := parseDisposition(disposition)
	if given != "" {
		name = given
	}
	return dispose(kind, name)
}

func attachment(disposition, name string) string {
	if strings.HasPrefix(disposition, "attachment") {
		return safely(disposition, name)
	}
	if _, given := parseDisposition(disposition); given != "" {
		name = given
	}
	return dispose("attachment", name)
}

// parseDisposition reads ComfyUI's form too, which lacks the kind.
func parseDisposition(value string) (kind, name string) {
	if strings.HasPrefix(value, "filename") {
		value = "inline; " + value
	}
	kind, params, err := mime.ParseMediaType(value)
	if err != nil || kind != "attachment" {
		kind = "inline"
	}
	return kind, params["filename"]
}

// dispose writes the name for old clients without what they misread, and for
// all others as it is.
func dispose(kind, name string) string {
	name = path.Base(strings.ReplaceAll(strings.ToValidUTF8(name, "_"), `\`, "/"))
	plain := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '"' || r == '\\' || r == '%' {
			return '_'
		}
		return r
	}, name)
	value := fmt.Sprintf(`%s; filename="%s"`, kind, plain)
	if plain != name {
		value += "; filename*=UTF-8''" + strings.ReplaceAll(url.QueryEscape(name), "+", "%20")
	}
	return value
}

// viewArtifact serves a copy of our own.
func (c *call) viewArtifact(ref string) error {
	unknown := &fault{
		code: sidecar.CodeNotFound, message: "Unknown serve artifact.",
		hint: "Use the url of a gallery item as it is; copies are removed with their runs.",
	}
	if c.opts.Artifacts == nil {
		return unknown
	}
	file, err := c.opts.Artifacts.Open(ref)
	if err != nil {
		unknown.cause = err
		return unknown
	}
	err = c.showFile(file)
	if closing := file.Close(); closing != nil {
		c.log.Debug("close an artifact", "err", closing, "request_id", c.id)
	}
	return err
}

func (c *call) showFile(file *os.File) error {
	stat, err := file.Stat()
	if err != nil {
		return err
	}
	kind, err := contentType(file, stat.Name())
	if err != nil {
		return err
	}
	h := c.w.Header()
	if ranges := c.r.Header.Get("Range"); strings.Contains(ranges, ",") {
		h.Set("Content-Range", fmt.Sprintf("bytes */%d", stat.Size()))
		return contentFault(sidecar.FileQuery{}, http.StatusRequestedRangeNotSatisfiable)
	}
	h.Set("Etag", etagOf(stat))
	describe(h, kind, "", stat.Name())
	return c.serveContent(stat, file)
}

// etagOf names a version of a file by its time and size, as the reference does.
func etagOf(stat fs.FileInfo) string {
	return fmt.Sprintf(`"%x-%x"`, stat.ModTime().UnixNano(), stat.Size())
}

// serveContent leaves ranges and conditions to net/http, but for its refusals,
// which it writes as text.
func (c *call) serveContent(stat fs.FileInfo, file io.ReadSeeker) error {
	w := &refusals{answer: c.w}
	if at := stat.ModTime(); !at.IsZero() {
		w.modified = at.UTC().Format(http.TimeFormat)
	}
	http.ServeContent(w, c.r, "", stat.ModTime(), file)
	switch w.refused {
	case 0:
		return nil
	case http.StatusRequestedRangeNotSatisfiable:
		c.w.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", stat.Size()))
		fallthrough
	case http.StatusPreconditionFailed:
		for _, name := range []string{"Content-Type", "Content-Disposition", "Content-Security-Policy", "Content-Length", "Last-Modified"} {
			w.Header().Del(name)
		}
		return contentFault(sidecar.FileQuery{}, w.refused)
	}
	return fmt.Errorf("serve %s: status %d", stat.Name(), w.refused)
}

// refusals holds errors back, and leaves the time of a file in the answer that
// it is unchanged.
type refusals struct {
	*answer
	modified string
	refused  int
}

// WriteHeader keeps a refusal for later.
func (w *refusals) WriteHeader(status int) {
	if status == http.StatusNotModified && w.modified != "" {
		w.Header().Set("Last-Modified", w.modified)
	}
	if status >= http.StatusBadRequest {
		w.refused = status
		return
	}
	w.answer.WriteHeader(status)
}

// Write drops the text of a refusal.
func (w *refusals) Write(p []byte) (int, error) {
	if w.refused != 0 {
		return len(p), nil
	}
	return w.answer.Write(p)
}

// ReadFrom keeps the way open on which the kernel copies a file to a socket,
// and gives each part its time.
func (w *refusals) ReadFrom(src io.Reader) (int64, error) {
	if w.refused != 0 {
		return io.Copy(io.Discard, src)
	}
	fast, ok := w.ResponseWriter.(io.ReaderFrom)
	whole, limited := src.(*io.LimitedReader)
	if !ok || !limited {
		return io.Copy(struct{ io.Writer }{w.answer}, src)
	}
	control, sent := http.NewResponseController(w.answer), int64(0)
	for whole.N > 0 {
		err := control.SetWriteDeadline(time.Now().Add(chunkLimit))
		if err != nil && !errors.Is(err, http.ErrNotSupported) {
			return sent, err
		}
		part := &io.LimitedReader{R: whole.R, N: min(whole.N, chunk)}
		n, err := fast.ReadFrom(part)
		sent, whole.N, w.bytes = sent+n, whole.N-n, w.bytes+n
		if err != nil || part.N > 0 {
			return sent, err
		}
	}
	return sent, nil
}

// contentType tells a file's type by its bytes, and by its name where they say
// no more than that it is text or data.
func contentType(file io.ReadSeeker, name string) (string, error) {
	found, err := mimetype.DetectReader(file)
	if err != nil {
		return "", fmt.Errorf("tell the type of a file: %w", err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return "", fmt.Errorf("tell the type of a file: %w", err)
	}
	if !found.Is("text/plain") && !found.Is("application/octet-stream") {
		return found.String(), nil
	}
	if kind, ok := typesByName[strings.ToLower(path.Ext(name))]; ok {
		return kind, nil
	}
	return found.String(), nil
}

// typesByName are the types that names may stand for; the machine's own table
// is not asked, for answers to be the same everywhere.
var typesByName = map[string]string{
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp", ".gif": "image/gif",
	".bmp": "image/bmp", ".avif": "image/avif", ".svg": "image/svg+xml", ".ico": "image/x-icon",
	".mp4": "video/mp4", ".webm": "video/webm", ".mov": "video/quicktime", ".mkv": "video/x-matroska",
	".wav": "audio/wav", ".mp3": "audio/mpeg", ".m4a": "audio/mp4", ".flac": "audio/flac", ".ogg": "audio/ogg", ".opus": "audio/ogg",
	".json": "application/json", ".html": "text/html", ".htm": "text/html", ".xml": "text/xml", ".xhtml": "application/xhtml+xml",
	".js": "application/javascript", ".mjs": "application/javascript", ".css": "text/css", ".txt": "text/plain; charset=utf-8",
	".woff2": "font/woff2", ".woff": "font/woff", ".ttf": "font/ttf", ".wasm": "application/wasm", ".map": "application/json",
	".glb": "model/gltf-binary", ".gltf": "model/gltf+json",
}
