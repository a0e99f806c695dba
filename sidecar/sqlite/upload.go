package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// kindUpload marks the rows of files that are uploads.
const kindUpload = "upload"

// maxExpired bounds what one transaction removes: the rest is removed by the
// next, and others may write in between.
const maxExpired = 500

var fileTable = newTable("files", 1,
	"id", "kind", "session_id", "scope", "name", "mime", "announced", "size", "sha256", "path",
	"token_hash", "state", "writes", "created_at", "expires_at",
)

func fileRow(u *sidecar.Upload) []any {
	return []any{
		string(u.ID), kindUpload, string(u.Owner.ID), string(u.Owner.Scope), u.Name, u.Type, u.Announced, u.Size, u.SHA256,
		u.StoredName(), blob(u.TokenHash), string(u.State), int64(u.Writes),
		sidecar.FormatTime(u.CreatedAt), sidecar.FormatTime(u.ExpiresAt),
	}
}

func scanUpload(row scanner) (*sidecar.Upload, error) {
	var u sidecar.Upload
	var kind, path, created, expires textCell
	err := row.Scan(&u.ID, &kind, &u.Owner.ID, &u.Owner.Scope, &u.Name, &u.Type, &u.Announced, &u.Size, &u.SHA256,
		&path, &u.TokenHash, &u.State, &u.Writes, &created, &expires)
	u.CreatedAt, u.ExpiresAt = timeOf(created), timeOf(expires)
	return &u, err
}

func uploads(q querier, text string, args ...any) ([]*sidecar.Upload, error) {
	var found []*sidecar.Upload
	rows, err := q.query(text, args...)
	err = each(rows, err, func(row scanner) error {
		u, err := scanUpload(row)
		found = append(found, u)
		return err
	})
	return found, err
}

func loadUpload(q querier, id sidecar.UploadID) (*sidecar.Upload, error) {
	found, err := uploads(q, "SELECT "+fileTable.list("f")+" FROM files AS f WHERE f.id = ? AND f.kind = ?", string(id), kindUpload)
	if err != nil {
		return nil, fmt.Errorf("read upload %s: %w", id, err)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("upload %s: %w", id, sidecar.ErrNotFound)
	}
	return found[0], nil
}

// AddUpload adds an upload.
func (s *Store) AddUpload(ctx context.Context, u *sidecar.Upload) error {
	row := fileRow(u)
	err := s.effect(ctx, func(tx *Tx, _ *sidecar.Order) (sidecar.RunID, error) { return "", tx.write(&fileTable, nil, row) })
	return wrapped("add upload "+string(u.ID), err)
}

// Upload reads an upload; an unknown one is [sidecar.ErrNotFound].
func (s *Store) Upload(ctx context.Context, id sidecar.UploadID) (*sidecar.Upload, error) {
	var u *sidecar.Upload
	err := s.view(ctx, false, func(q querier) (err error) {
		u, err = loadUpload(q, id)
		return err
	})
	if err != nil {
		return nil, err
	}
	return u, nil
}

// UpdateUpload changes an upload by what change does to a fresh copy. change
// may be called again; its last call counts.
func (s *Store) UpdateUpload(ctx context.Context, id sidecar.UploadID, change func(*sidecar.Upload) error) (*sidecar.Upload, error) {
	var u *sidecar.Upload
	err := s.Do(ctx, func(tx *Tx) (err error) {
		if u, err = loadUpload(tx, id); err != nil {
			return err
		}
		before := fileRow(u)
		if err := change(u); err != nil {
			return err
		}
		return tx.write(&fileTable, before, fileRow(u))
	})
	if err != nil {
		return nil, fmt.Errorf("update upload %s: %w", id, err)
	}
	return u, nil
}

// ExpireUploads removes uploads whose time is over and that no unfinished run
// names, and returns them.
func (s *Store) ExpireUploads(ctx context.Context, now time.Time) ([]*sidecar.Upload, error) {
	var gone []*sidecar.Upload
	for after := ""; ; {
		var batch, removed []*sidecar.Upload
		err := s.Do(ctx, func(tx *Tx) (err error) {
			batch, removed, err = tx.expireUploads(now, after)
			return err
		})
		if err != nil {
			return gone, fmt.Errorf("expire uploads: %w", err)
		}
		gone = append(gone, removed...)
		if len(batch) < maxExpired {
			return gone, nil
		}
		last := sidecar.FormatTime(batch[len(batch)-1].ExpiresAt)
		if last == after && len(removed) == 0 {
			return gone, nil // a whole batch of one millisecond, all in use
		}
		after = last
	}
}

// expireUploads looks at a batch from a time on.
func (tx *Tx) expireUploads(now time.Time, after string) (batch, removed []*sidecar.Upload, err error) {
	batch, err = uploads(tx, "SELECT "+fileTable.list("f")+` FROM files AS f
		WHERE f.kind = ? AND f.expires_at >= ? AND f.expires_at <= ? ORDER BY f.expires_at LIMIT ?`,
		kindUpload, after, sidecar.FormatTime(now), maxExpired)
	if err != nil || len(batch) == 0 {
		return batch, nil, err
	}
	used, err := usedUploads(tx)
	if err != nil {
		return batch, nil, err
	}
	for _, u := range batch {
		if used[u.ID] {
			continue
		}
		if err := tx.write(&fileTable, fileRow(u), nil); err != nil {
			return batch, nil, err
		}
		removed = append(removed, u)
	}
	return batch, removed, nil
}

// usedUploads are those that unfinished runs name.
func usedUploads(q querier) (map[sidecar.UploadID]bool, error) {
	used := map[sidecar.UploadID]bool{}
	rows, err := q.query("SELECT s.uploads FROM run_state AS s WHERE s.phase <> 'finished'")
	err = each(rows, err, func(row scanner) error {
		var cell textCell
		if err := row.Scan(&cell); err != nil {
			return err
		}
		ids, err := uploadsOf(cell)
		for _, id := range ids {
			used[id] = true
		}
		return err
	})
	return used, err
}

func uploadsOf(cell textCell) ([]sidecar.UploadID, error) {
	if cell == "" {
		return nil, nil
	}
	var ids []sidecar.UploadID
	if err := json.Unmarshal([]byte(cell), &ids); err != nil {
		return nil, fmt.Errorf("read the uploads of a run: %w", err)
	}
	return ids, nil
}

func uploadsCell(ids []sidecar.UploadID) any {
	if len(ids) == 0 {
		return nil
	}
	text, err := json.Marshal(ids)
	if err != nil {
		return nil // a list of texts cannot fail
	}
	return string(text)
}
