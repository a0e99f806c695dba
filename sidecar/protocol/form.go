package protocol

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/textproto"
	"sync"
)

// File is a part of a form whose content is opened when its turn comes.
type File struct {
	Field, Name, Type string
	Size              int64 // -1: unknown
	Open              func() (io.ReadCloser, error)
}

// Form is a multipart/form-data body that holds none of its files in memory:
// the part "payload", then files.
type Form struct {
	// ContentType names the boundary.
	ContentType string
	// Size in bytes; -1 when that of a file is unknown.
	Size int64

	mu    sync.Mutex // held while a file is read or closed
	heads [][]byte   // before each file, and at the end
	files []File
	rest  io.Reader
	open  io.Closer // of the file that is being read
}

// NewForm lays a form out. Close it when it was sent.
func NewForm(payload []byte, files []File) (*Form, error) {
	var buf bytes.Buffer
	w := multipart.NewWriter(&buf)
	part, err := w.CreatePart(partHeader(`form-data; name="payload"`, "application/json"))
	if err == nil {
		_, err = part.Write(payload)
	}
	if err != nil {
		return nil, fmt.Errorf("lay out form: %w", err)
	}
	f := &Form{ContentType: w.FormDataContentType(), files: files}
	for _, file := range files {
		if _, err := w.CreatePart(partHeader(multipart.FileContentDisposition(file.Field, file.Name), file.Type)); err != nil {
			return nil, fmt.Errorf("lay out form: %w", err)
		}
		f.cut(&buf, file.Size)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("lay out form: %w", err)
	}
	f.cut(&buf, 0)
	f.rest = bytes.NewReader(f.heads[0])
	return f, nil
}

func partHeader(disposition, kind string) textproto.MIMEHeader {
	h := textproto.MIMEHeader{}
	h.Set("Content-Disposition", disposition)
	if kind == "" {
		kind = "application/octet-stream"
	}
	h.Set("Content-Type", kind)
	return h
}

// cut takes what was written so far as what comes before a file of a size.
func (f *Form) cut(buf *bytes.Buffer, size int64) {
	f.heads = append(f.heads, bytes.Clone(buf.Bytes()))
	switch {
	case size < 0 || f.Size < 0:
		f.Size = -1
	default:
		f.Size += int64(buf.Len()) + size
	}
	buf.Reset()
}

// Read gives the next bytes of the body.
func (f *Form) Read(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		n, err := f.rest.Read(p)
		switch {
		case err != nil && !errors.Is(err, io.EOF):
			return n, err
		case n > 0:
			return n, nil // an end that comes with bytes is the file's, not the form's
		case err == nil:
			continue
		}
		if err := f.next(); err != nil {
			return 0, err
		}
	}
}

// next goes from a head to its file, and from a file to the next head.
func (f *Form) next() error {
	if f.open != nil {
		err := f.open.Close()
		f.open = nil
		f.files, f.heads = f.files[1:], f.heads[1:]
		f.rest = bytes.NewReader(f.heads[0])
		return err
	}
	if len(f.files) == 0 {
		return io.EOF
	}
	src, err := f.files[0].Open()
	if err != nil {
		return fmt.Errorf("open %s: %w", f.files[0].Name, err)
	}
	f.open, f.rest = src, src
	return nil
}

// eof reads a form that was closed.
type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.ErrClosedPipe }

// Close closes the file that is being read, if there is one.
func (f *Form) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rest = eof{}
	if f.open == nil {
		return nil
	}
	err := f.open.Close()
	f.open = nil
	return err
}
