package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/artifact"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

// stateFlag names a state database that is there.
type stateFlag struct {
	StateDB string `name:"state-db" placeholder:"FILE" env:"STUDIO_SIDECAR_STATE_DB" help:"The state database; by default that of the environment."`
}

// locate finds the database, and the folder of copies beside it. Whoever names
// the file needs no environment.
func (f stateFlag) locate(line *cli, artifacts string) (db, copies string, err error) {
	env, err := line.environment()
	if err != nil && f.StateDB == "" {
		return "", "", err
	}
	if err != nil && artifacts == "" {
		artifacts = filepath.Join(filepath.Dir(f.StateDB), "artifacts")
	}
	db, copies = statePaths(serveFlags{StateDB: f.StateDB, ArtifactDir: artifacts}, env)
	return db, copies, nil
}

type pruneCmd struct {
	stateFlag
	keepFlags
	ArtifactDir string `name:"artifact-dir" placeholder:"DIR" env:"STUDIO_SIDECAR_ARTIFACT_DIR" help:"Folder of copies of outputs; by default as serve has it."`
	DryRun      bool   `name:"dry-run" env:"STUDIO_SIDECAR_DRY_RUN" help:"Tell what would be removed, beside a running server too."`
	JSON        bool   `name:"json" env:"STUDIO_SIDECAR_JSON" help:"Print as JSON."`
}

func (c *pruneCmd) Run(line *cli, con console) error {
	if faults := c.faults(); len(faults) > 0 {
		return &usageError{faults: faults}
	}
	db, copies, err := c.locate(line, c.ArtifactDir)
	if err != nil {
		return err
	}
	var pruned sidecar.Pruned
	if c.DryRun {
		pruned, err = c.plan(line, con, db, copies)
	} else {
		pruned, err = c.prune(line, con, db, copies)
	}
	if err != nil {
		return err
	}
	return c.tell(con, pruned)
}

// plan reads alone, so that it disturbs no server.
func (c *pruneCmd) plan(line *cli, con console, db, copies string) (sidecar.Pruned, error) {
	reader, err := sqlite.OpenReader(con.ctx, db)
	if err != nil {
		return sidecar.Pruned{}, err
	}
	size := func(string) int64 { return 0 }
	if root, err := os.OpenRoot(copies); err == nil {
		defer root.Close()
		size = func(ref string) int64 {
			info, err := root.Stat(ref)
			if err != nil {
				return 0
			}
			return info.Size()
		}
	}
	pruned, err := reader.Plan(con.ctx, c.retention(), time.Now(), size)
	if _, known := c.owner(line); !known {
		pruned.Uploads = 0
	}
	return pruned, errors.Join(err, reader.Close())
}

func (c *pruneCmd) prune(line *cli, con console, db, copies string) (pruned sidecar.Pruned, err error) {
	if err := sqlite.Present(db); err != nil {
		return pruned, err
	}
	log, file, err := line.logger(con.err)
	if err != nil {
		return pruned, err
	}
	defer file.Close()
	store, err := sqlite.Open(con.ctx, sqlite.Options{Path: db, LockWait: -1, Reserve: sqlite.DefaultReserve, Logger: log})
	if err != nil {
		return pruned, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	options := sidecar.Options{Store: store, Log: log}
	// What does not exist holds nothing to remove, and is not made for that.
	if isDir(copies) {
		dir, err := artifact.Open(copies)
		if err != nil {
			return pruned, err
		}
		defer func() { err = errors.Join(err, dir.Close()) }()
		options.Copies = dir
	}
	if env, known := c.owner(line); known && (isDir(env.InputDir()) || isDir(uploadsBeside(copies))) {
		uploads, err := openUploads(env, copies, log)
		if err != nil {
			return pruned, err
		}
		defer func() { err = errors.Join(err, uploads.Close()) }()
		options.Uploads = uploads
	}
	return sidecar.New(options).Prune(con.ctx, c.retention())
}

// owner is the environment whose server keeps the database. Whoever names
// another file has to name that, too: without it uploads are left to the server,
// since rows would go without their files.
func (c *pruneCmd) owner(line *cli) (manifest.Environment, bool) {
	if c.StateDB != "" && line.Env == "" && line.EnvDir == "" {
		return manifest.Environment{}, false
	}
	env, err := line.environment()
	return env, err == nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// prunedDoc is what prune prints as JSON.
type prunedDoc struct {
	DryRun  bool  `json:"dry_run"`
	Runs    int   `json:"runs"`
	Items   int   `json:"items"`
	Events  int   `json:"events"`
	Blobs   int   `json:"blobs"`
	Copies  int   `json:"copies"`
	Uploads int   `json:"uploads"`
	Bytes   int64 `json:"bytes"`
}

func (c *pruneCmd) tell(con console, p sidecar.Pruned) error {
	if c.JSON {
		return json.NewEncoder(con.out).Encode(prunedDoc{c.DryRun, p.Runs, p.Items, p.Events, p.Blobs, p.Copies, p.Uploads, p.Bytes})
	}
	verb := "removed"
	if c.DryRun {
		verb = "would remove"
	}
	_, err := fmt.Fprintf(con.out, "%s %d runs with %d gallery items, %d events and %d blobs; %d copies of outputs, %d uploads; about %v\n",
		verb, p.Runs, p.Items, p.Events, p.Blobs, p.Copies, p.Uploads, byteSize(p.Bytes))
	return err
}
