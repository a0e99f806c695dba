package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// metricColumns sum up the node runs of each run's latest attempt.
const metricColumns = `,
	(SELECT json_array(count(*), sum(n.cached), sum(n.files), sum(n.bytes)) FROM node_runs AS n
		WHERE n.run_id = r.run_id AND n.attempt = s.attempt)`

// runQuery is the part of a list that a filter decides: tables and conditions.
// Each of them can be walked in the order of the list along an index.
type runQuery struct {
	from  string
	where string
	args  []any
	// merged tells that the list is of two, either of them along an index.
	merged bool
}

// byStatus is the reference's index of a scope's runs by status and time.
const byStatus = "INDEXED BY idx_runs_scope_status_created"

func (rq *runQuery) and(condition string, args ...any) {
	rq.where += " AND " + condition
	rq.args = append(rq.args, args...)
}

func queryOf(filter sidecar.RunFilter) runQuery {
	rq := runQuery{
		from:  " FROM runs AS r LEFT JOIN run_state AS s ON s.run_id = r.run_id",
		where: " WHERE r.scope_key = ?", args: []any{string(filter.Scope)},
	}
	if filter.Parent != "" {
		// From the few children to their runs.
		rq.from = " FROM run_state AS s CROSS JOIN runs AS r"
		rq.where = " WHERE s.parent = ? AND r.run_id = s.run_id AND +r.scope_key = ?"
		rq.args = []any{string(filter.Parent), string(filter.Scope)}
	}
	if filter.Parent == "" && (filter.Active || filter.Status != "" && filter.Workflow == "") {
		// SQLite would rather walk all runs of a scope in the order of the list.
		rq.from = " FROM runs AS r " + byStatus + " LEFT JOIN run_state AS s ON s.run_id = r.run_id"
	}
	if filter.Active {
		rq.and(activeRuns)
		rq.merged = filter.Parent == ""
	}
	if filter.Status != "" {
		// The plus leaves a list by workflow to the index that is in its order.
		rq.and(plusIf(filter.Workflow != "" && !filter.Active)+"r.status = ?", string(filter.Status))
	}
	if filter.Workflow != "" {
		rq.and("r.workflow = ?", filter.Workflow)
	}
	if filter.Contract != "" {
		rq.and("r.contract = ?", filter.Contract)
	}
	if !filter.Since.IsZero() {
		rq.and("r.created_at >= ?", sidecar.FormatTime(filter.Since))
	}
	if !filter.Until.IsZero() {
		rq.and("r.created_at < ?", sidecar.FormatTime(filter.Until))
	}
	if filter.RootOnly {
		rq.and("s.parent IS NULL")
	}
	return rq
}

// activeRuns is the condition of a list of those that have not ended.
const activeRuns = "r.status IN ('submitted', 'running')"

// page is the statement that reads a page, and what it is given.
func (rq *runQuery) page(columns string, limit int) (text string, args []any) {
	text = "SELECT " + columns + rq.from + rq.where
	args = rq.args
	if rq.merged {
		of := func(status string) string { return strings.Replace(text, activeRuns, "r.status = '"+status+"'", 1) }
		text = of("submitted") + " UNION ALL " + of("running")
		args = slices.Concat(args, args)
	}
	return text + rq.order(), append(args, limit+1)
}

func plusIf(yes bool) string {
	if yes {
		return "+"
	}
	return ""
}

// byID tells that the list is walked along ids, which are ordered by time to
// within a moment: along the children of a run there is no index by creation.
func (rq *runQuery) byID() bool { return strings.HasPrefix(rq.from, " FROM run_state") }

// cut leaves out what stands before a cursor in the order of the list.
func (rq *runQuery) cut(q querier, cursor sidecar.Cursor) (err error) {
	if rq.byID() && !cursor.Zero() {
		rq.and("s.run_id < ?", cursor.ID)
		return nil
	}
	rq.where, rq.args, err = after(q, &runTable, "r", rq.where, rq.args, cursor)
	return err
}

// order is that of the list.
func (rq *runQuery) order() string {
	if rq.byID() {
		return " ORDER BY s.run_id DESC LIMIT ?"
	}
	return " ORDER BY r.created_at DESC, r.run_id DESC LIMIT ?"
}

// Runs lists runs of a scope, newest first: at most 1,000, or filter.Limit if
// that is less.
func (s *Store) Runs(ctx context.Context, filter sidecar.RunFilter) (sidecar.RunPage, error) {
	if filter.Parent == "" && !filter.After.Zero() && filter.After.CreatedAt.Before(filter.Until) {
		// Of two upper bounds SQLite begins at one of them: it has to be the
		// cursor.
		filter.Until = time.Time{}
	}
	rq, columns := queryOf(filter), runColumns
	if filter.Metrics {
		columns += metricColumns
	}
	var page sidecar.RunPage
	err := s.view(ctx, false, func(q querier) error {
		if err := rq.cut(q, filter.After); err != nil {
			return err
		}
		limit := pageSize(filter.Limit)
		text, args := rq.page(columns, limit)
		rows, err := q.query(text, args...)
		return each(rows, err, func(row scanner) error {
			if len(page.Runs) == limit {
				page.More = true
				return nil
			}
			return listed(&page, row, filter.Metrics)
		})
	})
	if err != nil {
		return sidecar.RunPage{}, fmt.Errorf("list runs: %w", err)
	}
	return page, nil
}

// listed adds a row to a page.
func listed(page *sidecar.RunPage, row scanner, metrics bool) error {
	var sums textCell
	if metrics {
		row = wider{row, []any{&sums}}
	}
	run, err := scanRun(row)
	if err != nil {
		return err
	}
	page.Runs = append(page.Runs, &run.Run)
	if !metrics {
		return nil
	}
	m := run.Metrics() // of a run without node runs: its time alone
	var n [4]int64
	if err := json.Unmarshal([]byte(sums), &n); err != nil {
		return fmt.Errorf("read the metrics of run %s: %w", run.ID, err)
	}
	m.Nodes, m.Cached, m.Files, m.Bytes = int(n[0]), int(n[1]), int(n[2]), n[3]
	page.Metrics = append(page.Metrics, m)
	return nil
}

// wider is a row with more columns than its reader knows of.
type wider struct {
	row  scanner
	more []any
}

// Scan implements scanner.
func (w wider) Scan(dest ...any) error { return w.row.Scan(append(dest, w.more...)...) }

// CountRuns counts the runs that a filter chooses, by status; its Limit and
// After do not matter.
func (s *Store) CountRuns(ctx context.Context, filter sidecar.RunFilter) (map[sidecar.Status]int, error) {
	rq := queryOf(filter)
	counts := map[sidecar.Status]int{}
	err := s.view(ctx, false, func(q querier) error {
		rows, err := q.query("SELECT r.status, count(*)"+rq.from+rq.where+" GROUP BY r.status", rq.args...)
		return each(rows, err, func(row scanner) error {
			var status textCell
			var n numberCell
			err := row.Scan(&status, &n)
			counts[sidecar.Status(status)] = int(n)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("count runs: %w", err)
	}
	return counts, nil
}
