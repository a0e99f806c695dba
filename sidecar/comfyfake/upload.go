package comfyfake

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

func nrgbaAt(src image.Image, x, y int) color.NRGBA {
	c, _ := color.NRGBAModel.Convert(src.At(x, y)).(color.NRGBA)
	return c
}

// upload is the multipart form of POST /upload/image.
type upload struct {
	fields  map[string]string
	image   []byte
	name    string
	isFile  bool
	present bool
}

func (p *process) handleUpload(w http.ResponseWriter, r *http.Request, _ string) {
	up, err := readUpload(r)
	switch {
	case tooLarge(err):
		writeTooLarge(w, p.s.opts.MaxUpload)
	case errors.Is(err, http.ErrNotMultipart) || (err == nil && !up.present):
		w.WriteHeader(http.StatusBadRequest)
	case err != nil || !up.isFile:
		writeTrouble(w)
	default:
		p.storeUpload(w, up)
	}
}

// readUpload reads the parts by hand: net/http cuts folders off file names,
// and ComfyUI judges them.
func readUpload(r *http.Request) (upload, error) {
	up := upload{fields: map[string]string{}}
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" {
		return up, http.ErrNotMultipart
	}
	reader := multipart.NewReader(r.Body, params["boundary"])
	for {
		part, err := reader.NextPart()
		if errors.Is(err, io.EOF) {
			return up, nil
		}
		if err != nil {
			return up, fmt.Errorf("read upload: %w", err)
		}
		data, err := io.ReadAll(part)
		if err != nil {
			return up, fmt.Errorf("read upload: %w", err)
		}
		up.take(part, data)
	}
}

func (up *upload) take(part *multipart.Part, data []byte) {
	if part.FormName() != "image" {
		up.fields[part.FormName()] = string(data)
		return
	}
	up.present = true
	_, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	if name := params["filename"]; err == nil && name != "" {
		up.isFile, up.name, up.image = true, name, data
	}
}

func (p *process) storeUpload(w http.ResponseWriter, up upload) {
	kind := up.fields["type"]
	if kind == "" {
		kind = "input"
	}
	base := p.s.files.dir(kind)
	if base == "" {
		writeTrouble(w)
		return
	}
	sub := up.fields["subfolder"]
	target := filepath.Join(base, sub, up.name)
	if !inside(base, target) || filepath.IsAbs(sub) || filepath.IsAbs(up.name) {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	folder := filepath.Join(base, sub)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		writeTrouble(w)
		return
	}
	name, err := freeName(folder, up)
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, name), up.image, 0o644)
	}
	if err != nil {
		writeTrouble(w)
		return
	}
	writeJSON(w, http.StatusOK, obj("name", name, "subfolder", sub, "type", kind))
}

// freeName is the given name if it is free, has the same bytes or may be
// overwritten, else the first "name (n).ext" of which the same holds.
func freeName(folder string, up upload) (string, error) {
	name := up.name
	if over := up.fields["overwrite"]; over == "true" || over == "1" {
		return name, nil
	}
	ext := filepath.Ext(name)
	stem := strings.TrimSuffix(name, ext)
	for i := 1; ; i++ {
		have, err := os.ReadFile(filepath.Join(folder, name))
		if errors.Is(err, os.ErrNotExist) || (err == nil && bytes.Equal(have, up.image)) {
			return name, nil
		}
		if err != nil {
			return "", fmt.Errorf("store upload: %w", err)
		}
		name = fmt.Sprintf("%s (%d)%s", stem, i, ext)
	}
}
