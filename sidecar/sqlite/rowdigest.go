package sqlite

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"strings"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// digestedState are the columns of run_state that stay when a run has finished,
// but by a change of the run.
var digestedState = []string{
	"run_id", "revision", "phase", "outcome", "code", "attempt", "accepted", "prompt_id", "due_at", "parent",
	"contract", "graph", "environment_ref", "manifest_revision", "prompt_digest", "issues",
	"started_at", "finished_at", "row_updated_at",
}

// digestedRows read what a finished run consists of, in a fixed order. The
// columns stay as they are: a digest has to mean the same in later versions.
var digestedRows = []struct {
	text   string
	scoped bool // the first argument is the scope
}{
	{"SELECT " + strings.Join(runTable.columns, ", ") + " FROM runs WHERE run_id = ?", false},
	{"SELECT " + strings.Join(digestedState, ", ") + " FROM run_state WHERE run_id = ?", false},
	{"SELECT " + strings.Join(slotTable.columns, ", ") + " FROM output_slots WHERE scope_key = ? AND run_id = ? ORDER BY slot_id", true},
	{"SELECT " + strings.Join(itemTable.columns, ", ") + " FROM gallery_items WHERE scope_key = ? AND run_id = ? ORDER BY item_id", true},
	{"SELECT " + strings.Join(nodeTable.columns, ", ") + " FROM node_runs WHERE run_id = ? ORDER BY ordinal", false},
}

const opensText = "SELECT value FROM sidecar_meta WHERE key = 'foreign_opens'"

// sign keeps the digest of a finished run's rows. It counts until the reference
// opens the file, which may change any of them.
func (tx *Tx) sign(run *sidecar.Run) error {
	var opens int64
	if _, err := one(tx, []any{&opens}, opensText); err != nil {
		return err
	}
	sum, err := digestRows(tx, run.Scope, run.ID)
	if err != nil {
		return fmt.Errorf("digest run %s: %w", run.ID, err)
	}
	_, err = tx.Exec("UPDATE run_state SET digest = ? WHERE run_id = ?", digestText(opens, sum), string(run.ID))
	return err
}

func digestText(opens int64, sum string) string { return fmt.Sprintf("%d:%s", opens, sum) }

// digestRows hashes every cell of a run's rows as it is stored.
func digestRows(q querier, scope sidecar.Scope, id sidecar.RunID) (string, error) {
	sum := sha256.New()
	for _, part := range digestedRows {
		args := []any{string(id)}
		if part.scoped {
			args = []any{string(scope), string(id)}
		}
		rows, err := q.query(part.text, args...)
		if err != nil {
			return "", err
		}
		columns, err := rows.Columns()
		err = each(rows, err, func(row scanner) error { return hashRow(sum, row, len(columns)) })
		if err != nil {
			return "", err
		}
		io.WriteString(sum, "\x00end") //nolint:errcheck // a hash takes everything
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

func hashRow(sum hash.Hash, row scanner, columns int) error {
	cells, dest := make([]any, columns), make([]any, columns)
	for i := range cells {
		dest[i] = &cells[i]
	}
	if err := row.Scan(dest...); err != nil {
		return err
	}
	for _, cell := range cells {
		if blob, ok := cell.([]byte); ok {
			cell = string(blob)
		}
		text, isText := cell.(string)
		if !isText {
			text = fmt.Sprint(cell)
		}
		fmt.Fprintf(sum, "%T %d ", cell, len(text))
		io.WriteString(sum, text) //nolint:errcheck // a hash takes everything
	}
	return nil
}

// signedPage is how many runs Verify compares at a time.
const signedPage = 200

type signedRun struct{ id, scope, digest string }

// rows compares the rows of finished runs with their digests, which files of
// older versions do not have.
func (v *verifier) rows(q querier) error {
	var opens, columns int64
	_, err := one(q, []any{&columns}, "SELECT count(*) FROM pragma_table_info('run_state') WHERE name = 'digest'")
	if err != nil || columns == 0 {
		return err
	}
	if _, err := one(q, []any{&opens}, opensText); err != nil {
		return err
	}
	prefix := digestText(opens, "")
	for last := ""; ; {
		page, err := signedRuns(q, last)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, run := range page {
			if err := v.compare(q, run, prefix); err != nil {
				return err
			}
		}
		last = page[len(page)-1].id
	}
}

func signedRuns(q querier, after string) ([]signedRun, error) {
	var page []signedRun
	rows, err := q.query(`
		SELECT s.run_id, coalesce(r.scope_key, ''), coalesce(s.digest, '')
		FROM run_state AS s LEFT JOIN runs AS r ON r.run_id = s.run_id
		WHERE s.run_id > ?
		ORDER BY s.run_id LIMIT ?`, after, signedPage)
	err = each(rows, err, func(row scanner) error {
		var id, scope, digest textCell
		err := row.Scan(&id, &scope, &digest)
		page = append(page, signedRun{string(id), string(scope), string(digest)})
		return err
	})
	return page, err
}

func (v *verifier) compare(q querier, run signedRun, prefix string) error {
	if err := v.stop(); err != nil {
		return err
	}
	if !strings.HasPrefix(run.digest, prefix) {
		return nil
	}
	sum, err := digestRows(q, sidecar.Scope(run.scope), sidecar.RunID(run.id))
	if err == nil && prefix+sum != run.digest {
		v.fault(sidecar.RunID(run.id), 0, "its rows are not as they were written")
	}
	return err
}
