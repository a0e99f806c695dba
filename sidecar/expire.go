package sidecar

import (
	"context"
	"errors"
	"time"
)

const (
	// expirePause is how often expired uploads are looked for.
	expirePause = time.Hour
	// orphanLife is after how long a file of ours that no row of our store
	// knows is nobody's any more: another sidecar with a store of its own may
	// share the folder, and touches what it uses.
	orphanLife = 2 * uploadLife
)

// tendUploads removes uploads whose time is over, rows and files, until ctx
// ends.
func (s *Studio) tendUploads(ctx context.Context) error {
	if s.uploads == nil {
		return nil
	}
	s.settleUploads(ctx)
	for {
		s.expireUploads(ctx)
		if !sleep(ctx, expirePause) {
			return ctx.Err()
		}
	}
}

// expireUploads returns how many it removed.
func (s *Studio) expireUploads(ctx context.Context) int {
	gone, err := s.store.ExpireUploads(ctx, time.Now())
	if err != nil {
		if ctx.Err() == nil {
			s.log.Error("expire uploads", "err", err)
		}
		return 0
	}
	for _, u := range gone {
		if err := s.removeExpired(ctx, u); err != nil && ctx.Err() == nil {
			s.log.Error("remove an expired upload", "upload", u.ID, "err", err)
		}
	}
	if len(gone) > 0 {
		s.log.Info("removed expired uploads", "count", len(gone))
	}
	return len(gone)
}

// removeExpired removes a file, unless it was sent again meanwhile: the id of a
// file that came along with a graph is made of its bytes.
func (s *Studio) removeExpired(ctx context.Context, u *Upload) error {
	s.placing.Lock()
	defer s.placing.Unlock()
	if _, err := s.store.Upload(ctx, u.ID); !errors.Is(err, ErrNotFound) {
		return err
	}
	return s.uploads.Remove(u.StoredName())
}

// settleUploads looks through the files once, at the start: what an earlier
// life received but did not get to know of goes, and what a store left behind
// that is no more.
func (s *Studio) settleUploads(ctx context.Context) {
	files, err := s.uploads.List(uploadPrefix)
	if err != nil {
		s.log.Error("look through the uploads", "err", err)
		return
	}
	for _, file := range files {
		id := uploadNamed(file.Name)
		if !ours(id) || ctx.Err() != nil {
			continue
		}
		if err := s.settleUpload(ctx, id, file.Name, file.ModTime); err != nil && ctx.Err() == nil {
			s.log.Error("look at an upload", "file", file.Name, "err", err)
		}
	}
}

// ours tells our ids from those of the reference, see newUploadID.
func ours(id UploadID) bool { return id != "" && id[len(uploadPrefix)+12] == '8' }

func (s *Studio) settleUpload(ctx context.Context, id UploadID, name string, modified time.Time) error {
	s.placing.Lock() // a file may have its name already and its row not yet
	defer s.placing.Unlock()
	u, err := s.store.Upload(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound):
		if time.Since(modified) < orphanLife {
			return nil
		}
	case err != nil:
		return err
	case u.State == UploadReady:
		return nil
	}
	return s.uploads.Remove(name)
}
