package walvfs_test

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/comfygit-ai/studio-sidecar/internal/need"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite/walvfs"

	_ "modernc.org/sqlite"
)

// connect opens one connection; vfs is "" for the system's.
func connect(t *testing.T, path, vfs string, pragmas ...string) *sql.Conn {
	t.Helper()
	query := url.Values{"_pragma": append([]string{"journal_mode(WAL)", "synchronous(FULL)"}, pragmas...)}
	if vfs != "" {
		query.Set("vfs", vfs)
	}
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(path)+"?"+query.Encode())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return conn
}

func run(t *testing.T, conn *sql.Conn, text string, args ...any) {
	t.Helper()
	if _, err := conn.ExecContext(context.Background(), text, args...); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func ask(t *testing.T, conn *sql.Conn, text string) (answer string) {
	t.Helper()
	if err := conn.QueryRowContext(context.Background(), text).Scan(&answer); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return answer
}

func register(t *testing.T) string {
	t.Helper()
	name, err := walvfs.Name()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// writes counts the calls by which this process wrote.
func writes(t *testing.T) (n int) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/io")
	need.That(t, err == nil, "/proc/self/io of Linux")
	for line := range strings.Lines(string(text)) {
		if _, err := fmt.Sscanf(line, "syscw: %d", &n); err == nil {
			return n
		}
	}
	t.Fatalf("no syscw in %s", text)
	return 0
}

func TestOneWriteForManyPages(t *testing.T) {
	const pages = 25
	cost := func(vfs string) int {
		conn := connect(t, filepath.Join(t.TempDir(), "a.db"), vfs)
		run(t, conn, "CREATE TABLE t (data BLOB)")
		before := writes(t)
		run(t, conn, "INSERT INTO t VALUES (randomblob(?))", pages<<12)
		return writes(t) - before
	}
	if n := cost(""); n < 2*pages {
		t.Fatalf("%d writes without the VFS: what is counted here?", n)
	}
	if n := cost(register(t)); n > 5 {
		t.Errorf("%d writes for %d pages", n, pages)
	}
}

// TestSeenWhenCommitted: other connections, of either VFS, see all of a commit
// and nothing before it.
func TestSeenWhenCommitted(t *testing.T) {
	path, name := filepath.Join(t.TempDir(), "a.db"), register(t)
	writer := connect(t, path, name)
	run(t, writer, "CREATE TABLE t (data BLOB)")
	readers := []*sql.Conn{connect(t, path, ""), connect(t, path, name)}
	for i := range 50 {
		run(t, writer, "BEGIN IMMEDIATE")
		run(t, writer, "INSERT INTO t VALUES (randomblob(?))", 1+i*3000)
		for _, reader := range readers {
			if got := ask(t, reader, "SELECT count(*) FROM t"); got != fmt.Sprint(i) {
				t.Fatalf("%s rows before the commit of row %d", got, i+1)
			}
		}
		run(t, writer, "COMMIT")
		for _, reader := range readers {
			if got := ask(t, reader, "SELECT count(*) || ' ' || max(length(data)) FROM t"); got != fmt.Sprint(i+1, " ", 1+i*3000) {
				t.Fatalf("after the commit of row %d: %s", i+1, got)
			}
		}
	}
}

// TestAsTheSystem does the same to two files, of which one is written through
// the VFS, with a cache so small that pages move into the log and are read from
// there before their transaction ends.
func TestAsTheSystem(t *testing.T) {
	const seeds, steps = 12, 120
	count := map[string]int{}
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			dir, names := t.TempDir(), []string{"", register(t)}
			path := func(i int) string { return filepath.Join(dir, fmt.Sprintf("%d.db", i)) }
			var pair []*sql.Conn
			for i, vfs := range names {
				pair = append(pair, connect(t, path(i), vfs, "cache_size(4)"))
			}
			both := func(text string, args ...any) {
				for _, conn := range pair {
					run(t, conn, text, args...)
				}
				count[strings.SplitN(text, " ", 2)[0]]++
			}
			agree := func(conns []*sql.Conn) {
				t.Helper()
				if a, b := ask(t, conns[0], contents), ask(t, conns[1], contents); a != b {
					t.Fatalf("the system's VFS has %s, ours %s", a, b)
				}
			}
			both("CREATE TABLE t (k INTEGER PRIMARY KEY, data BLOB, text TEXT)")
			both("CREATE INDEX t_text ON t (text)")
			dice := rand.New(rand.NewPCG(seed, 1))
			open, saved := false, false
			for range steps {
				data := make([]byte, dice.IntN(30000))
				for i := range data {
					data[i] = byte(dice.Uint32())
				}
				switch n := dice.IntN(100); {
				case n < 10 && !open:
					both("BEGIN IMMEDIATE")
					open = true
				case n < 15 && open:
					both("COMMIT")
					open, saved = false, false
				case n < 20 && open:
					both("ROLLBACK")
					open, saved = false, false
				case n < 25 && open && !saved:
					both("SAVEPOINT s")
					saved = true
				case n < 30 && saved:
					both("ROLLBACK TO s")
				case n < 35 && !open:
					both("PRAGMA wal_checkpoint(" + []string{"PASSIVE", "RESTART", "TRUNCATE"}[dice.IntN(3)] + ")")
				case n < 70:
					both("INSERT OR REPLACE INTO t VALUES (?, ?, ?)", dice.IntN(200), data, fmt.Sprintf("%x", data[:min(len(data), 40)]))
				case n < 85:
					both("UPDATE t SET data = ? WHERE k % 7 = ?", data[:len(data)/8], dice.IntN(7))
				case n < 95:
					both("DELETE FROM t WHERE k % 11 = ?", dice.IntN(11))
				default:
					agree(pair)
				}
			}
			if open {
				both("COMMIT")
			}
			agree(pair)
			var fresh []*sql.Conn // which read the log from its beginning
			for i := range pair {
				fresh = append(fresh, connect(t, path(i), ""))
				if got := ask(t, fresh[i], "PRAGMA integrity_check"); got != "ok" {
					t.Errorf("file %d: %s", i, got)
				}
			}
			agree(fresh)
		})
	}
	for _, step := range []string{"COMMIT", "ROLLBACK", "SAVEPOINT", "PRAGMA", "INSERT", "UPDATE", "DELETE"} {
		if count[step] < seeds {
			t.Errorf("%s came %d times: the dice prove little", step, count[step])
		}
	}
	t.Log(count)
}

const contents = `SELECT count(*) || ' ' || coalesce(group_concat(k || ':' || hex(substr(data, 1, 9)) || length(data) || text), '')
	FROM (SELECT * FROM t ORDER BY text, k)`

// TestRolledBackUnderOthers: what a rolled-back transaction had moved into the
// log stands nowhere where another connection has written since.
func TestRolledBackUnderOthers(t *testing.T) {
	for name, then := range map[string]func(t *testing.T, ours *sql.Conn){
		"write":      func(t *testing.T, ours *sql.Conn) { run(t, ours, "INSERT OR REPLACE INTO t VALUES (1, 'x')") },
		"checkpoint": func(t *testing.T, ours *sql.Conn) { run(t, ours, "PRAGMA wal_checkpoint(PASSIVE)") },
		"rollback": func(t *testing.T, ours *sql.Conn) {
			run(t, ours, "BEGIN IMMEDIATE")
			run(t, ours, "INSERT OR REPLACE INTO t VALUES (1, randomblob(90000))")
			run(t, ours, "ROLLBACK")
		},
		"close": func(t *testing.T, ours *sql.Conn) {
			if err := ours.Raw(func(c any) error { return c.(io.Closer).Close() }); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for _, truncated := range []bool{false, true} {
			for _, rows := range []int{1, 10, 60} {
				t.Run(fmt.Sprint(name, truncated, rows), func(t *testing.T) {
					path := filepath.Join(t.TempDir(), "a.db")
					ours, other := connect(t, path, register(t), "cache_size(16)"), connect(t, path, "")
					run(t, ours, "CREATE TABLE t (k INTEGER PRIMARY KEY, data BLOB)")
					run(t, ours, "INSERT INTO t VALUES (1, randomblob(3000))")
					run(t, ours, "BEGIN IMMEDIATE")
					for i := range 10 {
						run(t, ours, "INSERT INTO t VALUES (?, randomblob(9000))", 100+i)
					}
					run(t, ours, "ROLLBACK")
					if truncated {
						run(t, other, "PRAGMA wal_checkpoint(TRUNCATE)")
					}
					for i := range rows {
						run(t, other, "INSERT INTO t VALUES (?, randomblob(9000))", 200+i)
					}
					then(t, ours)
					fresh := connect(t, path, "")
					if check, n := ask(t, fresh, "PRAGMA integrity_check"), ask(t, fresh, "SELECT count(*) FROM t"); check != "ok" || n != fmt.Sprint(rows+1) {
						t.Errorf("%s rows of %d, %s", n, rows+1, check)
					}
				})
			}
		}
	}
}

// TestTwoWriters lets a connection of ours and one of the system's VFS write to
// one file in turn, in transactions that are often larger than their caches and
// often rolled back: the file holds what was committed.
func TestTwoWriters(t *testing.T) {
	const seeds, rounds = 12, 40
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.db")
			writers := []*sql.Conn{
				connect(t, path, register(t), "cache_size(8)", "wal_autocheckpoint(0)"),
				connect(t, path, "", "cache_size(8)", "wal_autocheckpoint(0)"),
			}
			reader := connect(t, path, "")
			run(t, writers[0], "CREATE TABLE t (k INTEGER PRIMARY KEY, size INTEGER, data BLOB)")
			dice := rand.New(rand.NewPCG(seed, 2))
			held := map[int]int{} // what was committed: sizes by key
			for round := range rounds {
				w := writers[dice.IntN(2)]
				now, saved := maps.Clone(held), held
				run(t, w, "BEGIN IMMEDIATE")
				run(t, w, "SAVEPOINT s")
				for range dice.IntN(30) {
					switch key := dice.IntN(300); dice.IntN(8) {
					case 0:
						run(t, w, "DELETE FROM t WHERE k = ?", key)
						delete(now, key)
					case 1:
						run(t, w, "ROLLBACK TO s")
						now = maps.Clone(saved)
					case 2:
						run(t, w, "RELEASE s")
						run(t, w, "SAVEPOINT s")
						saved = maps.Clone(now)
					default:
						now[key] = dice.IntN(20000)
						run(t, w, "INSERT OR REPLACE INTO t VALUES (?1, ?2, randomblob(?2))", key, now[key])
					}
				}
				if dice.IntN(3) == 0 {
					run(t, w, "ROLLBACK")
				} else {
					run(t, w, "COMMIT")
					held = now
				}
				if dice.IntN(6) == 0 {
					run(t, writers[dice.IntN(2)], "PRAGMA wal_checkpoint("+[]string{"PASSIVE", "RESTART", "TRUNCATE"}[dice.IntN(3)]+")")
				}
				sum := 0
				for _, size := range held {
					sum += max(size, 1) // randomblob(0) gives a byte
				}
				if got := ask(t, reader, "SELECT count(*) || ' ' || coalesce(sum(length(data)), 0) FROM t"); got != fmt.Sprint(len(held), " ", sum) {
					t.Fatalf("round %d: the file holds %s, want %d %d", round, got, len(held), sum)
				}
			}
			if check := ask(t, connect(t, path, ""), "PRAGMA integrity_check"); check != "ok" {
				t.Error(check)
			}
		})
	}
}
