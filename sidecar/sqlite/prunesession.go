package sqlite

import (
	"context"
)

const (
	// sessionPage are sessions in the order of their index.
	sessionPage = "SELECT session_id FROM sessions WHERE session_id > ? ORDER BY session_id LIMIT ?"
	// dropSessions removes those of a JSON array that were not seen since, and
	// whose scope has no runs. Whoever comes back is written again.
	dropSessions = `
		DELETE FROM sessions WHERE session_id IN ` + theseRuns + ` AND updated_at < ?
			AND NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.scope_key = sessions.scope_key)`
)

// pruneSessions removes sessions that were not seen since a time and have no
// runs: each visitor leaves one.
func (s *Store) pruneSessions(ctx context.Context, before string) error {
	for last := ""; ; {
		var page []string
		err := s.walk(ctx, false, func(q querier) error {
			page = nil
			rows, err := q.query(sessionPage, last, maxPruned)
			return each(rows, err, func(row scanner) error {
				var id textCell
				err := row.Scan(&id)
				page = append(page, string(id))
				return err
			})
		})
		if err != nil || len(page) == 0 {
			return err
		}
		err = s.Do(ctx, func(tx *Tx) error {
			_, err := tx.Exec(dropSessions, jsonList(page), before)
			return err
		})
		if err != nil {
			return err
		}
		last = page[len(page)-1]
	}
}
