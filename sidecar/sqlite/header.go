package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

const (
	// applicationID is "SSid" in ASCII.
	applicationID = 0x53536964
	// schemaVersion is the number of the newest migration.
	schemaVersion = 8
	// checkedSize is how large a file may be to be checked page by page at
	// each start: some 50 ms. Larger ones are by Verify.
	checkedSize = 32 << 20
)

// header is what the first 100 bytes of an SQLite file tell.
type header struct {
	pageSize      int64
	pages         int64 // 0 when the field is not valid
	userVersion   uint32
	applicationID uint32
}

// requiredColumns are those that make a file one of the reference's. slot_id
// of gallery_items came later and is added.
var requiredColumns = map[string][]string{
	"serve_state_meta": {"key", "value"},
	"sessions":         {"session_id", "scope_key", "created_at", "updated_at"},
	"runs":             runTable.columns,
	"output_slots":     slotTable.columns,
	"gallery_items":    without(itemTable.columns, "slot_id"),
}

// ownColumns are those without which a file of ours is not whole, by the
// migration that made them.
var ownColumns = map[int64]map[string][]string{
	1: {
		"sidecar_meta": {"key", "value"},
		"run_state":    append([]string{"retained_from", "base_hash"}, without(stateTable.columns, "uploads", "hold")...),
		"node_runs":    nodeTable.columns,
		"events":       {"seq", "run_id", "scope", "revision", "type", "targets", "at", "hash"},
		"blobs":        {"sha256", "size", "data"},
	},
	2: {
		"files":     fileTable.columns,
		"run_state": {"uploads"},
	},
	4: {"commands": append([]string{"seq"}, commandTable.columns...)},
	5: {"run_state": {"bytes"}},
	6: {"run_state": {"digest"}},
	7: {"run_state": {"hold"}},
}

func without(columns []string, names ...string) []string {
	var kept []string
	for _, column := range columns {
		if !slices.Contains(names, column) {
			kept = append(kept, column)
		}
	}
	return kept
}

// inspect looks at a file without changing a byte of it and refuses what
// cannot be the state database. It reports whether there is anything in it.
// No connection of this process may be open: closing any descriptor of the
// file would drop their locks.
func inspect(ctx context.Context, path string) (filled bool, err error) {
	if err := checkRestored(path); err != nil {
		return false, err
	}
	size, head, err := readHeader(path)
	logged := sizeOf(walPath(path)) > 0
	if errors.Is(err, os.ErrNotExist) || err == nil && size == 0 {
		return false, lostFile(path, logged)
	}
	if err != nil {
		return false, err
	}
	if err := checkNames(path); err != nil {
		return false, err
	}
	if err := head.judge(path, size, logged); err != nil {
		return false, err
	}
	if err := checkLog(ctx, path, logged); err != nil {
		return false, err
	}
	if err := inspectSchema(ctx, path, size, logged); err != nil {
		return false, err
	}
	return true, nil
}

func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

func readHeader(path string) (int64, header, error) {
	// Looked at before opening: to open a pipe would wait for its writer.
	if err := checkRegular(path); err != nil {
		return 0, header{}, err
	}
	file, err := os.Open(path)
	if err != nil {
		return 0, header{}, unreadable(path, err)
	}
	raw, err := io.ReadAll(io.LimitReader(file, 100))
	info, statErr := file.Stat()
	if err := errors.Join(err, statErr, file.Close()); err != nil {
		return 0, header{}, unreadable(path, err)
	}
	if len(raw) == 0 {
		return 0, header{}, nil
	}
	if len(raw) < 100 || !bytes.HasPrefix(raw, []byte("SQLite format 3\x00")) {
		return 0, header{}, refusal(path, "it is not an SQLite file",
			"Choose another file with --state-db, or move this one away.", nil)
	}
	return info.Size(), parseHeader(raw), nil
}

func checkRegular(path string) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return refusal(path, "it is no file", "Choose another file with --state-db.", nil)
	}
	return nil
}

func unreadable(path string, err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return err
	}
	return refusal(path, "it cannot be read", "Check its rights, or choose another file with --state-db.", err)
}

func parseHeader(raw []byte) header {
	h := header{
		pageSize:      int64(binary.BigEndian.Uint16(raw[16:])),
		userVersion:   binary.BigEndian.Uint32(raw[60:]),
		applicationID: binary.BigEndian.Uint32(raw[68:]),
	}
	if h.pageSize == 1 {
		h.pageSize = 65536
	}
	// Old writers leave the page count stale; the two counters tell.
	if bytes.Equal(raw[24:28], raw[92:96]) {
		h.pages = int64(binary.BigEndian.Uint32(raw[28:]))
	}
	return h
}

// judge refuses by the header alone. While a log waits beside the file, its
// size says nothing: a copy of the log into the file may have been cut short.
func (h header) judge(path string, size int64, logged bool) error {
	if h.applicationID != 0 && h.applicationID != applicationID {
		return refusal(path, "it belongs to another application",
			"Choose another file with --state-db.", nil)
	}
	if h.applicationID == applicationID && h.userVersion > schemaVersion {
		return newer(path, int64(h.userVersion))
	}
	if h.applicationID == 0 && h.userVersion != 0 {
		return refusal(path, "it belongs to another application",
			"Choose another file with --state-db.", nil)
	}
	if h.pageSize < 512 || h.pageSize&(h.pageSize-1) != 0 || !logged && h.pages > 0 && size < h.pages*h.pageSize {
		return damaged(path, nil)
	}
	return nil
}

func newer(path string, version int64) error {
	return refusal(path, fmt.Sprintf("it was written by a newer version (its schema is %d, this program knows %d)", version, schemaVersion),
		"Start the newer version, or choose another file with --state-db.", nil)
}

func damaged(path string, cause error) error {
	reason := "it is damaged"
	if log := walPath(path); sizeOf(log) > 0 {
		reason += ", or its log " + log + " belongs to another file"
	}
	return refusal(path, reason, restoreHint(path)+" Or choose another file with --state-db.", errors.Join(sidecar.ErrLasting, cause))
}

// restoreHint tells how a backup comes in the place of a file that cannot be
// used.
func restoreHint(path string) string {
	return "Bring a backup back with: studio-sidecar restore BACKUP --state-db " + path + "."
}

// inspectSchema opens the file so that nothing is written: as immutable when
// it stands alone, else read-only, which leaves the log where it is.
func inspectSchema(ctx context.Context, path string, size int64, logged bool) error {
	mode := "immutable=1"
	if logged {
		mode = "mode=ro"
	}
	db, err := sql.Open("sqlite", dsn(path, mode, "_pragma=busy_timeout(5000)"))
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	db.SetMaxOpenConns(1)
	err = inspectTables(ctx, db, path, size)
	return errors.Join(err, db.Close())
}

func inspectTables(ctx context.Context, db *sql.DB, path string, size int64) error {
	var id, version int64
	if err := db.QueryRowContext(ctx, "SELECT application_id, user_version FROM pragma_application_id, pragma_user_version").Scan(&id, &version); err != nil {
		return opening(path, err)
	}
	if id == applicationID && version > schemaVersion {
		return newer(path, version)
	}
	if size <= checkedSize {
		var verdict string
		if err := db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict); err != nil {
			return opening(path, err)
		}
		if verdict != "ok" {
			return damaged(path, errors.New(verdict))
		}
	}
	tables, err := tablesOf(direct{ctx, db})
	if err != nil {
		return opening(path, err)
	}
	if id == applicationID {
		if err := checkOwnTables(path, tables, version); err != nil {
			return err
		}
	}
	return checkTables(path, tables)
}

func checkOwnTables(path string, tables map[string][]string, version int64) error {
	for since, own := range ownColumns {
		if version < since {
			continue
		}
		for name, columns := range own {
			if missing := missingOf(columns, tables[name]); len(missing) > 0 {
				return damaged(path, fmt.Errorf("table %s lacks %s", name, strings.Join(missing, ", ")))
			}
		}
	}
	return nil
}

func opening(path string, err error) error {
	if corrupt(err) {
		return damaged(path, err)
	}
	return storageError(path, err)
}

// direct reads on any connection of a pool.
type direct struct {
	ctx context.Context
	db  *sql.DB
}

func (d direct) query(text string, args ...any) (*sql.Rows, error) {
	return d.db.QueryContext(d.ctx, text, args...)
}

// tablesOf lists the columns of every table.
func tablesOf(q querier) (map[string][]string, error) {
	rows, err := q.query(`
		SELECT t.name, c.name
		FROM sqlite_schema AS t, pragma_table_info(t.name) AS c
		WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%'`)
	tables := map[string][]string{}
	err = each(rows, err, func(row scanner) error {
		var table, column string
		if err := row.Scan(&table, &column); err != nil {
			return err
		}
		tables[table] = append(tables[table], column)
		return nil
	})
	return tables, err
}

// checkTables wants the reference's tables, unless there are none of any kind.
// A missing one of the five is made, as the reference does; a present one
// without its columns is somebody else's.
func checkTables(path string, tables map[string][]string) error {
	known := 0
	for name, columns := range requiredColumns {
		present, ok := tables[name]
		if !ok {
			continue
		}
		known++
		if missing := missingOf(columns, present); len(missing) > 0 {
			return refusal(path, fmt.Sprintf("its table %s lacks %s", name, strings.Join(missing, ", ")),
				"Choose another file with --state-db.", nil)
		}
	}
	if known == 0 && len(tables) > 0 {
		return refusal(path, "it belongs to another application", "Choose another file with --state-db.", nil)
	}
	return nil
}

func missingOf(wanted, present []string) []string {
	have := map[string]bool{}
	for _, column := range present {
		have[column] = true
	}
	var missing []string
	for _, column := range wanted {
		if !have[column] {
			missing = append(missing, column)
		}
	}
	return missing
}
