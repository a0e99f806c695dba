package sqlite_test

import (
	"net/url"
	"runtime"
	"testing"

	driver "modernc.org/sqlite"

	"github.com/comfygit-ai/studio-sidecar/internal/walvfs"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
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
	}
	if runtime.GOOS == "linux" && !driver.FdatasyncEnabled() {
		t.Error("a commit waits for the log's time of change")
	}
}
