package routes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// prepareUpload announces a file. Who names a session binds the upload to it.
func (c *call) prepareUpload() error {
	raw, err := c.readBody()
	if err != nil {
		return err
	}
	fields, err := parseBody(raw, `Send {"filename": "NAME", "mime_type": "TYPE", "size": BYTES}.`)
	if err != nil {
		return err
	}
	req := sidecar.UploadRequest{
		Name: looseText(fields, "filename"), Type: looseText(fields, "mime_type"),
		Size: looseSize(fields, "size"), Limit: c.opts.MaxRequestBytes, Owner: c.uploadOwner(),
	}
	if req.Type == "" {
		req.Type = looseText(fields, "content_type")
	}
	req.Foretell = func(u *sidecar.Upload, token string) { c.foretell(http.StatusOK, c.renderSlot(u, token)) }
	u, token, err := c.studio.PrepareUpload(c.r.Context(), req)
	if err != nil {
		return err
	}
	c.json(http.StatusOK, c.renderSlot(u, token))
	return nil
}

// renderSlot tells where to send an announced file.
func (c *call) renderSlot(u *sidecar.Upload, token string) []byte {
	t := text{}
	t.open('{')
	t.str("kind", "upload_slot")
	t.str("upload_id", string(u.ID))
	t.str("ref", string(u.ID))
	t.str("upload_url", c.urls.public("/uploads/"+string(u.ID)+"?token="+token))
	t.str("method", http.MethodPut)
	begin(&t, "headers")
	t.str("content-type", u.Type)
	t.close('}')
	t.str("destination", "input")
	t.int("max_size", c.opts.MaxRequestBytes)
	fileRef(&t, u)
	t.close('}')
	return t.b
}

// uploadOwner is the session that came with the call; none is given out here.
func (c *call) uploadOwner() sidecar.Session {
	id := c.givenSession()
	if id == "" {
		return sidecar.Session{}
	}
	owner := sidecar.Session{ID: sidecar.SessionID(id), Scope: sidecar.Scope(id)}
	if c.opts.Shared {
		owner.Scope = sidecar.SharedScope
	}
	return owner
}

// looseText is a member as text, whatever its type; "" for what is empty.
func looseText(fields manifest.Values, name string) string {
	raw, ok := fields.Get(name)
	if !ok {
		return ""
	}
	switch value := string(raw); value {
	case "null", "false", "0", "[]", "{}":
		return ""
	default:
		if value[0] == '"' {
			return unquote(raw)
		}
		return value
	}
}

// looseSize is a size in whole bytes; -1 when the member says none. What is
// larger than any size stays so.
func looseSize(fields manifest.Values, name string) int64 {
	given := strings.TrimSpace(looseText(fields, name))
	if raw, ok := fields.Get(name); ok && string(raw) == "0" {
		return 0
	}
	if given == "true" {
		return 1
	}
	if strings.Trim(given, "0123456789.eE+") != "" {
		return -1
	}
	size, err := strconv.ParseFloat(given, 64)
	switch {
	case err != nil && !errors.Is(err, strconv.ErrRange), size < 0:
		return -1
	case size >= math.MaxInt64:
		return math.MaxInt64
	}
	return int64(size)
}

// receiveUpload takes the file. The token is all that a client needs.
func (c *call) receiveUpload() error {
	body := &uploadBody{c.r.Body, c.control(), c.r.Context()}
	stop := context.AfterFunc(body.ctx, body.cut)
	defer stop()
	u, err := c.studio.ReceiveUpload(c.r.Context(), sidecar.UploadBody{
		ID: sidecar.UploadID(c.path("upload_id")), Token: c.r.URL.Query().Get("token"),
		Length: c.r.ContentLength, Limit: c.opts.MaxRequestBytes, Body: body,
	})
	if err != nil {
		// What is left of the body would be read as the next request.
		c.w.Header().Set("Connection", "close")
		return err
	}
	// An answer may take as long as it wants again.
	if err := c.control().SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("lift the read deadline: %w", err)
	}
	c.showUpload(u)
	return nil
}

// uploadBody is a body that ends when the server stops, or when nothing comes
// for too long.
type uploadBody struct {
	body    io.Reader
	control *http.ResponseController
	ctx     context.Context // of the request
}

// Read gives the client its time for the next bytes, while the server wants
// them.
func (b *uploadBody) Read(p []byte) (int, error) {
	if err := b.control.SetReadDeadline(time.Now().Add(bodyPause)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, fmt.Errorf("set the read deadline: %w", err)
	}
	// After the deadline was set: cut sets one that has passed.
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.body.Read(p)
}

func (b *uploadBody) cut() {
	// Where there are no deadlines, the connection is cut when the server ends.
	_ = b.control.SetReadDeadline(time.Now().Add(-time.Second))
}

func (c *call) uploadStatus() error {
	u, err := c.studio.Upload(c.r.Context(), sidecar.UploadID(c.path("upload_id")))
	if err != nil {
		return err
	}
	c.showUpload(u)
	return nil
}

func (c *call) showUpload(u *sidecar.Upload) {
	t := text{}
	t.open('{')
	t.str("status", string(u.State))
	fileRef(&t, u)
	t.close('}')
	c.json(http.StatusOK, t.b)
}

// fileRef is what a client gives for a media input.
func fileRef(t *text, u *sidecar.Upload) {
	begin(t, "file_ref")
	t.str("kind", "file_ref")
	t.str("ref", string(u.ID))
	t.str("filename", u.Name)
	t.str("mime_type", u.Type)
	switch {
	case u.State == sidecar.UploadReady:
		t.int("size", u.Size)
	case u.Announced >= 0:
		t.int("size", u.Announced)
	}
	t.close('}')
}
