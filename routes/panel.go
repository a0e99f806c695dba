package routes

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// panelPolicy lets our panel load what this server serves and nothing else. It
// may be framed by a page of the same origin, as inside ComfyUI.
const panelPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; " +
	"font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'self'; form-action 'none'; frame-ancestors 'self'"

// panel is the page that browsers get, with its files.
type panel struct {
	files   fs.FS
	foreign bool   // the reference's, or another one built for it
	version string // of our files, by content
}

func newPanel(o Options) (*panel, error) {
	if o.StaticDir != "" {
		stat, err := os.Stat(o.StaticDir)
		if err != nil {
			return nil, fmt.Errorf("panel folder: %w", err)
		}
		if !stat.IsDir() {
			return nil, fmt.Errorf("panel folder %q: this is no folder", o.StaticDir)
		}
		return &panel{files: folder(o.StaticDir), foreign: true}, nil
	}
	p := &panel{files: o.Static}
	if p.files == nil {
		return p, nil
	}
	var err error
	p.version, err = digestOf(p.files)
	return p, err
}

// folder is a file system that ends at the folder: links out of it lead
// nowhere. It may be replaced while it is served.
type folder string

// Open implements [fs.FS].
func (f folder) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	file, err := os.OpenInRoot(string(f), name)
	if err != nil {
		return nil, err
	}
	return file, nil
}

// digestOf names the content of all files.
func digestOf(files fs.FS) (string, error) {
	sum := sha256.New()
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(sum, "%s\x00%d\x00%s", name, len(data), data)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read the panel's files: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil)[:6]), nil
}

func (c *call) favicon() error {
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// page answers with the panel.
func (c *call) page() error {
	if c.panel.files == nil {
		return noPanel(nil)
	}
	source, err := fs.ReadFile(c.panel.files, "index.html")
	if err != nil {
		return noPanel(err)
	}
	name := c.studio.Catalog().Snapshot().Environment
	h := c.w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	var body []byte
	if c.panel.foreign {
		if c.authorized() != nil {
			name = ""
		}
		body = foreignPage(source, c.urls.prefix, c.authMode(), name)
	} else {
		h.Set("Content-Security-Policy", panelPolicy)
		body = c.ownPage(source, name)
	}
	c.body(http.StatusOK, body)
	return nil
}

func noPanel(cause error) *fault {
	return &fault{
		code: sidecar.CodeNotFound, message: "This server has no panel.",
		hint: "The API is complete without it; name a panel's folder with --static-dir.", cause: cause,
	}
}

// ownPage fills our panel's page in.
func (c *call) ownPage(source []byte, environment string) []byte {
	t := text{}
	t.open('{')
	t.str("apiBase", c.urls.prefix)
	t.str("uiBase", c.uiPrefix)
	t.str("environment", environment)
	t.str("version", c.opts.Version)
	t.str("authMode", c.authMode())
	t.close('}')
	page := bytes.ReplaceAll(source, []byte("__STUDIO_CONFIG__"), []byte(html.EscapeString(string(t.b))))
	return bytes.ReplaceAll(page, []byte("__STUDIO_BASE__"), []byte(c.uiPrefix+"/assets/"+versionMark+c.panel.version+"/"))
}

// authMode tells a panel whether it has to sign in.
func (c *call) authMode() string {
	if c.guard.token == "" {
		return "none"
	}
	return "endpoint"
}

// versionMark begins the segment of an address that names a version of our
// files: what lies behind it never changes.
const versionMark = "v-"

// foreignPage tells a panel of the reference where it is, as the reference
// does.
func foreignPage(source []byte, prefix, authMode, environment string) []byte {
	config, err := json.Marshal(map[string]string{
		"apiBasePath": prefix, "authMode": authMode, "endpointName": environment,
	})
	if err != nil {
		return source
	}
	// json.Marshal writes <, > and & as escapes, so that nothing in it can end
	// the script.
	script := []byte("<script>window.__COMFYGIT_STUDIO_CONFIG__ = " + spaced(string(config)) + ";</script>")
	for _, mark := range []string{"<head>", "</head>"} {
		if before, after, ok := bytes.Cut(source, []byte(mark)); ok {
			if mark == "<head>" {
				return bytes.Join([][]byte{before, []byte(mark), script, after}, nil)
			}
			return bytes.Join([][]byte{before, script, []byte(mark), after}, nil)
		}
	}
	return append(script, source...)
}

// spaced writes a flat object as Python does: a space behind separators, and
// ASCII only.
func spaced(config string) string {
	config = strings.ReplaceAll(strings.ReplaceAll(config, `":"`, `": "`), `","`, `", "`)
	var out strings.Builder
	for _, r := range config {
		switch high, low := utf16.EncodeRune(r); {
		case high != utf8.RuneError:
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		case r > '~':
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}

// asset answers with a file of the panel.
func (c *call) asset() error {
	name := c.path("file")
	unknown := &fault{code: sidecar.CodeNotFound, message: "The panel has no such file.", hint: "Load the page again."}
	if c.panel.files == nil {
		return unknown
	}
	versioned := false
	if c.panel.foreign {
		name = "assets/" + name
		if info, err := fs.Stat(c.panel.files, strings.TrimSuffix(name, "/")); err == nil && info.IsDir() {
			return &fault{code: sidecar.CodeForbidden, message: "Folders of the panel are not listed.", hint: "Load the page again."}
		}
	} else if mark, rest, ok := strings.Cut(name, "/"); ok && strings.HasPrefix(mark, versionMark) {
		name, versioned = rest, mark == versionMark+c.panel.version
	}
	if !fs.ValidPath(name) || name == "index.html" {
		return unknown
	}
	data, stat, err := c.panel.read(name)
	if err != nil {
		unknown.cause = err
		return unknown
	}
	h := c.w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Type", assetType(name))
	h.Set("Etag", c.panel.etag(stat, data))
	if !c.panel.foreign {
		h.Set("Cache-Control", caching(versioned))
	}
	return c.serveContent(stat, bytes.NewReader(data))
}

func caching(versioned bool) string {
	if versioned {
		return "public, max-age=31536000, immutable"
	}
	return "no-cache"
}

func (p *panel) read(name string) ([]byte, fs.FileInfo, error) {
	file, err := p.files.Open(name)
	if err != nil {
		return nil, nil, err
	}
	stat, err := file.Stat()
	if err == nil && !stat.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	var data []byte
	if err == nil {
		data, err = io.ReadAll(file)
	}
	return data, stat, errors.Join(err, file.Close())
}

// etag names a file by its content; embedded files have no time.
func (p *panel) etag(stat fs.FileInfo, data []byte) string {
	if p.foreign {
		return etagOf(stat)
	}
	return newPage(data).etag
}

func assetType(name string) string {
	if kind, ok := typesByName[path.Ext(name)]; ok {
		return kind
	}
	return "application/octet-stream"
}
