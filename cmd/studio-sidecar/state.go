package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

type backupCmd struct {
	stateFlag
	File string `arg:"" help:"Where the copy goes; nothing may be there yet."`
	JSON bool   `name:"json" env:"STUDIO_SIDECAR_JSON" help:"Print as JSON."`
}

func (c *backupCmd) Run(line *cli, con console) (err error) {
	db, _, err := c.locate(line, "")
	if err != nil {
		return err
	}
	reader, err := sqlite.OpenReader(con.ctx, db)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	report, err := reader.Backup(con.ctx, c.File)
	var unsound *sqlite.UnsoundError
	if errors.As(err, &unsound) {
		return hintedError{fmt.Errorf("no copy was kept: %w", err), "Look with: studio-sidecar verify --state-db " + db}
	}
	if err != nil {
		return err
	}
	info, err := os.Stat(c.File)
	if err != nil {
		return fmt.Errorf("look at the copy: %w", err)
	}
	if c.JSON {
		return json.NewEncoder(con.out).Encode(map[string]any{
			"from": reader.Path(), "to": c.File, "bytes": info.Size(), "runs": report.Runs, "events": report.Events,
		})
	}
	_, err = fmt.Fprintf(con.out, "%s: %d runs, %d events, %v\n", c.File, report.Runs, report.Events, byteSize(info.Size()))
	return err
}

type restoreCmd struct {
	stateFlag
	Backup string `arg:"" help:"The copy; it stays as it is."`
	JSON   bool   `name:"json" env:"STUDIO_SIDECAR_JSON" help:"Print as JSON."`
}

func (c *restoreCmd) Run(line *cli, con console) error {
	db, _, err := c.locate(line, "")
	if err != nil {
		return err
	}
	if err := c.look(con.ctx); err != nil {
		return err
	}
	done, err := sqlite.Restore(con.ctx, c.Backup, db)
	var unsound *sqlite.UnsoundError
	if errors.As(err, &unsound) {
		return hintedError{err, "Look with: studio-sidecar verify --state-db " + c.Backup}
	}
	if err != nil {
		return err
	}
	unfinished, err := unfinishedIn(con.ctx, done.Path)
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(con.out).Encode(map[string]any{
			"from": c.Backup, "to": done.Path, "replaced": done.Replaced, "runs": done.Runs, "events": done.Events, "unfinished": unfinished,
		})
	}
	kept, left := "", ""
	if done.Replaced != "" {
		kept = "; what stood there is " + done.Replaced
	}
	if unfinished > 0 {
		left = fmt.Sprintf("%d runs had not ended; the next start runs what ComfyUI does not know of\n", unfinished)
	}
	_, err = fmt.Fprintf(con.out, "%s: %d runs, %d events%s\n%s", done.Path, done.Runs, done.Events, kept, left)
	return err
}

// look refuses what cannot be a backup.
func (c *restoreCmd) look(ctx context.Context) error {
	reader, err := sqlite.OpenReader(ctx, c.Backup)
	if err != nil {
		return hintedError{fmt.Errorf("restore: the backup cannot be used: %w", err), "Name a copy that studio-sidecar backup made."}
	}
	return reader.Close()
}

// unfinishedIn counts the runs that the next start takes up.
func unfinishedIn(ctx context.Context, db string) (n int, err error) {
	reader, err := sqlite.OpenReader(ctx, db)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	runs, err := reader.Runs(ctx, true, math.MaxInt32)
	return len(runs), err
}

type verifyCmd struct {
	stateFlag
	JSON bool `name:"json" env:"STUDIO_SIDECAR_JSON" help:"Print as JSON."`
}

// faultDoc is one thing that is not as it was written.
type faultDoc struct {
	Run     sidecar.RunID `json:"run_id,omitempty"`
	Seq     sidecar.Seq   `json:"event,omitempty"`
	Message string        `json:"message"`
}

// verdict is what verify prints as JSON.
type verdict struct {
	Path   string     `json:"path"`
	Sound  bool       `json:"sound"`
	Runs   int        `json:"runs"`
	Events int        `json:"events"`
	Blobs  int        `json:"blobs"`
	Faults []faultDoc `json:"faults"`
}

// Run ends with 0 when all is as it was written, with 1 when something is not,
// and with 2 when it could not look.
func (c *verifyCmd) Run(line *cli, con console) error {
	db, _, err := c.locate(line, "")
	if err != nil {
		return err
	}
	v := verdict{Path: db, Faults: []faultDoc{}}
	err = v.look(con, db)
	switch {
	case errors.Is(err, sidecar.ErrLasting):
		v.Faults = append(v.Faults, faultDoc{Message: err.Error()})
	case err != nil:
		tell(con.err, err.Error(), adviceOf(err))
		return silentError(exitUsage)
	}
	v.Sound = len(v.Faults) == 0
	if err := c.tell(con, v); err != nil {
		return err
	}
	if !v.Sound {
		return silentError(exitFailed)
	}
	return nil
}

func adviceOf(err error) string {
	var told *sidecar.Error
	if errors.As(err, &told) {
		return told.Hint
	}
	return ""
}

func (v *verdict) look(con console, db string) error {
	reader, err := sqlite.OpenReader(con.ctx, db)
	if err != nil {
		return err
	}
	report, err := reader.Verify(con.ctx)
	v.Runs, v.Events, v.Blobs = report.Runs, report.Events, report.Blobs
	for _, f := range report.Faults {
		v.Faults = append(v.Faults, faultDoc{f.Run, f.Seq, f.Message})
	}
	return errors.Join(err, reader.Close())
}

func (c *verifyCmd) tell(con console, v verdict) error {
	if c.JSON {
		return json.NewEncoder(con.out).Encode(v)
	}
	for _, f := range v.Faults {
		where := string(f.Run)
		if f.Seq != 0 {
			where += fmt.Sprintf(" event %d", f.Seq)
		}
		if where != "" {
			where += ": "
		}
		if _, err := fmt.Fprintf(con.out, "%s%s\n", where, f.Message); err != nil {
			return err
		}
	}
	state := "as it was written"
	if !v.Sound {
		state = "damaged"
	}
	_, err := fmt.Fprintf(con.out, "%s: %d runs, %d events, %d blobs: %s\n", v.Path, v.Runs, v.Events, v.Blobs, state)
	return err
}
