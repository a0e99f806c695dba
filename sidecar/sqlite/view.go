package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// maxChildren bounds those that a view names.
const maxChildren = 256

// View reads a run and what belongs to it as they were at one moment. An
// unknown one is [sidecar.ErrNotFound].
func (s *Store) View(ctx context.Context, id sidecar.RunID, parts sidecar.ViewParts) (*sidecar.RunView, error) {
	v := &sidecar.RunView{}
	err := s.view(ctx, true, func(q querier) error {
		run, err := loadRun(q, id)
		if err != nil {
			return err
		}
		v.Run = &run.Run
		for _, read := range []func(querier, *sidecar.RunView) error{readFamily, readSteps} {
			if err := read(q, v); err != nil {
				return err
			}
		}
		return readDocuments(q, v, parts)
	})
	if err != nil {
		return nil, fmt.Errorf("view run %s: %w", id, s.blobRefusal(err))
	}
	if parts.Targets {
		v.Targets = v.Run.Targets()
	}
	latestAttempt(v.Run)
	return v, nil
}

// latestAttempt leaves the node runs of earlier attempts out.
func latestAttempt(run *sidecar.Run) {
	kept := run.Nodes[:0]
	for _, n := range run.Nodes {
		if n.Attempt == run.Attempt {
			kept = append(kept, n)
		}
	}
	run.Nodes = kept
}

const childrenOf = "SELECT run_id FROM run_state WHERE parent = ? ORDER BY run_id LIMIT ?"

// readFamily reads where the run came from, and what came from it.
func readFamily(q querier, v *sidecar.RunView) error {
	id := string(v.Run.ID)
	var parent textCell
	_, err := one(q, []any{&parent, &v.RetainedFrom}, "SELECT parent, retained_from FROM run_state WHERE run_id = ?", id)
	if err != nil {
		return err
	}
	v.Parent = sidecar.RunID(parent)
	rows, err := q.query(childrenOf, id, maxChildren+1)
	err = each(rows, err, func(row scanner) error {
		if v.MoreChildren = len(v.Children) == maxChildren; v.MoreChildren {
			return nil
		}
		var child textCell
		err := row.Scan(&child)
		v.Children = append(v.Children, sidecar.RunID(child))
		return err
	})
	return err
}

const stepsOf = `
	SELECT seq, revision, type, at,
		json_extract(targets, '$.run.phase'), json_extract(targets, '$.run.status')
	FROM events
	WHERE run_id = ?
	ORDER BY seq`

// readSteps follows the run through the events that are kept.
func readSteps(q querier, v *sidecar.RunView) error {
	v.Last = max(v.RetainedFrom-1, 0)
	rows, err := q.query(stepsOf, string(v.Run.ID))
	return each(rows, err, func(row scanner) error {
		var step sidecar.Step
		var kind, at, phase, status textCell
		if err := row.Scan(&step.Seq, &step.Revision, &kind, &at, &phase, &status); err != nil {
			return err
		}
		v.Last = step.Seq
		step.Type, step.At = sidecar.EventType(kind), timeOf(at)
		step.To, step.Status = sidecar.Phase(phase), sidecar.Status(status)
		if n := len(v.Steps); n > 0 {
			step.From = v.Steps[n-1].To
			if step.To == step.From && step.Status == v.Steps[n-1].Status {
				return nil
			}
		}
		if step.To != "" {
			v.Steps = append(v.Steps, step)
		}
		return nil
	})
}

// readDocuments reads what was launched; what is gone stays nil.
func readDocuments(q querier, v *sidecar.RunView, parts sidecar.ViewParts) error {
	for _, doc := range []struct {
		wanted bool
		digest sidecar.Digest
		into   *[]byte
	}{
		{parts.Contract, v.Run.ContractRef, (*[]byte)(&v.Contract)},
		{parts.Graph, v.Run.Graph, (*[]byte)(&v.Graph)},
	} {
		if !doc.wanted || doc.digest == "" {
			continue
		}
		data, err := readBlob(q, doc.digest)
		if errors.Is(err, sidecar.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		*doc.into = data
	}
	return nil
}
