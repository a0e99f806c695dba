package sidecar

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar/upload"
)

// InputRequest is a file that comes along with a ready-made graph.
type InputRequest struct {
	Owner      Session
	Name, Type string // as the caller gives them
	Limit      int64
	Body       io.Reader
}

// TakeInput keeps a file for a ready-made graph. It is known by its bytes and
// its name: the same file is kept once, and no other one is ever overwritten.
// Errors are *Error: CodeTooLarge, CodeBadRequest when it does not arrive
// whole.
func (s *Studio) TakeInput(ctx context.Context, in InputRequest) (*Upload, error) {
	if s.uploads == nil {
		return nil, errNoUploads
	}
	body := &source{Reader: in.Body}
	file, err := s.uploads.Receive(body, in.Limit)
	if err != nil {
		return nil, receiveError(err, body.err, in.Limit)
	}
	now := time.Now().UTC().Truncate(time.Millisecond)
	kind := upload.CleanType(in.Type)
	if kind == "" {
		kind = upload.TypeOf(in.Name)
	}
	u := &Upload{
		Owner: in.Owner, Name: upload.CleanName(in.Name, kind, "input"), Type: kind, Announced: file.Size,
		State: UploadPending, CreatedAt: now, ExpiresAt: now.Add(uploadLife),
	}
	ctx = context.WithoutCancel(ctx)
	known, err := s.nameInput(ctx, u, in.Name, file.SHA256)
	switch {
	case err == nil && known.State == UploadReady && s.holds(known):
		return known, errors.Join(s.prolong(ctx, known), file.Discard())
	case errors.Is(err, ErrNotFound):
		err = s.addInput(ctx, u)
	}
	if err != nil {
		return nil, errors.Join(storageError(err), file.Discard())
	}
	return s.placeUpload(ctx, u.ID, file)
}

// nameInput gives a file its id and returns what is known under it. A file
// that was an upload elsewhere keeps its name, unless other bytes have it here.
func (s *Studio) nameInput(ctx context.Context, u *Upload, given, sum string) (*Upload, error) {
	if id := uploadNamed(given); id != "" {
		elsewhere := *u
		elsewhere.ID, elsewhere.Name = id, upload.CleanName(given[len(id)+1:], u.Type, "input")
		known, err := s.store.Upload(ctx, id)
		free := errors.Is(err, ErrNotFound) || err == nil && known.SHA256 == sum && known.State == UploadReady
		if elsewhere.StoredName() == given && free {
			*u = elsewhere
			return known, err
		}
	}
	u.ID = contentID(sum, u.Name)
	return s.store.Upload(ctx, u.ID)
}

// addInput adds the row of a file, which another request may just have done.
func (s *Studio) addInput(ctx context.Context, u *Upload) error {
	err := s.store.AddUpload(ctx, u)
	if err == nil {
		return nil
	}
	if _, again := s.store.Upload(ctx, u.ID); again == nil {
		return nil
	}
	return err
}

// contentID makes an upload id of a file's hash and name, in the form of those
// that are drawn.
func contentID(sum, name string) UploadID {
	digest := string(DigestOf([]byte(sum + "/" + name)))
	b, err := hex.DecodeString(digest[:32])
	if err != nil {
		return "" // a digest is hex digits
	}
	b[6] = b[6]&0x0f | 0x80
	b[8] = b[8]&0x3f | 0x80
	return UploadID(uploadPrefix + hex.EncodeToString(b))
}
