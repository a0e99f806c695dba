package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// maxPage is how many rows a list without a limit gives.
const maxPage = 1000

// runColumns are those of a run and of what we keep of it.
var runColumns = runTable.list("r") + ", " + stateTable.list("s")

// runSelect reads runs with what we keep of them, if we do.
var runSelect = "SELECT " + runColumns + `
	FROM runs AS r LEFT JOIN run_state AS s ON s.run_id = r.run_id`

// storedRun is a run as its rows have it.
type storedRun struct {
	sidecar.Run
	hasState bool
	// rowUpdated is the text of runs.updated_at, updated what run_state
	// remembers of it.
	rowUpdated, updated string
}

func scanRun(row scanner) (*storedRun, error) {
	var c [12]textCell
	var s struct {
		id, phase, outcome, code, prompt, due, contract, graph, environment, manifest textCell
		digest, issues, deleted, started, finished, updated, uploads                  textCell
		title                                                                         textCell
		reason, parent, after, hold                                                   textCell
		revision, attempt, accepted, pinned, position                                 numberCell
		head                                                                          []byte
	}
	err := row.Scan(&c[0], &c[1], &c[2], &c[3], &c[4], &c[5], &c[6], &c[7], &c[8], &c[9], &c[10], &c[11],
		&s.id, &s.revision, &s.head, &s.phase, &s.outcome, &s.code, &s.attempt, &s.accepted,
		&s.prompt, &s.due, &s.contract, &s.graph, &s.environment, &s.manifest,
		&s.digest, &s.issues, &s.deleted, &s.started, &s.finished, &s.updated, &s.uploads,
		&s.title, &s.pinned, &s.reason, &s.position, &s.parent, &s.after, &s.hold)
	if err != nil {
		return nil, err
	}
	run := &storedRun{hasState: s.id != "", rowUpdated: string(c[11]), updated: string(s.updated)}
	run.Run = sidecar.Run{
		ID: sidecar.RunID(c[0]), Session: sidecar.SessionID(c[1]), Scope: sidecar.Scope(c[2]),
		Workflow: string(c[3]), Contract: string(c[4]), Status: sidecar.Status(c[5]),
		PromptID: sidecar.PromptID(c[6]), Inputs: objectOf(c[7]), Result: documentOf(c[8]), Error: string(c[9]),
		CreatedAt: timeOf(c[10]), UpdatedAt: timeOf(c[11]),
	}
	if !run.hasState {
		run.State = derived(&run.Run)
		return run, nil
	}
	run.State = sidecar.State{
		Revision: int64(s.revision), Phase: sidecar.Phase(s.phase), Outcome: sidecar.Outcome(s.outcome),
		Code: string(s.code), Prompt: sidecar.PromptID(s.prompt), Attempt: int(s.attempt), Accepted: s.accepted != 0,
		Graph: sidecar.Digest(s.graph), ContractRef: sidecar.Digest(s.contract),
		EnvironmentRef: documentOf(s.environment), ManifestRevision: string(s.manifest), PromptDigest: string(s.digest),
		Issues: documentOf(s.issues), DueAt: timeOf(s.due), StartedAt: timeOf(s.started), FinishedAt: timeOf(s.finished),
		Title: string(s.title), Pinned: s.pinned != 0, HeadHash: s.head,
		Position: int64(s.position), Parent: sidecar.RunID(s.parent),
	}
	if run.Hold, err = holdOf(s.hold, s.after); err != nil {
		return nil, fmt.Errorf("read what run %s waits for: %w", run.ID, err)
	}
	if s.deleted != "" {
		if err := json.Unmarshal([]byte(s.deleted), &run.Deleted); err != nil {
			return nil, fmt.Errorf("read the deleted items of run %s: %w", run.ID, err)
		}
	}
	if run.Uploads, err = uploadsOf(s.uploads); err != nil {
		return nil, err
	}
	return run, nil
}

func runRow(r *sidecar.Run) []any {
	return []any{
		string(r.ID), string(r.Session), string(r.Scope), r.Workflow, r.Contract, string(r.Status),
		nullable(r.PromptID), object(r.Inputs), document(r.Result), nullable(r.Error),
		sidecar.FormatTime(r.CreatedAt), sidecar.FormatTime(r.UpdatedAt),
	}
}

func stateRow(r *sidecar.Run, updated string) []any {
	var deleted any
	if len(r.Deleted) > 0 {
		text, err := json.Marshal(r.Deleted)
		if err == nil { // a list of texts cannot fail
			deleted = string(text)
		}
	}
	after, hold, _ := holdCells(r.Hold) // save refuses one that cannot be encoded
	return []any{
		string(r.ID), r.Revision, blob(r.HeadHash), string(r.Phase), string(r.Outcome), r.Code,
		int64(r.Attempt), flag(r.Accepted), string(r.Prompt), sidecar.FormatTime(r.DueAt),
		string(r.ContractRef), string(r.Graph), document(r.EnvironmentRef), r.ManifestRevision,
		r.PromptDigest, document(r.Issues), deleted,
		sidecar.FormatTime(r.StartedAt), sidecar.FormatTime(r.FinishedAt), updated, uploadsCell(r.Uploads),
		nullable(r.Title), flag(r.Pinned),
		string(r.WaitReason()), position(r.Position), nullable(r.Parent), after, hold,
	}
}

func nodeRow(id sidecar.RunID, ordinal int, n *sidecar.NodeRun) []any {
	return []any{
		string(id), int64(ordinal), string(n.Node), int64(n.Attempt), n.Class, n.Title, string(n.Parent),
		flag(n.Cached), sidecar.FormatTime(n.StartedAt), sidecar.FormatTime(n.FinishedAt), n.Error,
		int64(n.Files), n.Bytes,
	}
}

func storedRuns(q querier, text string, args ...any) ([]*storedRun, error) {
	var runs []*storedRun
	rows, err := q.query(text, args...)
	err = each(rows, err, func(row scanner) error {
		run, err := scanRun(row)
		runs = append(runs, run)
		return err
	})
	return runs, err
}

// loadRun reads a run with all that belongs to it.
func loadRun(q querier, id sidecar.RunID) (*storedRun, error) {
	runs, err := storedRuns(q, runSelect+" WHERE r.run_id = ?", string(id))
	if err != nil {
		return nil, fmt.Errorf("read run %s: %w", id, err)
	}
	if len(runs) == 0 {
		return nil, fmt.Errorf("run %s: %w", id, sidecar.ErrNotFound)
	}
	run := runs[0]
	if run.Slots, err = slotsOf(q, &run.Run); err != nil {
		return nil, fmt.Errorf("read the slots of run %s: %w", id, err)
	}
	if run.Items, err = itemsOf(q, &run.Run); err != nil {
		return nil, fmt.Errorf("read the items of run %s: %w", id, err)
	}
	if run.Nodes, err = nodesOf(q, id); err != nil {
		return nil, fmt.Errorf("read the nodes of run %s: %w", id, err)
	}
	return run, nil
}

var nodeSelect = "SELECT " + nodeTable.list("n") + " FROM node_runs AS n WHERE n.run_id = ? ORDER BY n.ordinal"

func nodesOf(q querier, id sidecar.RunID) ([]sidecar.NodeRun, error) {
	rows, err := q.query(nodeSelect, string(id))
	return scanNodes(rows, err)
}

func scanNodes(rows *sql.Rows, err error) ([]sidecar.NodeRun, error) {
	var nodes []sidecar.NodeRun
	err = each(rows, err, func(row scanner) error {
		var n sidecar.NodeRun
		var run, started, finished textCell
		var ordinal, cached, files, bytes numberCell
		err := row.Scan(&run, &ordinal, &n.Node, &n.Attempt, &n.Class, &n.Title, &n.Parent, &cached, &started, &finished, &n.Error, &files, &bytes)
		n.Files, n.Bytes = int(files), int64(bytes)
		n.Cached, n.StartedAt, n.FinishedAt = cached != 0, timeOf(started), timeOf(finished)
		nodes = append(nodes, n)
		return err
	})
	return nodes, err
}

// Run reads a run with its slots in order, its items newest first, and its
// node runs in the order in which they were heard of. An unknown one is
// [sidecar.ErrNotFound].
func (s *Store) Run(ctx context.Context, id sidecar.RunID) (*sidecar.Run, error) {
	if s.closed() {
		return nil, ErrClosed
	}
	if known := s.working.run(id); known != nil {
		return clone(&known.Run), nil
	}
	var run *storedRun
	err := s.view(ctx, true, func(q querier) (err error) {
		run, err = loadRun(q, id)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &run.Run, nil
}

func pageSize(limit int) int {
	if limit <= 0 || limit > maxPage {
		return maxPage
	}
	return limit
}

// after cuts a list behind a cursor. Times that others wrote in their own way
// have no equal text in a cursor; the row that it names knows its own.
func after(q querier, t *table, alias, where string, args []any, cursor sidecar.Cursor) (string, []any, error) {
	if cursor.Zero() {
		return where, args, nil
	}
	id := t.columns[0]
	text := sidecar.FormatTime(cursor.CreatedAt)
	var stored textCell
	found, err := one(q, []any{&stored}, "SELECT created_at FROM "+t.name+" WHERE "+id+" = ?", cursor.ID)
	if err != nil {
		return "", nil, err
	}
	if found && sidecar.FormatTime(timeOf(stored)) == text {
		text = string(stored)
	}
	where += " AND (" + alias + ".created_at, " + alias + "." + id + ") < (?, ?)"
	return where, append(args, text, cursor.ID), nil
}

// Unfinished lists the runs whose phase is not finished, oldest first, without
// slots, items and node runs.
func (s *Store) Unfinished(ctx context.Context) ([]*sidecar.Run, error) {
	var runs []*sidecar.Run
	err := s.view(ctx, false, func(q querier) error {
		stored, err := storedRuns(q, unfinishedSelect)
		for _, run := range stored {
			runs = append(runs, &run.Run)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list unfinished runs: %w", err)
	}
	return runs, nil
}

// The cross join fixes the order: from the few unfinished to their runs.
var unfinishedSelect = "SELECT " + runTable.list("r") + ", " + stateTable.list("s") + `
	FROM run_state AS s CROSS JOIN runs AS r
	WHERE s.phase <> 'finished' AND r.run_id = s.run_id
	ORDER BY r.created_at, r.run_id`

// Blob reads the data that a digest names.
func (s *Store) Blob(ctx context.Context, digest sidecar.Digest) ([]byte, error) {
	var data []byte
	err := s.view(ctx, false, func(q querier) (err error) {
		data, err = readBlob(q, digest)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read blob %s: %w", digest, s.blobRefusal(err))
	}
	return data, nil
}

// errBlob marks data that is not what its digest says.
var errBlob = errors.New("the data of a blob no longer fits its digest")

func (s *Store) blobRefusal(err error) error {
	if errors.Is(err, errBlob) {
		return refusal(s.path, errBlob.Error(), "Run it again, or put a backup in its place.", sidecar.ErrLasting)
	}
	return err
}

func readBlob(q querier, digest sidecar.Digest) ([]byte, error) {
	var data []byte
	found, err := one(q, []any{&data}, "SELECT data FROM blobs WHERE sha256 = ?", string(digest))
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, sidecar.ErrNotFound
	case sidecar.DigestOf(data) != digest:
		return nil, errBlob
	}
	return data, nil
}
