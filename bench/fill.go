package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"

	_ "modernc.org/sqlite" // reads and writes both servers' files
)

// multiply copies the one run and the one gallery item of a state file until
// there are n of each, a second apart, the newest being number n. Documents,
// sessions and whatever else a server keeps in their rows stay as it wrote
// them. The file must not be open elsewhere.
func multiply(ctx context.Context, path string, n int) (err error) {
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: path, RawQuery: "_pragma=synchronous(0)"}).String())
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("fill %s: %w", path, err)
	}
	for _, t := range []struct {
		table string
		ids   map[string]string // how column values are made of the number n
	}{
		{"gallery_items", map[string]string{"item_id": itemID, "run_id": runID, "slot_id": "slot_%07d"}},
		{"run_state", map[string]string{"run_id": runID}},
		{"runs", map[string]string{"run_id": runID}},
	} {
		if err := multiplyTable(ctx, tx, t.table, t.ids, n); err != nil {
			return errors.Join(fmt.Errorf("fill %s of %s: %w", t.table, path, err), tx.Rollback())
		}
	}
	return tx.Commit()
}

// What multiply makes of a row's number.
const (
	itemID = "gallery_%07d"
	runID  = "run_%07d"
	bornAt = 1_700_000_000 // seconds; row 0
)

func multiplyTable(ctx context.Context, tx *sql.Tx, table string, ids map[string]string, n int) error {
	columns, err := columnsOf(ctx, tx, table)
	if err != nil || len(columns) == 0 {
		return err
	}
	values := make([]string, len(columns))
	for i, name := range columns {
		switch values[i] = "t." + name; {
		case ids[name] != "":
			values[i] = "printf('" + ids[name] + "', k)"
		case name == "created_at", name == "updated_at", name == "row_updated_at":
			// Each server writes the parts of a second in its own way.
			values[i] = fmt.Sprintf("strftime('%%Y-%%m-%%dT%%H:%%M:%%S', %d + k, 'unixepoch') || substr(t.%s, 20)", bornAt, name)
		}
	}
	_, err = tx.ExecContext(ctx, `WITH RECURSIVE number(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM number WHERE k < ?)
		INSERT INTO `+table+` (`+strings.Join(columns, ", ")+`)
		SELECT `+strings.Join(values, ", ")+` FROM number, (SELECT * FROM `+table+` LIMIT 1) AS t`, n-1)
	return err
}

func columnsOf(ctx context.Context, tx *sql.Tx, table string) (names []string, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT name FROM pragma_table_info(?)", table)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}
