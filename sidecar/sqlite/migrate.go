package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// migrations holds schema/NNNN_name.sql, applied in order of their numbers,
// and schema/reference.sql, applied at each start.
//
//go:embed schema/*.sql
var migrations embed.FS

// referenceVersion is what the reference writes as its schema_version.
const referenceVersion = "2"

// prepare brings the file to where the writer can begin: schema, epoch,
// agreement with the reference's tables. All of it or nothing.
func (s *Store) prepare(ctx context.Context, filled bool) error {
	var version int
	if err := s.writeDB.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return opening(s.path, err)
	}
	if filled && version < schemaVersion {
		if err := s.backUp(ctx, version); err != nil {
			return err
		}
	}
	tx, err := s.writeDB.BeginTx(ctx, nil)
	if err != nil {
		return opening(s.path, err)
	}
	if err := s.prepareIn(ctx, tx, version); err != nil {
		return errors.Join(opening(s.path, err), tx.Rollback())
	}
	if err := tx.Commit(); err != nil {
		return opening(s.path, err)
	}
	if filled {
		return nil
	}
	if err := syncFolder(filepath.Dir(s.path)); err != nil {
		return fmt.Errorf("make %s durable: %w", s.path, err)
	}
	return nil
}

func (s *Store) prepareIn(ctx context.Context, tx *sql.Tx, version int) error {
	if err := applyReference(ctx, tx); err != nil {
		return err
	}
	for number := version + 1; number <= schemaVersion; number++ {
		if err := migrateTo(ctx, tx, number); err != nil {
			return err
		}
	}
	err := tx.QueryRowContext(ctx,
		"UPDATE sidecar_meta SET value = value + 1 WHERE key = 'epoch' RETURNING value").Scan(&s.epoch)
	if err != nil {
		return fmt.Errorf("raise the epoch: %w", err)
	}
	if _, err := tx.ExecContext(ctx, noteHead); err != nil {
		return fmt.Errorf("note the newest event: %w", err)
	}
	if s.life == "" {
		return nil
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO sidecar_meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", lifeKey, s.life)
	return err
}

// applyReference makes what is missing of the reference's tables, as it does
// itself at each open.
func applyReference(ctx context.Context, tx *sql.Tx) error {
	text, err := migrations.ReadFile("schema/reference.sql")
	if err != nil {
		return err
	}
	var columns int
	err = tx.QueryRowContext(ctx, "SELECT count(*) FILTER (WHERE name = 'slot_id') FROM pragma_table_info('gallery_items') HAVING count(*) > 0").Scan(&columns)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("look at gallery_items: %w", err)
	}
	if err == nil && columns == 0 {
		if _, err := tx.ExecContext(ctx, "ALTER TABLE gallery_items ADD COLUMN slot_id TEXT"); err != nil {
			return fmt.Errorf("add slot_id to gallery_items: %w", err)
		}
	}
	if _, err := tx.ExecContext(ctx, string(text)); err != nil {
		return fmt.Errorf("make the reference's tables: %w", err)
	}
	// Only where it differs: writing there counts as an open of the reference.
	_, err = tx.ExecContext(ctx, `
		INSERT INTO serve_state_meta (key, value) VALUES ('schema_version', ?)
		ON CONFLICT (key) DO UPDATE SET value = excluded.value WHERE value <> excluded.value`, referenceVersion)
	if err != nil {
		return fmt.Errorf("write the reference's schema version: %w", err)
	}
	return nil
}

func migrateTo(ctx context.Context, tx *sql.Tx, number int) error {
	names, err := migrations.ReadDir("schema")
	if err != nil {
		return err
	}
	prefix := fmt.Sprintf("%04d_", number)
	i := slices.IndexFunc(names, func(e os.DirEntry) bool { return len(e.Name()) > 5 && e.Name()[:5] == prefix })
	if i < 0 {
		return fmt.Errorf("migration %d is missing", number)
	}
	text, err := migrations.ReadFile("schema/" + names[i].Name())
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, string(text)); err != nil {
		return fmt.Errorf("migrate by %s: %w", names[i].Name(), err)
	}
	_, err = tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d; PRAGMA application_id = %d", number, applicationID))
	return err
}

// backUp puts a copy of the file beside it.
func (s *Store) backUp(ctx context.Context, version int) error {
	path, err := s.backupPath(version)
	if err != nil {
		return err
	}
	if err := copyInto(ctx, s.writeDB, path); err != nil {
		return errors.Join(
			refusal(s.path, "no copy of it could be made before it is brought up to date",
				"Make room beside it, or choose another file with --state-db.", err),
			removeIfThere(path))
	}
	s.log.Info("the state database was copied before it is brought up to date", "copy", path)
	return syncFolder(filepath.Dir(path))
}

func (s *Store) backupPath(version int) (string, error) {
	for n := 1; ; n++ {
		path := fmt.Sprintf("%s.v%d-%d.backup", s.path, version, n)
		_, err := os.Lstat(path)
		if errors.Is(err, os.ErrNotExist) {
			return path, nil
		}
		if err != nil {
			return "", fmt.Errorf("name a copy of %s: %w", s.path, err)
		}
	}
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
