package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// maxStatements bounds the prepared statements of a connection. Updates name
// only the columns that changed, so there are dozens of texts, not hundreds.
const maxStatements = 256

// querier reads: a reader's connection, or the transaction of the writer.
type querier interface {
	query(text string, args ...any) (*sql.Rows, error)
}

// session is one connection with its prepared statements, used by one
// goroutine at a time. Statements take no caller's context: each is short, and
// an interrupted connection would have to be thrown away.
type session struct {
	conn       *sql.Conn
	statements map[string]*sql.Stmt
}

func openSession(ctx context.Context, db *sql.DB) (*session, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("open a connection: %w", err)
	}
	return &session{conn: conn, statements: map[string]*sql.Stmt{}}, nil
}

func (s *session) prepare(text string) (*sql.Stmt, error) {
	if stmt := s.statements[text]; stmt != nil {
		return stmt, nil
	}
	if len(s.statements) >= maxStatements {
		if err := s.forget(); err != nil {
			return nil, err
		}
	}
	stmt, err := s.conn.PrepareContext(context.Background(), text)
	if err != nil {
		return nil, fmt.Errorf("prepare %q: %w", text, err)
	}
	s.statements[text] = stmt
	return stmt, nil
}

func (s *session) forget() error {
	var errs []error
	for text, stmt := range s.statements {
		errs = append(errs, stmt.Close())
		delete(s.statements, text)
	}
	return errors.Join(errs...)
}

func (s *session) query(text string, args ...any) (*sql.Rows, error) {
	stmt, err := s.prepare(text)
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(context.Background(), args...)
}

func (s *session) exec(text string, args ...any) (sql.Result, error) {
	stmt, err := s.prepare(text)
	if err != nil {
		return nil, err
	}
	return stmt.ExecContext(context.Background(), args...)
}

func (s *session) close() error {
	return errors.Join(s.forget(), s.conn.Close())
}

// scanner is a row that can be scanned once.
type scanner interface{ Scan(dest ...any) error }

// each calls scan for every row and closes them. It takes what a query
// returned as it is.
func each(rows *sql.Rows, err error, scan func(scanner) error) error {
	if err != nil {
		return err
	}
	for rows.Next() {
		if err := scan(rows); err != nil {
			return errors.Join(err, rows.Close())
		}
	}
	return errors.Join(rows.Err(), rows.Close())
}

// one scans the first row; false when there is none.
func one(q querier, dest []any, text string, args ...any) (bool, error) {
	found := false
	rows, err := q.query(text, args...)
	err = each(rows, err, func(row scanner) error {
		if found {
			return nil
		}
		found = true
		return row.Scan(dest...)
	})
	return found, err
}
