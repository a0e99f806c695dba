package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

type runsCmd struct {
	stateFlag
	Active bool `env:"STUDIO_SIDECAR_ACTIVE" help:"List those alone that have not ended."`
	Limit  int  `default:"50" env:"STUDIO_SIDECAR_LIMIT" help:"How many to list, the newest first."`
	JSON   bool `name:"json" env:"STUDIO_SIDECAR_JSON" help:"Print as JSON."`
}

// runDoc is a run in a list.
type runDoc struct {
	ID       sidecar.RunID     `json:"run_id"`
	Session  sidecar.SessionID `json:"session_id"`
	Workflow string            `json:"workflow"`
	Contract string            `json:"contract"`
	Status   sidecar.Status    `json:"status"`
	Phase    sidecar.Phase     `json:"phase"`
	Outcome  sidecar.Outcome   `json:"outcome,omitempty"`
	Error    string            `json:"error,omitempty"`
	Title    string            `json:"title,omitempty"`
	Pinned   bool              `json:"pinned,omitempty"`
	Created  string            `json:"createdAt"`
	Started  string            `json:"startedAt,omitempty"`
	Finished string            `json:"finishedAt,omitempty"`
}

// Run reads alone, so that it disturbs no server.
func (c *runsCmd) Run(line *cli, con console) (err error) {
	if c.Limit < 1 {
		return misuse("--limit (STUDIO_SIDECAR_LIMIT): %d is out of range; use 1 or more", c.Limit)
	}
	db, _, err := c.locate(line, "")
	if err != nil {
		return err
	}
	reader, err := sqlite.OpenReader(con.ctx, db)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	runs, err := reader.Runs(con.ctx, c.Active, c.Limit)
	if err != nil {
		return err
	}
	if c.JSON {
		docs := make([]runDoc, 0, len(runs))
		for _, r := range runs {
			docs = append(docs, runDoc{
				r.ID, r.Session, r.Workflow, r.Contract, r.Status, r.Phase, r.Outcome, r.Error, r.Title, r.Pinned,
				sidecar.FormatTime(r.CreatedAt), sidecar.FormatTime(r.StartedAt), sidecar.FormatTime(r.FinishedAt),
			})
		}
		return json.NewEncoder(con.out).Encode(map[string]any{"runs": docs})
	}
	return listRuns(con.out, runs)
}

func listRuns(out io.Writer, runs []*sidecar.Run) error {
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	for _, r := range runs {
		state := string(r.Status)
		if r.Outcome != "" && string(r.Outcome) != state {
			state += " (" + string(r.Outcome) + ")"
		}
		took := ""
		if !r.FinishedAt.IsZero() {
			took = r.FinishedAt.Sub(r.CreatedAt).Round(100 * time.Millisecond).String()
		}
		if r.Pinned {
			took += " pinned"
		}
		fmt.Fprintf(table, "%s\t%s\t%s/%s\t%s\t%s\t%s\n", r.ID, r.CreatedAt.Local().Format(time.DateTime), r.Workflow, r.Contract, state, took, r.Title)
	}
	return table.Flush()
}
