package sidecar

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar/upload"
)

// UploadID names an upload: "upload_" and 32 hex digits, drawn at random, so
// that to know it is to have been told it.
type UploadID string

// UploadState says whether an upload's file is there.
type UploadState string

// The states of an upload.
const (
	UploadPending UploadState = "pending"
	UploadReady   UploadState = "ready"
)

// Codes of refused uploads.
const (
	CodeForbidden Code = "forbidden"
	CodeTooLarge  Code = "request_too_large"
)

const (
	uploadPrefix = "upload_"
	tokenBytes   = 32
	// uploadLife is how long an upload lasts after it was announced, received
	// or last named by a new run: a working day and the night after it. What
	// a run that is still unfinished names lasts as long as the run.
	uploadLife = 24 * time.Hour
	// uploadSlack is how much of that life may have passed before a new use
	// is written down, so that not every run costs a write.
	uploadSlack = time.Hour
)

// Upload is a file that a client announced, or sent.
type Upload struct {
	ID UploadID
	// Owner is who may use it in a run; the zero Session: whoever names it.
	Owner Session
	Name  string // cleaned, with an extension
	Type  string // announced, or what the bytes say
	// Announced is the size in bytes that the client promised, -1 for none.
	Announced int64
	Size      int64  // in bytes, once ready
	SHA256    string // 64 hex digits, once ready
	TokenHash []byte // SHA-256 of what a PUT has to bring
	State     UploadState
	// Writes counts how often a file was received: one that replaces another
	// must not be taken for it.
	Writes    int
	CreatedAt time.Time
	ExpiresAt time.Time
}

// StoredName is the name of its file in the folder of inputs.
func (u *Upload) StoredName() string { return string(u.ID) + "_" + u.Name }

// UsableBy tells whether a run of session may name the upload: who prepared
// it without a session gave it to whoever knows its id.
func (u *Upload) UsableBy(session Session) bool {
	return u.Owner == Session{} || u.Owner.ID == session.ID || u.Owner.Scope == session.Scope
}

func (u *Upload) expired(now time.Time) bool { return !now.Before(u.ExpiresAt) }

func (u *Upload) use(now time.Time) { u.ExpiresAt = now.Add(uploadLife) }

// UploadStore keeps what is known of uploads. As with Store, a method that
// writes returns when the write is durable.
type UploadStore interface {
	// AddUpload adds an upload.
	AddUpload(ctx context.Context, u *Upload) error
	// Upload reads an upload; ErrNotFound when there is none of that id.
	Upload(ctx context.Context, id UploadID) (*Upload, error)
	// UpdateUpload changes an upload in one transaction and returns it as
	// committed. When change returns an error, nothing is written.
	UpdateUpload(ctx context.Context, id UploadID, change func(*Upload) error) (*Upload, error)
	// ExpireUploads removes uploads whose time is over and that no unfinished
	// run names, and returns them.
	ExpireUploads(ctx context.Context, now time.Time) ([]*Upload, error)
}

// UploadRequest announces a file.
type UploadRequest struct {
	Owner Session // zero: none given
	// Name and Type as the client gives them; Size in bytes, -1 when it does
	// not say.
	Name, Type string
	Size       int64
	Limit      int64 // how large it may be
	// Foretell, when set, is called with the upload and its token before the
	// upload is stored.
	Foretell func(*Upload, string)
}

// PrepareUpload takes an announcement. It returns the upload and the token
// that its PUT has to bring; the token is stored nowhere.
func (s *Studio) PrepareUpload(ctx context.Context, req UploadRequest) (*Upload, string, error) {
	if s.uploads == nil {
		return nil, "", errNoUploads
	}
	if req.Size > req.Limit {
		return nil, "", &Error{
			Code:    CodeBadRequest,
			Message: fmt.Sprintf("Upload is too large. This cg serve instance accepts files up to %d bytes.", req.Limit),
			Hint:    "Send a smaller file, or raise --max-request-mb.",
		}
	}
	id, err := newUploadID()
	if err != nil {
		return nil, "", err
	}
	token, err := newToken()
	if err != nil {
		return nil, "", err
	}
	now := time.Now().UTC().Truncate(time.Millisecond)
	mime := upload.CleanType(req.Type)
	u := &Upload{
		ID: id, Owner: req.Owner, Type: mime, Announced: req.Size, TokenHash: hashToken(token),
		Name:  upload.CleanName(req.Name, mime, "comfygit-upload-"+string(id[len(uploadPrefix):])),
		State: UploadPending, CreatedAt: now, ExpiresAt: now.Add(uploadLife),
	}
	if mime == "" {
		u.Type = upload.TypeOf(u.Name)
	}
	if req.Foretell != nil {
		req.Foretell(u, token)
	}
	if err := s.store.AddUpload(context.WithoutCancel(ctx), u); err != nil {
		return nil, "", storageError(err)
	}
	return u, token, nil
}

// Upload reads an upload that has not expired. An unknown one is an *Error
// with CodeNotFound.
func (s *Studio) Upload(ctx context.Context, id UploadID) (*Upload, error) {
	u, err := s.store.Upload(ctx, id)
	if errors.Is(err, ErrNotFound) || err == nil && u.expired(time.Now()) {
		return nil, errUnknownUpload
	}
	if err != nil {
		return nil, storageError(err)
	}
	return u, nil
}

var (
	errUnknownUpload = &Error{
		Code: CodeNotFound, Message: "Unknown upload id.",
		Hint: "It may have expired; prepare it again.",
	}
	errNoUploads = &Error{
		Code: CodeBadRequest, Message: "This server takes no uploads.",
		Hint: "Name a file that ComfyUI has.",
	}
)

// newUploadID draws 122 random bits. As a UUID it is of version 8, by which a
// file can be told from one that the reference left, whose are of version 4.
func newUploadID() (UploadID, error) {
	var b [16]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", fmt.Errorf("draw an upload id: %w", err)
	}
	b[6] = b[6]&0x0f | 0x80
	b[8] = b[8]&0x3f | 0x80
	return UploadID(uploadPrefix + hex.EncodeToString(b[:])), nil
}

// uploadNamed is the id at the beginning of a stored name; "" when there is
// none.
func uploadNamed(stored string) UploadID {
	const length = len(uploadPrefix) + 32
	if len(stored) <= length+1 || stored[length] != '_' || stored[:len(uploadPrefix)] != uploadPrefix {
		return ""
	}
	if _, err := hex.DecodeString(stored[len(uploadPrefix):length]); err != nil {
		return ""
	}
	return UploadID(stored[:length])
}

func newToken() (string, error) {
	var b [tokenBytes]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", fmt.Errorf("draw an upload token: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(b[:]), nil
}

func hashToken(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

func (u *Upload) opens(token string) bool {
	return subtle.ConstantTimeCompare(hashToken(token), u.TokenHash) == 1
}
