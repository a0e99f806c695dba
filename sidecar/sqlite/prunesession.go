package sqlite

import (
	"context"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

const (
	// sessionPage are sessions in the order of their index.
	sessionPage = "SELECT session_id FROM sessions WHERE session_id > ? ORDER BY session_id LIMIT ?"
	// sharingRuns are the sessions that have runs in the scope of all.
	sharingRuns = "SELECT DISTINCT session_id FROM runs WHERE scope_key = '" + string(sidecar.SharedScope) + "'"
	// dropSessions removes those of a JSON array that were not seen since, and
	// whose scope has no runs: in the scope of all, that have none there since
	// sharingRuns was read. Whoever comes back is written again.
	dropSessions = `
		DELETE FROM sessions WHERE session_id IN ` + theseRuns + ` AND updated_at < ?
			AND NOT EXISTS (
				SELECT 1 FROM runs AS r WHERE r.scope_key = sessions.scope_key
					AND r.scope_key <> '` + string(sidecar.SharedScope) + `')
			AND NOT EXISTS (
				SELECT 1 FROM runs AS r WHERE r.scope_key = sessions.scope_key
					AND r.created_at >= ? AND r.session_id = sessions.session_id)`
	// bornLately is how long ago a run may have been made that is stored now.
	bornLately = 10 * time.Minute
)

// pruneSessions removes sessions that were not seen since a time and have no
// runs: each visitor leaves one.
func (s *Store) pruneSessions(ctx context.Context, before string) error {
	since := sidecar.FormatTime(time.Now().Add(-bornLately))
	sharing := map[string]bool{}
	err := s.walk(ctx, false, func(q querier) error {
		rows, err := q.query(sharingRuns)
		return each(rows, err, func(row scanner) error {
			var id textCell
			err := row.Scan(&id)
			sharing[string(id)] = true
			return err
		})
	})
	for last := ""; err == nil; {
		var page, gone []string
		err = s.walk(ctx, false, func(q querier) error {
			page, gone = nil, nil
			rows, err := q.query(sessionPage, last, maxPruned)
			return each(rows, err, func(row scanner) error {
				var id textCell
				err := row.Scan(&id)
				page = append(page, string(id))
				if !sharing[string(id)] {
					gone = append(gone, string(id))
				}
				return err
			})
		})
		if err != nil || len(page) == 0 {
			return err
		}
		last = page[len(page)-1]
		if len(gone) == 0 {
			continue
		}
		err = s.Do(ctx, func(tx *Tx) error {
			_, err := tx.Exec(dropSessions, jsonList(gone), before, since)
			return err
		})
	}
	return err
}
