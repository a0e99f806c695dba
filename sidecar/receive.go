package sidecar

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar/upload"
)

// UploadBody is a file on its way in.
type UploadBody struct {
	ID    UploadID
	Token string
	// Length as announced with the body, -1 when it is not; Limit is how long
	// it may be.
	Length, Limit int64
	Body          io.Reader
}

// ReceiveUpload takes the file of a prepared upload and returns when it is on
// the disk, under its name and known to be there; a file that breaks off
// leaves nothing. A file that is sent again replaces the one before. Errors
// are *Error: CodeNotFound, CodeForbidden, CodeTooLarge, and CodeBadRequest
// for one that is not as long as announced or does not arrive whole.
func (s *Studio) ReceiveUpload(ctx context.Context, in UploadBody) (*Upload, error) {
	u, err := s.Upload(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if s.uploads == nil {
		return nil, errNoUploads
	}
	if !u.opens(in.Token) {
		return nil, &Error{Code: CodeForbidden, Message: "Upload token is invalid.", Hint: "Use the upload_url that was given."}
	}
	if err := checkLength(in.Length, u.Announced, in.Limit); err != nil {
		return nil, err
	}
	body := &source{Reader: in.Body}
	file, err := s.uploads.Receive(body, in.Limit)
	if err != nil {
		return nil, receiveError(err, body.err, in.Limit)
	}
	if err := checkLength(file.Size, u.Announced, in.Limit); err != nil {
		return nil, errors.Join(err, file.Discard())
	}
	return s.placeUpload(context.WithoutCancel(ctx), in.ID, file)
}

// source remembers that reading failed, and not writing.
type source struct {
	io.Reader
	err error
}

// Read notes an error other than the end.
func (s *source) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

func checkLength(length, announced, limit int64) error {
	switch {
	case length > limit:
		return uploadTooLarge(limit)
	case length >= 0 && announced >= 0 && length != announced:
		return &Error{
			Code:    CodeBadRequest,
			Message: fmt.Sprintf("The upload has %d bytes, but %d were announced.", length, announced),
			Hint:    "Prepare it anew with its real size, or without a size.",
		}
	}
	return nil
}

func uploadTooLarge(limit int64) error {
	return &Error{
		Code:    CodeTooLarge,
		Message: fmt.Sprintf("Upload is too large. This cg serve instance accepts uploads up to %d MiB.", limit>>20),
		Hint:    "Send a smaller file, or raise --max-request-mb.",
	}
}

func receiveError(err, broken error, limit int64) error {
	switch {
	case errors.Is(err, upload.ErrTooLarge):
		return uploadTooLarge(limit)
	case broken != nil:
		return &Error{Code: CodeBadRequest, Message: "The upload did not arrive whole.", Hint: "Send it again.", Err: err}
	}
	return &Error{
		Code: CodeStorage, Message: "The upload could not be stored.",
		Hint: "Make sure that there is room on the disk, then send it again.", Err: err,
	}
}

// placeUpload gives a received file its name and makes it known. A file whose
// row does not say so is no upload: what breaks in between leaves a pending
// one.
func (s *Studio) placeUpload(ctx context.Context, id UploadID, file *upload.Pending) (*Upload, error) {
	s.placing.Lock()
	defer s.placing.Unlock()
	u, err := s.store.UpdateUpload(ctx, id, func(u *Upload) error {
		u.State, u.Size, u.SHA256 = UploadPending, 0, ""
		return nil
	})
	if err != nil {
		return nil, errors.Join(storedUpload(err), file.Discard())
	}
	name := u.StoredName()
	if err := file.Place(name); err != nil {
		return nil, errors.Join(receiveError(err, nil, 0), s.uploads.Remove(name))
	}
	u, err = s.store.UpdateUpload(ctx, id, func(u *Upload) error {
		u.State, u.Size, u.SHA256 = UploadReady, file.Size, file.SHA256
		if file.Type != "" {
			u.Type = file.Type
		}
		u.Writes++
		u.use(time.Now())
		return nil
	})
	if err != nil {
		return nil, errors.Join(storedUpload(err), s.uploads.Remove(name))
	}
	return u, nil
}

func storedUpload(err error) error {
	if errors.Is(err, ErrNotFound) {
		return errUnknownUpload
	}
	return storageError(err)
}
