package sidecar

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/comfygit-ai/studio-sidecar/manifest"
)

// mediaError is a sentence for people about the value of a media input.
type mediaError string

func (e mediaError) Error() string { return string(e) }

// resolver turns references to uploads into the file names that a graph holds
// and notes which uploads a run uses.
type resolver struct {
	*Studio
	session Session
	used    []UploadID
}

// resolveMedia returns the values with the names of uploads in place of the
// references to them, and the uploads. Files inside the request are refused:
// they belong into an upload. The error is a mediaError, or an *Error of the
// store.
func (s *Studio) resolveMedia(ctx context.Context, session Session, contract *manifest.Contract, values manifest.Values) (manifest.Values, []UploadID, error) {
	r := resolver{Studio: s, session: session}
	resolved := slices.Clone(values)
	for _, in := range contract.Inputs {
		if !in.Media() {
			continue
		}
		for i, field := range resolved {
			if field.Name != in.Name {
				continue
			}
			value, err := r.value(ctx, in.Name, field.Value)
			if err != nil {
				return nil, nil, err
			}
			resolved[i].Value = value
		}
	}
	return resolved, r.used, nil
}

func (r *resolver) value(ctx context.Context, name string, value json.RawMessage) (json.RawMessage, error) {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return value, r.text(ctx, name, text)
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(value, &object) != nil || object == nil {
		return value, nil
	}
	if textOf(object["kind"]) == "file_ref" {
		return r.reference(ctx, name, object)
	}
	for _, key := range []string{"data_url", "base64", "data"} {
		if _, inline := object[key]; inline {
			return nil, mediaError(fmt.Sprintf("Input '%s' uses inline file bytes. Upload the file first and submit a file_ref.", name))
		}
	}
	return value, nil
}

// text takes a file name. One that a run shows for an upload is as good as a
// reference to it; others are ComfyUI's business.
func (r *resolver) text(ctx context.Context, name, text string) error {
	if strings.HasPrefix(strings.ToLower(strings.TrimSpace(text)), "data:") {
		return mediaError(fmt.Sprintf("Input '%s' uses an inline data URL. Upload the file first and submit a file_ref.", name))
	}
	id := uploadNamed(text)
	if id == "" {
		return nil
	}
	u, err := r.store.Upload(ctx, id)
	if errors.Is(err, ErrNotFound) || err == nil && u.StoredName() != text {
		return nil
	}
	if err != nil {
		return storageError(err)
	}
	_, err = r.claim(ctx, name, id)
	return err
}

func (r *resolver) reference(ctx context.Context, name string, object map[string]json.RawMessage) (json.RawMessage, error) {
	id := UploadID(textOf(object["ref"]))
	if id == "" {
		id = UploadID(textOf(object["upload_id"]))
	}
	if id == "" {
		return nil, mediaError(fmt.Sprintf("Input '%s' file_ref is missing a ref.", name))
	}
	u, err := r.claim(ctx, name, id)
	if err != nil {
		return nil, err
	}
	return json.Marshal(u.StoredName())
}

// claim makes sure that the run may use an upload and that it lasts until the
// run is stored.
func (r *resolver) claim(ctx context.Context, name string, id UploadID) (*Upload, error) {
	u, err := r.Upload(ctx, id)
	var refusal *Error
	if errors.As(err, &refusal) && refusal.Code == CodeNotFound || err == nil && !u.UsableBy(r.session) {
		return nil, mediaError(fmt.Sprintf("Input '%s' references an unknown upload.", name))
	}
	if err != nil {
		return nil, err
	}
	if u.State != UploadReady {
		return nil, mediaError(fmt.Sprintf("Input '%s' references an upload that is not ready.", name))
	}
	if !r.holds(u) {
		return nil, mediaError(fmt.Sprintf("Input '%s' references an upload whose file is gone. Upload it again.", name))
	}
	if err := r.prolong(ctx, u); err != nil {
		return nil, err
	}
	if !slices.Contains(r.used, id) {
		r.used = append(r.used, id)
	}
	return u, nil
}

// holds tells whether an upload's file is there and whole.
func (s *Studio) holds(u *Upload) bool {
	if s.uploads == nil {
		return false
	}
	size, err := s.uploads.Size(u.StoredName())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Error("look at an upload", "upload", u.ID, "err", err)
	}
	return err == nil && size == u.Size
}

// prolong gives an upload that is used a new life.
func (s *Studio) prolong(ctx context.Context, u *Upload) error {
	now := time.Now()
	if u.ExpiresAt.Sub(now) > uploadLife-uploadSlack {
		return nil
	}
	_, err := s.store.UpdateUpload(context.WithoutCancel(ctx), u.ID, func(u *Upload) error {
		u.use(now)
		return nil
	})
	if errors.Is(err, ErrNotFound) {
		return errUnknownUpload
	}
	if err != nil {
		return storageError(err)
	}
	if err := s.uploads.Touch(u.StoredName(), now); err != nil {
		s.log.Warn("touch an upload", "upload", u.ID, "err", err)
	}
	return nil
}

func textOf(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}
