package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

// newUpload is the n-th upload, which expires n hours after birth.
func newUpload(n int) *sidecar.Upload {
	return &sidecar.Upload{
		ID: sidecar.UploadID(fmt.Sprintf("upload_%032d", n)), Owner: sidecar.Session{ID: "anna", Scope: "anna"},
		Name: "ünï.png", Type: "image/png", Announced: -1, Size: 1 << 40, SHA256: strings.Repeat("0", 64),
		TokenHash: []byte{0, 1, 255}, State: sidecar.UploadReady, Writes: 2,
		CreatedAt: birth, ExpiresAt: birth.Add(time.Duration(n) * time.Hour),
	}
}

func addUpload(t *testing.T, store *sqlite.Store, n int) *sidecar.Upload {
	t.Helper()
	u := newUpload(n)
	if err := store.AddUpload(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	return u
}

func TestUploads(t *testing.T) {
	ctx := context.Background()
	t.Run("survive_a_restart_as_they_were", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state.db")
		store := open(t, path)
		want := addUpload(t, store, 1)
		closeStore(t, store)
		got, err := open(t, path).Upload(ctx, want.ID)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Error(err, diff)
		}
	})
	t.Run("an_unknown_one", func(t *testing.T) {
		store := fresh(t)
		_, err := store.Upload(ctx, "upload_none")
		_, err2 := store.UpdateUpload(ctx, "upload_none", func(*sidecar.Upload) error { return nil })
		if !errors.Is(err, sidecar.ErrNotFound) || !errors.Is(err2, sidecar.ErrNotFound) {
			t.Error(err, err2)
		}
	})
	t.Run("an_id_is_given_once", func(t *testing.T) {
		store := fresh(t)
		u := addUpload(t, store, 1)
		if err := store.AddUpload(ctx, u); err == nil {
			t.Error("it was given twice")
		}
	})
	t.Run("change", func(t *testing.T) {
		store := fresh(t)
		u := addUpload(t, store, 1)
		changed, err := store.UpdateUpload(ctx, u.ID, func(u *sidecar.Upload) error {
			u.State, u.Size, u.Writes = sidecar.UploadPending, 3, 7
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		no := errors.New("no")
		if _, err := store.UpdateUpload(ctx, u.ID, func(u *sidecar.Upload) error { u.Size = 4; return no }); !errors.Is(err, no) {
			t.Errorf("got %v", err)
		}
		got, err := store.Upload(ctx, u.ID)
		if diff := cmp.Diff(changed, got); err != nil || diff != "" || got.Size != 3 {
			t.Error(err, diff)
		}
	})
}

func TestRunKeepsItsUploads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	store := open(t, path)
	run := newRun("anna", 1)
	run.Uploads = []sidecar.UploadID{"upload_1", "upload_2"}
	create(t, store, run)
	apply(t, store, run.ID, sidecar.Signal{Kind: sidecar.SignalHanding})
	closeStore(t, store)
	got, err := open(t, path).Run(context.Background(), run.ID)
	if err != nil || !slices.Equal(got.Uploads, run.Uploads) {
		t.Errorf("%v %v", got.Uploads, err)
	}
}

func TestExpireUploads(t *testing.T) {
	ctx := context.Background()
	ids := func(uploads []*sidecar.Upload) (ids []sidecar.UploadID) {
		for _, u := range uploads {
			ids = append(ids, u.ID)
		}
		return ids
	}
	t.Run("those_whose_time_is_over", func(t *testing.T) {
		store := fresh(t)
		for n := range 5 {
			addUpload(t, store, n)
		}
		gone, err := store.ExpireUploads(ctx, birth.Add(2*time.Hour))
		if diff := cmp.Diff([]sidecar.UploadID{newUpload(0).ID, newUpload(1).ID, newUpload(2).ID}, ids(gone)); err != nil || diff != "" {
			t.Error(err, diff)
		}
		_, err = store.Upload(ctx, newUpload(2).ID)
		_, err3 := store.Upload(ctx, newUpload(3).ID)
		if !errors.Is(err, sidecar.ErrNotFound) || err3 != nil {
			t.Error(err, err3)
		}
	})
	t.Run("not_what_an_unfinished_run_names", func(t *testing.T) {
		store := fresh(t)
		u := addUpload(t, store, 0)
		run := newRun("anna", 1)
		run.Uploads = []sidecar.UploadID{u.ID}
		create(t, store, run)
		late := birth.Add(1000 * time.Hour)
		if gone, err := store.ExpireUploads(ctx, late); err != nil || len(gone) != 0 {
			t.Errorf("%v %v", ids(gone), err)
		}
		apply(t, store, run.ID, sidecar.Signal{Kind: sidecar.SignalFailed, Failure: &sidecar.Failure{Code: "x"}})
		if gone, err := store.ExpireUploads(ctx, late); err != nil || len(gone) != 1 {
			t.Errorf("%v %v", ids(gone), err)
		}
	})
	t.Run("many", func(t *testing.T) {
		store := fresh(t)
		const many = 1203
		err := store.Do(ctx, func(tx *sqlite.Tx) error {
			for n := range many {
				_, err := tx.Exec("INSERT INTO files (id, kind, name, path, state, created_at, expires_at) VALUES (?, 'upload', 'a', 'a', 'pending', ?, ?)",
					fmt.Sprint("upload_", n), sidecar.FormatTime(birth), sidecar.FormatTime(birth.Add(time.Duration(n)*time.Millisecond)))
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		gone, err := store.ExpireUploads(ctx, birth.Add(time.Hour))
		if err != nil || len(gone) != many {
			t.Errorf("%d %v", len(gone), err)
		}
	})
}

// TestUploadPlans: no statement of uploads scans the table of files.
func TestUploadPlans(t *testing.T) {
	store := fresh(t)
	u := addUpload(t, store, 0)
	_, err := store.UpdateUpload(t.Context(), u.ID, func(u *sidecar.Upload) error { u.Size++; return nil })
	_, err2 := store.Upload(t.Context(), u.ID)
	_, err3 := store.ExpireUploads(t.Context(), birth.Add(time.Hour))
	if err := errors.Join(err, err2, err3); err != nil {
		t.Fatal(err)
	}
	texts, err := store.Texts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, text := range texts {
		if !strings.Contains(text, "files") && !strings.Contains(text, "s.uploads FROM") {
			continue
		}
		seen++
		for _, step := range planOf(t, store, text) {
			if strings.HasPrefix(step, "SCAN") && !strings.HasSuffix(step, "run_state_unfinished") || strings.Contains(step, "TEMP B-TREE") {
				t.Errorf("%s\n\t%s", text, step)
			}
		}
	}
	if seen != 6 {
		t.Errorf("%d statements were looked at", seen)
	}
}
