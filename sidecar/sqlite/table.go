package sqlite

import "strings"

// table describes a table whose rows are compared and written by cell. The
// first keys columns name a row.
type table struct {
	name    string
	keys    int
	columns []string
	insert  string // the statement that adds a row
}

func newTable(name string, keys int, columns ...string) table {
	return table{name, keys, columns, "INSERT INTO " + name + " (" + strings.Join(columns, ", ") + ") VALUES (?" +
		strings.Repeat(", ?", len(columns)-1) + ")"}
}

var (
	runTable = newTable("runs", 1,
		"run_id", "session_id", "scope_key", "workflow", "contract", "status",
		"prompt_id", "inputs_json", "raw_result_json", "error", "created_at", "updated_at",
	)
	stateTable = newTable("run_state", 1,
		"run_id", "revision", "head_hash", "phase", "outcome", "code", "attempt", "accepted",
		"prompt_id", "due_at", "contract", "graph", "environment_ref", "manifest_revision",
		"prompt_digest", "issues", "deleted", "started_at", "finished_at", "row_updated_at", "uploads",
		"title", "pinned",
		"wait_reason", "position", "parent", "after_run", "hold",
	)
	slotTable = newTable("output_slots", 1,
		"slot_id", "run_id", "session_id", "scope_key", "workflow", "contract",
		"output_name", "output_type", "status", "prompt_id", "width", "height",
		"error", "raw_result_json", "created_at", "updated_at",
	)
	itemTable = newTable("gallery_items", 1,
		"item_id", "run_id", "session_id", "scope_key", "workflow", "contract", "status",
		"output_type", "slot_id", "output_name", "prompt_id", "filename", "url", "width", "height",
		"inputs_json", "artifact_json", "raw_result_json", "error", "created_at", "updated_at",
	)
	nodeTable = newTable("node_runs", 2,
		"run_id", "ordinal", "node", "attempt", "class", "title", "parent", "cached",
		"started_at", "finished_at", "error", "files", "bytes",
	)
)

// list names the columns, each with its alias before it.
func (t *table) list(alias string) string {
	return alias + "." + strings.Join(t.columns, ", "+alias+".")
}

func (t *table) where() string {
	return " WHERE " + strings.Join(t.columns[:t.keys], " = ? AND ") + " = ?"
}

func (t *table) updateText(changed []int) string {
	names := make([]string, 0, len(changed))
	for _, i := range changed {
		names = append(names, t.columns[i]+" = ?")
	}
	return "UPDATE " + t.name + " SET " + strings.Join(names, ", ") + t.where()
}

// write brings one row from before to after; nil stands for no row. Only cells
// that differ are written, so that what we do not understand stays.
func (tx *Tx) write(t *table, before, after []any) error {
	switch {
	case before == nil && after == nil:
		return nil
	case before == nil:
		_, err := tx.Exec(t.insert, stored(after)...)
		return err
	case after == nil:
		_, err := tx.Exec("DELETE FROM "+t.name+t.where(), before[:t.keys]...)
		return err
	}
	var changed []int
	var args []any
	for i := t.keys; i < len(after); i++ {
		if !sameCell(before[i], after[i]) {
			changed = append(changed, i)
			args = append(args, after[i])
		}
	}
	if len(changed) == 0 {
		return nil
	}
	_, err := tx.Exec(t.updateText(changed), append(stored(args), after[:t.keys]...)...)
	return err
}

// stored are cells as SQLite takes them. The list may be written into.
func stored(cells []any) []any {
	for i, cell := range cells {
		if p, ok := cell.(prose); ok {
			cells[i] = string(p)
		}
	}
	return cells
}
