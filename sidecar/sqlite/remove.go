package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// kindDoomed marks the rows of files that are copies which nothing names any
// more: they go with the transaction that made them so, the files after it.
const kindDoomed = "doomed"

// Statements that remove what belongs to the runs of a JSON array of ids. The
// cross joins fix the order: from the few runs to their rows.
const (
	theseRuns     = "(SELECT value FROM json_each(?))"
	itemsOfThese  = "json_each(?) AS j CROSS JOIN runs AS r ON r.run_id = j.value CROSS JOIN gallery_items AS i ON i.scope_key = r.scope_key AND i.run_id = r.run_id"
	slotsOfThese  = "json_each(?) AS j CROSS JOIN runs AS r ON r.run_id = j.value CROSS JOIN output_slots AS o ON o.scope_key = r.scope_key AND o.run_id = r.run_id"
	eventsOfThese = "json_each(?) AS j CROSS JOIN events AS e ON e.run_id = j.value"

	refCell = "CASE WHEN json_valid(i.artifact_json) THEN json_extract(i.artifact_json, '$.serve_artifact') END"

	// copiesOfThese are those that items show, and those that only results
	// name: of an item that was deleted before its run ended. What another
	// sidecar told may stand in a result; of a run's own its prompt is the folder.
	copiesOfThese = `
		SELECT r.run_id, ` + refCell + ` AS ref FROM ` + itemsOfThese + ` WHERE ref <> ''
		UNION
		SELECT r.run_id, CASE a.type WHEN 'object' THEN json_extract(a.value, '$.serve_artifact') END AS ref
		FROM json_each(?) AS j CROSS JOIN runs AS r ON r.run_id = j.value
			CROSS JOIN json_each(CASE WHEN json_valid(r.raw_result_json) THEN r.raw_result_json ELSE '{}' END, '$.outputs') AS o
			CROSS JOIN json_each(CASE o.type WHEN 'object' THEN o.value ELSE '{}' END, '$.artifacts') AS a
		WHERE substr(ref, 1, length(r.prompt_id) + 1) = r.prompt_id || '/'`

	doomCopies = `
		INSERT INTO files (id, kind, name, path, state, created_at, expires_at)
		SELECT DISTINCT 'doomed/' || ref, 'doomed', '', ref, '', ?, ? FROM (` + copiesOfThese + `)
		WHERE TRUE
		ON CONFLICT DO NOTHING`
	// doomShown dooms the copy that an item shows, unless another one does too.
	doomShown = `
		INSERT INTO files (id, kind, name, path, state, created_at, expires_at)
		SELECT 'doomed/' || ref, 'doomed', '', ref, '', ?, ? FROM (
			SELECT i.item_id, i.scope_key, i.run_id, ` + refCell + ` AS ref FROM gallery_items AS i WHERE i.item_id = ?) AS shown
		WHERE ref <> '' AND NOT EXISTS (
			SELECT 1 FROM gallery_items AS i
			WHERE i.scope_key = shown.scope_key AND i.run_id = shown.run_id AND i.item_id <> shown.item_id AND ` + refCell + ` = shown.ref)
		ON CONFLICT DO NOTHING`
	newestOfThese = "SELECT e.scope, max(e.seq) FROM " + eventsOfThese + " GROUP BY e.scope"
	digestsNamed  = "SELECT graph, contract FROM run_state WHERE run_id IN " + theseRuns

	dropItems     = "DELETE FROM gallery_items WHERE item_id IN (SELECT i.item_id FROM " + itemsOfThese + ")"
	dropSlots     = "DELETE FROM output_slots WHERE slot_id IN (SELECT o.slot_id FROM " + slotsOfThese + ")"
	dropNodes     = "DELETE FROM node_runs WHERE run_id IN " + theseRuns
	dropEvents    = "DELETE FROM events WHERE seq IN (SELECT e.seq FROM " + eventsOfThese + ")"
	dropCallbacks = "DELETE FROM cursors WHERE consumer IN (SELECT '" + callbackConsumer + "' || value FROM json_each(?))"
	dropStates    = "DELETE FROM run_state WHERE run_id IN " + theseRuns
	dropRuns      = "DELETE FROM runs WHERE run_id IN " + theseRuns

	// unnamed are the blobs of a JSON array of digests that no run names.
	unnamed = `
		FROM json_each(?) AS j CROSS JOIN blobs AS b ON b.sha256 = j.value
		WHERE NOT EXISTS (SELECT 1 FROM run_state AS s WHERE substr(s.graph, 1, 16) = substr(b.sha256, 1, 16) AND s.graph = b.sha256)
			AND NOT EXISTS (SELECT 1 FROM run_state AS s WHERE substr(s.contract, 1, 16) = substr(b.sha256, 1, 16) AND s.contract = b.sha256)`
	dropBlobs = "DELETE FROM blobs WHERE sha256 IN (SELECT b.sha256 " + unnamed + ")"
)

// removal counts what removeRuns removed, and remembers what may have become
// nameless.
type removal struct {
	sidecar.Pruned
	newest map[sidecar.Scope]sidecar.Seq // of the events that are gone
	named  map[string]bool
}

// removeRuns removes runs with all that belongs to them but their blobs.
func (tx *Tx) removeRuns(ids []string, gone *removal) error {
	list := jsonList(ids)
	if err := tx.noteNamed(list, gone); err != nil {
		return err
	}
	now := sidecar.FormatTime(time.Now())
	copies, err := tx.count(doomCopies, now, now, list, list)
	if err != nil {
		return fmt.Errorf("doom copies: %w", err)
	}
	gone.Copies += copies
	for _, id := range ids {
		tx.forget(sidecar.RunID(id))
	}
	for _, step := range []struct {
		text  string
		count *int
	}{
		{dropItems, &gone.Items}, {dropSlots, nil}, {dropNodes, nil}, {dropEvents, &gone.Events},
		{dropCallbacks, nil}, {dropStates, nil}, {dropRuns, &gone.Runs},
	} {
		n, err := tx.count(step.text, list)
		if err != nil {
			return err
		}
		if step.count != nil {
			*step.count += n
		}
	}
	return nil
}

// noteNamed remembers the blobs that runs name, and their newest events.
func (tx *Tx) noteNamed(list string, gone *removal) error {
	if gone.newest == nil {
		gone.newest = map[sidecar.Scope]sidecar.Seq{}
	}
	rows, err := tx.query(newestOfThese, list)
	err = each(rows, err, func(row scanner) error {
		var scope textCell
		var newest sidecar.Seq
		err := row.Scan(&scope, &newest)
		gone.newest[sidecar.Scope(scope)] = max(gone.newest[sidecar.Scope(scope)], newest)
		return err
	})
	if err != nil {
		return err
	}
	if gone.named == nil {
		gone.named = map[string]bool{}
	}
	rows, err = tx.query(digestsNamed, list)
	return each(rows, err, noteDigests(gone.named))
}

// noteDigests collects the blobs that runs name.
func noteDigests(into map[string]bool) func(scanner) error {
	return func(row scanner) error {
		var graph, contract textCell
		err := row.Scan(&graph, &contract)
		for _, digest := range []textCell{graph, contract} {
			if digest != "" {
				into[string(digest)] = true
			}
		}
		return err
	}
}

// afterwards tends to what a saved run has left behind: its size as it was, and
// the graph that it named before.
func (tx *Tx) afterwards(before *storedRun, after *sidecar.Run) error {
	if before == nil {
		return nil
	}
	if before.Phase == sidecar.PhaseFinished {
		if _, err := tx.Exec("UPDATE run_state SET bytes = NULL WHERE run_id = ?", string(after.ID)); err != nil {
			return err
		}
	}
	if before.Graph == after.Graph || before.Graph == "" {
		return nil
	}
	_, err := tx.Exec(dropBlobs, jsonList([]string{string(before.Graph)}))
	return err
}

// finishRemoval removes the blobs that nothing names any more, and remembers
// how far the log has holes.
func (tx *Tx) finishRemoval(gone *removal) error {
	digests := make([]string, 0, len(gone.named))
	for digest := range gone.named {
		digests = append(digests, digest)
	}
	blobs, err := tx.count(dropBlobs, jsonList(digests))
	if err != nil {
		return fmt.Errorf("remove blobs: %w", err)
	}
	gone.Blobs += blobs
	for scope, newest := range gone.newest {
		if err := tx.trimmed(scope, newest); err != nil {
			return err
		}
	}
	return nil
}

// count runs a statement that writes and returns how many rows it changed.
func (tx *Tx) count(text string, args ...any) (int, error) {
	result, err := tx.Exec(text, args...)
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}

func jsonList(texts []string) string {
	if len(texts) == 0 {
		return "[]"
	}
	list, err := json.Marshal(texts)
	if err != nil {
		return "[]" // a list of texts cannot fail
	}
	return string(list)
}

// DeleteRun removes a finished run of a scope with all that belongs to it,
// tells of it in an event that belongs to no run, and returns it. Another
// scope's is [sidecar.ErrNotFound]; one that has not ended is returned as it is,
// with [sidecar.ErrUnfinished].
func (s *Store) DeleteRun(ctx context.Context, scope sidecar.Scope, id sidecar.RunID) (*sidecar.Run, error) {
	var run *storedRun
	err := s.effect(freeing(ctx), func(tx *Tx, order *sidecar.Order) (_ sidecar.RunID, err error) {
		if run, err = loadRun(tx, id); err != nil {
			return id, err
		}
		if run.Scope != scope {
			return id, sidecar.ErrNotFound
		}
		if err := order.Check(&run.Run); err != nil {
			return id, err
		}
		if run.Phase != sidecar.PhaseFinished {
			return id, sidecar.ErrUnfinished
		}
		return id, tx.deleteRun(&run.Run)
	})
	if errors.Is(err, sidecar.ErrUnfinished) {
		return &run.Run, err
	}
	if err != nil {
		return nil, fmt.Errorf("delete run %s: %w", id, err)
	}
	return &run.Run, nil
}

func (tx *Tx) deleteRun(run *sidecar.Run) error {
	var gone removal
	if err := tx.removeRuns([]string{string(run.ID)}, &gone); err != nil {
		return err
	}
	if err := tx.finishRemoval(&gone); err != nil {
		return err
	}
	target, err := json.Marshal(map[string]any{"runs/" + string(run.ID): nil})
	if err != nil {
		return err
	}
	return tx.Append(sidecar.Event{Scope: run.Scope, Type: sidecar.EventRunDeleted, At: time.Now(), Targets: target})
}

// Doomed lists copies that nothing names any more, in their order after a
// given one, at most limit of them.
func (s *Store) Doomed(ctx context.Context, after string, limit int) ([]string, error) {
	var refs []string
	err := s.view(ctx, false, func(q querier) error {
		refs = nil
		rows, err := q.query("SELECT path FROM files WHERE id > ? AND id < 'doomed0' AND +kind = ? ORDER BY id LIMIT ?", "doomed/"+after, kindDoomed, limit)
		return each(rows, err, func(row scanner) error {
			var ref textCell
			err := row.Scan(&ref)
			refs = append(refs, string(ref))
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list copies to remove: %w", err)
	}
	return refs, nil
}

// Spare forgets that copies are doomed: they are gone.
func (s *Store) Spare(ctx context.Context, refs []string) error {
	ids := make([]string, 0, len(refs))
	for _, ref := range refs {
		ids = append(ids, "doomed/"+ref)
	}
	list := jsonList(ids)
	err := s.Do(freeing(ctx), func(tx *Tx) error {
		_, err := tx.Exec("DELETE FROM files WHERE id IN "+theseRuns, list)
		return err
	})
	if err != nil {
		return fmt.Errorf("forget removed copies: %w", err)
	}
	return nil
}
