package sqlite

import (
	"fmt"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// newestEvent is the number of the newest event that there was, kept or not: it
// is not given again.
const newestEvent = `
	SELECT max(
		coalesce((SELECT max(seq) FROM events), 0),
		coalesce((SELECT value FROM sidecar_meta WHERE key = 'trimmed_to'), 0),
		coalesce((SELECT value FROM sidecar_meta WHERE key = 'head'), 0))`

// noteHead writes it down, once a start: who removes the newest events by hand
// is found out, at least up to there.
const noteHead = "UPDATE sidecar_meta SET value = (" + newestEvent + ") WHERE key = 'head'"

// agree makes our tables agree with the reference's, where those changed
// without us, before anybody else writes.
func (w *writer) agree() error {
	var head sidecar.Seq
	if _, err := one(w.session, []any{&head}, newestEvent); err != nil {
		return opening(w.path, err)
	}
	w.tail = newTail(head)
	req := &request{change: agreeIn, done: make(chan struct{})}
	w.settle([]*request{req})
	if req.err != nil {
		return req.err
	}
	if err := w.floors.load(w.session); err != nil {
		return opening(w.path, err)
	}
	return nil
}

// foreignOpens is how often the reference opened the file, and how often that
// was looked at.
const foreignOpens = `
	SELECT
		(SELECT value FROM sidecar_meta WHERE key = 'foreign_opens'),
		(SELECT value FROM sidecar_meta WHERE key = 'foreign_seen')`

func agreeIn(tx *Tx) error {
	if _, err := tx.Exec(inheritFloors); err != nil {
		return err
	}
	var opens, seen int64
	_, err := one(tx, []any{&opens, &seen}, foreignOpens)
	if err != nil {
		return err
	}
	// What is finished cannot have been touched unless somebody opened the
	// file; the rest is few, and looked at each time.
	which := "s.phase <> 'finished'"
	if opens != seen {
		which = "TRUE"
	}
	if err := dropVanished(tx, which); err != nil {
		return fmt.Errorf("forget runs that are gone: %w", err)
	}
	if err := followChanged(tx, which); err != nil {
		return fmt.Errorf("follow runs that were changed: %w", err)
	}
	if err := adoptActive(tx); err != nil {
		return fmt.Errorf("adopt runs: %w", err)
	}
	if opens == seen {
		return nil
	}
	if _, err := tx.Exec(adoptEnded); err != nil {
		return fmt.Errorf("adopt runs that ended: %w", err)
	}
	if _, err = tx.Exec("UPDATE sidecar_meta SET value = ? WHERE key = 'foreign_seen'", opens); err != nil {
		return err
	}
	return tx.trimmed("", tx.seq)
}

func dropVanished(tx *Tx, which string) error {
	var gone []string
	rows, err := tx.query(`
		SELECT s.run_id
		FROM run_state AS s
		WHERE ` + which + ` AND NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.run_id = s.run_id)`)
	err = each(rows, err, func(row scanner) error {
		var id string
		err := row.Scan(&id)
		gone = append(gone, id)
		return err
	})
	if err != nil {
		return err
	}
	if len(gone) == 0 {
		return nil
	}
	if err := tx.dropOrphans(jsonList(gone)); err != nil {
		return err
	}
	var removed removal
	if err := tx.removeRuns(gone, &removed); err != nil {
		return err
	}
	if err := tx.finishRemoval(&removed); err != nil {
		return err
	}
	return tx.trimmed("", tx.seq)
}

// Statements about what is left of runs that are gone without their scope, by
// which others find it: they look at all there is, once.
const (
	doomOrphans = `
		INSERT INTO files (id, kind, name, path, state, created_at, expires_at)
		SELECT DISTINCT 'doomed/' || ` + refCell + `, 'doomed', '', ` + refCell + `, '', ?, ? FROM gallery_items AS i
		WHERE i.run_id IN ` + theseRuns + ` AND ` + refCell + ` <> ''
		ON CONFLICT DO NOTHING`
	dropOrphanItems = "DELETE FROM gallery_items WHERE run_id IN " + theseRuns
	dropOrphanSlots = "DELETE FROM output_slots WHERE run_id IN " + theseRuns
)

// dropOrphans removes items and slots of runs that are gone, and dooms the
// copies that they show.
func (tx *Tx) dropOrphans(list string) error {
	now := sidecar.FormatTime(time.Now())
	if _, err := tx.Exec(doomOrphans, now, now, list); err != nil {
		return fmt.Errorf("doom copies: %w", err)
	}
	for _, text := range []string{dropOrphanItems, dropOrphanSlots} {
		if _, err := tx.Exec(text, list); err != nil {
			return err
		}
	}
	return nil
}

// followChanged ends what the reference ended and takes up what it left
// running. The events up to here tell of another past: they go.
func followChanged(tx *Tx, which string) error {
	changed, err := storedRuns(tx, runSelect+`
		WHERE `+which+`
			AND (r.updated_at <> s.row_updated_at
				OR s.phase NOT IN ('cancelling', 'finished') AND r.status NOT IN ('submitted', 'running'))`)
	if err != nil {
		return err
	}
	for _, run := range changed {
		before := stateRow(&run.Run, run.updated)
		follow(&run.Run)
		run.updated = run.rowUpdated
		if err := tx.write(&stateTable, before, stateRow(&run.Run, run.updated)); err != nil {
			return err
		}
		if err := trimBefore(tx, run.ID); err != nil {
			return err
		}
	}
	return nil
}

func trimBefore(tx *Tx, id sidecar.RunID) error {
	_, err := tx.Exec("UPDATE run_state SET retained_from = ?, base_hash = head_hash WHERE run_id = ?", int64(tx.seq)+1, string(id))
	if err != nil {
		return err
	}
	if _, err := tx.Exec("DELETE FROM events WHERE run_id = ?", string(id)); err != nil {
		return err
	}
	return tx.trimmed("", tx.seq)
}

// leftActive finds runs that are active in the reference's columns alone, scope
// by scope along its index. It is asked at each start: a reference that was open
// already when we began has made them without another open.
var leftActive = `
	WITH RECURSIVE scopes(scope) AS (
		SELECT min(scope_key) FROM runs
		UNION ALL
		SELECT (SELECT min(scope_key) FROM runs WHERE scope_key > scopes.scope) FROM scopes WHERE scopes.scope IS NOT NULL
	)
	SELECT ` + runColumns + `
	FROM scopes CROSS JOIN runs AS r ` + byStatus + ` LEFT JOIN run_state AS s ON s.run_id = r.run_id
	WHERE r.scope_key = scopes.scope AND r.status IN ('submitted', 'running') AND (s.run_id IS NULL OR s.phase = 'finished')`

// adoptActive takes up what the reference left running.
func adoptActive(tx *Tx) error {
	left, err := storedRuns(tx, leftActive)
	if err != nil {
		return err
	}
	for _, run := range left {
		var before []any
		if run.hasState {
			before = stateRow(&run.Run, run.updated)
			follow(&run.Run)
		}
		if err := tx.write(&stateTable, before, stateRow(&run.Run, run.rowUpdated)); err != nil {
			return err
		}
	}
	return nil
}

// adoptEnded gives a state to what ended in the reference's hands, as derived
// has it, so that each run has a time at which it ended.
const adoptEnded = `
	INSERT INTO run_state (run_id, phase, outcome, accepted, attempt, prompt_id, finished_at, row_updated_at)
	SELECT r.run_id, 'finished',
		CASE r.status WHEN 'completed' THEN 'completed' WHEN 'error' THEN 'failed' WHEN 'cancelled' THEN 'cancelled' ELSE '' END,
		coalesce(r.prompt_id, '') <> '', coalesce(r.prompt_id, '') <> '', coalesce(r.prompt_id, ''),
		coalesce(strftime('%Y-%m-%dT%H:%M:%fZ', r.updated_at), ''), r.updated_at
	FROM runs AS r
	WHERE r.status NOT IN ('submitted', 'running') AND NOT EXISTS (SELECT 1 FROM run_state AS s WHERE s.run_id = r.run_id)`

// follow moves our state of a run to where its columns are.
func follow(r *sidecar.Run) {
	theirs := derived(r)
	if r.Phase == sidecar.PhaseHeld && theirs.Phase == sidecar.PhaseSubmitting {
		theirs.Phase = sidecar.PhaseHeld // what it waits for has not come
	}
	r.Revision++
	r.Phase, r.Outcome = theirs.Phase, theirs.Outcome
	r.Prompt, r.Accepted = theirs.Prompt, theirs.Accepted
	r.FinishedAt = theirs.FinishedAt
	r.Attempt = max(r.Attempt, theirs.Attempt)
	if r.Phase == sidecar.PhaseFinished {
		r.Deleted = nil
	}
}

// derived is the state of a run that only the reference's columns tell of.
func derived(r *sidecar.Run) sidecar.State {
	state := sidecar.State{Prompt: r.PromptID, Accepted: r.PromptID != ""}
	if state.Accepted {
		state.Attempt = 1
	}
	switch r.Status {
	case sidecar.StatusSubmitted, sidecar.StatusRunning:
		state.Phase = sidecar.PhaseSubmitting
		if state.Accepted {
			state.Phase = sidecar.PhaseQueued
		}
		return state
	case sidecar.StatusCompleted:
		state.Outcome = sidecar.OutcomeCompleted
	case sidecar.StatusError:
		state.Outcome = sidecar.OutcomeFailed
	case sidecar.StatusCancelled:
		state.Outcome = sidecar.OutcomeCancelled
	}
	state.Phase, state.FinishedAt = sidecar.PhaseFinished, r.UpdatedAt
	return state
}
