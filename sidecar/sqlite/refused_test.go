package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

func TestRefusedUntouched(t *testing.T) {
	page := func(change func([]byte)) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			raw(t, path, referenceSchema+referenceRows)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			change(data)
			write(t, path, data)
		}
	}
	for _, c := range []struct {
		name, says string
		make       func(t *testing.T, path string)
	}{
		{"a_text", "not an SQLite file", func(t *testing.T, path string) { write(t, path, []byte("hello")) }},
		{"a_long_text", "not an SQLite file", func(t *testing.T, path string) { write(t, path, bytes.Repeat([]byte("hello"), 1000)) }},
		{"the_beginning_of_a_file", "not an SQLite file", func(t *testing.T, path string) { write(t, path, []byte("SQLite format 3\x00")) }},
		{"another_applications_id", "another application", page(func(b []byte) { binary.BigEndian.PutUint32(b[68:], 0x47504b47) })},
		{"another_applications_version", "another application", page(func(b []byte) { binary.BigEndian.PutUint32(b[60:], 7) })},
		{"another_applications_tables", "another application", func(t *testing.T, path string) { raw(t, path, "CREATE TABLE t (x)") }},
		{"a_newer_version", "newer version", func(t *testing.T, path string) {
			raw(t, path, fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d; CREATE TABLE t (x)", sqlite.ApplicationID, sqlite.SchemaVersion+1))
		}},
		{"a_missing_column", "its table runs lacks session_id, scope_key", func(t *testing.T, path string) {
			raw(t, path, "CREATE TABLE runs (run_id TEXT PRIMARY KEY)")
		}},
		{"a_newer_version_that_is_in_the_log_alone", "newer version", func(t *testing.T, path string) {
			source := filepath.Join(t.TempDir(), "source.db")
			db, err := sql.Open("sqlite", source)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			_, err = db.Exec(fmt.Sprintf("PRAGMA journal_mode = WAL; PRAGMA application_id = %d; PRAGMA user_version = %d; CREATE TABLE t (x)",
				sqlite.ApplicationID, sqlite.SchemaVersion+1))
			if err != nil {
				t.Fatal(err)
			}
			for name, data := range folder(t, source) {
				write(t, path+strings.TrimPrefix(name, "source.db"), []byte(data))
			}
		}},
		{"a_truncated_file", "damaged", func(t *testing.T, path string) {
			raw(t, path, referenceSchema+referenceRows)
			if err := os.Truncate(path, 3*4096); err != nil {
				t.Fatal(err)
			}
		}},
		{"a_file_of_ours_without_a_table", "damaged", func(t *testing.T, path string) {
			closeStore(t, open(t, path))
			raw(t, path, "DROP TABLE events")
			if err := os.Remove(path + ".lock"); err != nil {
				t.Fatal(err)
			}
		}},
		{"a_file_with_two_names", "it has 2 names (hard links)", func(t *testing.T, path string) {
			raw(t, path, referenceSchema+referenceRows)
			if err := os.Link(path, filepath.Join(t.TempDir(), "other.db")); err != nil {
				t.Fatal(err)
			}
		}},
		{"a_log_without_its_file", "it is gone, and its log", func(t *testing.T, path string) {
			write(t, path+"-wal", []byte("changes"))
		}},
		{"a_page_of_nothing", "damaged", page(func(b []byte) { clear(b[4096:8192]) })},
		{"a_schema_of_nonsense", "damaged", page(func(b []byte) { copy(b[100:], bytes.Repeat([]byte{0xff}, 200)) })},
		{"a_page_size_of_nonsense", "damaged", page(func(b []byte) { b[16], b[17] = 3, 3 })},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.db")
			c.make(t, path)
			before := folder(t, path)
			_, err := sqlite.Open(context.Background(), sqlite.Options{Path: path})
			var told *sidecar.Error
			if !errors.As(err, &told) || told.Code != sidecar.CodeStorage || told.Hint == "" ||
				!strings.Contains(told.Message, path) || !strings.Contains(told.Message, c.says) {
				t.Errorf("got %v", err)
			}
			diff(t, before, folder(t, path))
		})
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// folder is all files beside path, with what they hold. The index of a log is
// not counted: whoever reads a log makes one.
func folder(t testing.TB, path string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), "-shm") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(filepath.Dir(path), entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[entry.Name()] = string(data)
	}
	return files
}
