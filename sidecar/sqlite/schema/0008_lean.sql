-- What an accepted run costs is the pages that it touches. Their place is taken
-- by the indexes of reference.sql; active runs are found by the reference's own
-- index.
DROP INDEX IF EXISTS sidecar_runs_scope_created;
DROP INDEX IF EXISTS sidecar_runs_active;
DROP INDEX IF EXISTS sidecar_runs_workflow_created;

-- By phase, which is short; it is walked as a whole.
DROP INDEX run_state_unfinished;

CREATE INDEX run_state_unfinished ON run_state(phase) WHERE phase <> 'finished';

-- Numbers of events are given by the writer, which begins behind the newest
-- that is there or was trimmed: SQLite need not write them down once more.
UPDATE sidecar_meta SET value = max(value, (SELECT seq FROM sqlite_sequence WHERE name = 'events'))
WHERE key = 'trimmed_to'
    AND (SELECT seq FROM sqlite_sequence WHERE name = 'events') > coalesce((SELECT max(seq) FROM events), 0);

CREATE TABLE lean_events (
    seq INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL,
    scope TEXT NOT NULL,
    revision INTEGER NOT NULL,
    type TEXT NOT NULL,
    targets TEXT NOT NULL,
    at TEXT NOT NULL,
    hash BLOB NOT NULL
);

INSERT INTO lean_events SELECT seq, run_id, scope, revision, type, targets, at, hash FROM events ORDER BY seq;

DROP TABLE events;

ALTER TABLE lean_events RENAME TO events;

CREATE INDEX events_run ON events(run_id, seq);

CREATE INDEX events_scope ON events(scope, seq);
