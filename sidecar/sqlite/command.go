package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// maxSwept bounds what one transaction removes.
const maxSwept = 500

// commandTable leaves out seq, which SQLite gives.
var commandTable = newTable("commands", 2,
	"owner", "key", "hash", "session_id", "kind", "run_id", "at", "status", "header", "answer",
)

func commandRow(c *sidecar.Command) ([]any, error) {
	row := []any{
		string(c.Owner), c.Key, blob(c.Hash), string(c.Session), c.Kind, string(c.Run), sidecar.FormatTime(c.At),
		int64(0), nil, nil,
	}
	if c.Answer == nil {
		return row, nil
	}
	header, err := json.Marshal(c.Answer.Header)
	if err != nil {
		return nil, fmt.Errorf("encode the headers of an answer: %w", err)
	}
	row[7], row[8], row[9] = int64(c.Answer.Status), string(header), blob(c.Answer.Body)
	return row, nil
}

func scanCommand(row scanner) (*sidecar.Command, error) {
	var c sidecar.Command
	var a sidecar.Answer
	var at, header textCell
	err := row.Scan(&c.Seq, &c.Owner, &c.Key, &c.Hash, &c.Session, &c.Kind, &c.Run, &at, &a.Status, &header, &a.Body)
	if err != nil {
		return nil, err
	}
	c.At = timeOf(at)
	if a.Status == 0 {
		return &c, nil
	}
	if header != "" {
		if err := json.Unmarshal([]byte(header), &a.Header); err != nil {
			return nil, fmt.Errorf("read the headers of an answer: %w", err)
		}
	}
	c.Answer = &a
	return &c, nil
}

func commands(q querier, text string, args ...any) ([]*sidecar.Command, error) {
	var found []*sidecar.Command
	rows, err := q.query(text, args...)
	err = each(rows, err, func(row scanner) error {
		c, err := scanCommand(row)
		found = append(found, c)
		return err
	})
	return found, err
}

var commandSelect = "SELECT c.seq, " + commandTable.list("c") + " FROM commands AS c WHERE c.owner = ? AND c.key = ?"

func loadCommand(q querier, owner sidecar.SessionID, key string) (*sidecar.Command, error) {
	found, err := commands(q, commandSelect, string(owner), key)
	if err != nil {
		return nil, fmt.Errorf("read a command: %w", err)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("command: %w", sidecar.ErrNotFound)
	}
	return found[0], nil
}

// effect is Do for a change that people see. The command of the caller's
// order, if it has one, is committed with the change, naming the run that
// change returns: where the command is stored already, nothing is changed. A
// change that wrote nothing carries out nothing, and one of no run is refused
// when revisions are expected.
func (s *Store) effect(ctx context.Context, change func(*Tx, *sidecar.Order) (sidecar.RunID, error)) error {
	order := sidecar.OrderOf(ctx)
	wrote := false
	err := s.Do(ctx, func(tx *Tx) error {
		run, err := change(tx, order)
		if wrote = tx.dirty; err != nil || !wrote || order == nil {
			return err
		}
		if err := order.Checked(); err != nil || order.Command == nil {
			return err
		}
		return tx.addCommand(order.Command, run)
	})
	if err == nil && wrote && order != nil {
		order.Settle()
	}
	return err
}

func (tx *Tx) addCommand(c *sidecar.Command, run sidecar.RunID) error {
	_, err := loadCommand(tx, c.Owner, c.Key)
	if err == nil {
		return sidecar.ErrCommandTaken
	}
	if !errors.Is(err, sidecar.ErrNotFound) {
		return err
	}
	own := *c
	own.Run = run
	row, err := commandRow(&own)
	if err != nil {
		return err
	}
	return tx.write(&commandTable, nil, row)
}

// Command reads a command by its key; an unknown one is [sidecar.ErrNotFound].
func (s *Store) Command(ctx context.Context, owner sidecar.SessionID, key string) (*sidecar.Command, error) {
	var c *sidecar.Command
	err := s.view(ctx, false, func(q querier) (err error) {
		c, err = loadCommand(q, owner, key)
		return err
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// AnswerCommand keeps the answer of a command, unless it has one, and adds the
// command when it is not there. It returns the command as stored.
func (s *Store) AnswerCommand(ctx context.Context, c *sidecar.Command) (*sidecar.Command, error) {
	var stored *sidecar.Command
	err := s.Do(ctx, func(tx *Tx) (err error) {
		stored, err = loadCommand(tx, c.Owner, c.Key)
		switch {
		case errors.Is(err, sidecar.ErrNotFound):
			err = tx.addCommand(c, c.Run)
		case err != nil || stored.Answer != nil:
			return err
		default:
			err = tx.answer(stored, c.Answer)
		}
		if err == nil {
			stored, err = loadCommand(tx, c.Owner, c.Key)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("keep the answer of a command: %w", err)
	}
	return stored, nil
}

func (tx *Tx) answer(stored *sidecar.Command, answer *sidecar.Answer) error {
	before, err := commandRow(stored)
	if err != nil {
		return err
	}
	answered := *stored
	answered.Answer = answer
	after, err := commandRow(&answered)
	if err != nil {
		return err
	}
	return tx.write(&commandTable, before, after)
}

// Commands lists commands after a number, oldest first: at most 1,000, or
// filter.Limit if that is less. Of their answers they have the status alone.
func (s *Store) Commands(ctx context.Context, filter sidecar.CommandFilter) (sidecar.CommandPage, error) {
	where, args := "c.seq > ?", []any{filter.After}
	if filter.Session != "" {
		where, args = "c.session_id = ? AND c.seq > ?", []any{string(filter.Session), filter.After}
	}
	var page sidecar.CommandPage
	limit := pageSize(filter.Limit)
	err := s.view(ctx, false, func(q querier) (err error) {
		page.Commands, err = commands(q, `
			SELECT c.seq, c.owner, c.key, c.hash, c.session_id, c.kind, c.run_id, c.at, c.status, NULL, NULL
			FROM commands AS c WHERE `+where+" ORDER BY c.seq LIMIT ?", append(args, limit+1)...)
		return err
	})
	if err != nil {
		return sidecar.CommandPage{}, fmt.Errorf("list commands: %w", err)
	}
	if page.More = len(page.Commands) > limit; page.More {
		page.Commands = page.Commands[:limit]
	}
	return page, nil
}

// ExpireCommands removes commands that were committed before a time, some at a
// time, and returns how many.
func (s *Store) ExpireCommands(ctx context.Context, before time.Time) (int, error) {
	for removed := 0; ; {
		var batch int64
		err := s.Do(ctx, func(tx *Tx) error {
			result, err := tx.Exec(`DELETE FROM commands WHERE seq IN (
				SELECT c.seq FROM commands AS c WHERE c.at < ? ORDER BY c.at LIMIT ?)`, sidecar.FormatTime(before), maxSwept)
			if err == nil {
				batch, err = result.RowsAffected()
			}
			return err
		})
		removed += int(batch)
		if err != nil || batch < maxSwept {
			return removed, wrapped("expire commands", err)
		}
	}
}

func wrapped(operation string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", operation, err)
	}
	return nil
}
