package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	driver "modernc.org/sqlite"

	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite/walvfs"
)

// TestSwiftCommits: only where each commit is synced may the log's writes wait
// for the sync.
func TestSwiftCommits(t *testing.T) {
	name, err := walvfs.Name()
	if err != nil {
		t.Fatal(err)
	}
	for dsn, want := range map[string]string{
		sqlite.WriterDSN("a.db", false): name,
		sqlite.WriterDSN("a.db", true):  "",
		sqlite.ReaderDSN("a.db"):        "",
	} {
		u, err := url.Parse(dsn)
		if err != nil {
			t.Fatal(err)
		}
		if got := u.Query().Get("vfs"); got != want {
			t.Errorf("%s opens its file by %q, want %q", dsn, got, want)
		}
		if got := slices.Contains(u.Query()["_pragma"], "synchronous(FULL)"); got != (want != "") {
			t.Errorf("%s: each commit is synced: %v", dsn, got)
		}
	}
	if runtime.GOOS == "linux" && !driver.FdatasyncEnabled() {
		t.Error("a commit waits for the log's time of change")
	}
}

// TestRefusedChangeBesideAnother: a change that was refused when much of it
// stood in the log already leaves what another process wrote there since.
func TestRefusedChangeBesideAnother(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "state.db")
	store := open(t, path)
	create(t, store, newRun("alice", 1))
	refused := errors.New("refused")
	err := store.Do(ctx, func(tx *sqlite.Tx) error {
		for n := range 100 {
			if _, err := tx.Exec("INSERT INTO blobs (sha256, size, data) VALUES (?, 0, randomblob(60000))", n); err != nil {
				return err
			}
		}
		return refused
	})
	if !errors.Is(err, refused) {
		t.Fatal(err)
	}
	other, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.Exec(`PRAGMA wal_autocheckpoint = 0;
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400)
		INSERT INTO sessions SELECT 'other' || i, hex(randomblob(10000)), '', '' FROM n`); err != nil {
		t.Fatal(err)
	}
	create(t, store, newRun("alice", 2))
	closeStore(t, store)
	again := open(t, path)
	if runs, sessions := count(t, again, "SELECT count(*) FROM runs"), count(t, again, "SELECT count(*) FROM sessions WHERE session_id GLOB 'other*'"); runs != 2 || sessions != 400 {
		t.Errorf("%d runs and %d sessions are left", runs, sessions)
	}
	history(t, again)
}
