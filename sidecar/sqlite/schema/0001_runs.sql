-- Numbers of our own: epoch, foreign_opens, foreign_seen, trimmed_to; and the
-- head of the chain of events that belong to no run.
CREATE TABLE sidecar_meta (
    key TEXT NOT NULL PRIMARY KEY,
    value
) WITHOUT ROWID;

INSERT INTO sidecar_meta (key, value) VALUES
    ('epoch', 0),
    ('foreign_opens', 0),
    ('foreign_seen', 0),
    ('trimmed_to', 0),
    ('head_hash', NULL);

-- The reference writes its version at each open, and nothing else there.
CREATE TRIGGER sidecar_foreign_open AFTER UPDATE ON serve_state_meta
BEGIN
    UPDATE sidecar_meta SET value = value + 1 WHERE key = 'foreign_opens';
END;

-- What we keep of a run beyond the reference's columns. The first event kept
-- is retained_from, base_hash the hash of the one before it; row_updated_at is
-- runs.updated_at as we left it.
CREATE TABLE run_state (
    run_id TEXT NOT NULL PRIMARY KEY,
    revision INTEGER NOT NULL DEFAULT 0,
    retained_from INTEGER NOT NULL DEFAULT 0,
    head_hash BLOB,
    base_hash BLOB,
    phase TEXT NOT NULL,
    outcome TEXT NOT NULL DEFAULT '',
    code TEXT NOT NULL DEFAULT '',
    cancel TEXT NOT NULL DEFAULT '',
    attempt INTEGER NOT NULL DEFAULT 0,
    accepted INTEGER NOT NULL DEFAULT 0,
    prompt_id TEXT NOT NULL DEFAULT '',
    due_at TEXT NOT NULL DEFAULT '',
    wait_reason TEXT NOT NULL DEFAULT '',
    position INTEGER,
    parent TEXT,
    after_run TEXT,
    contract TEXT NOT NULL DEFAULT '',
    graph TEXT NOT NULL DEFAULT '',
    environment_ref TEXT,
    manifest_revision TEXT NOT NULL DEFAULT '',
    prompt_digest TEXT NOT NULL DEFAULT '',
    issues TEXT,
    deleted TEXT,
    title TEXT,
    pinned INTEGER NOT NULL DEFAULT 0,
    started_at TEXT NOT NULL DEFAULT '',
    finished_at TEXT NOT NULL DEFAULT '',
    row_updated_at TEXT NOT NULL
);

CREATE INDEX run_state_unfinished ON run_state(run_id) WHERE phase <> 'finished';

CREATE TABLE node_runs (
    run_id TEXT NOT NULL,
    ordinal INTEGER NOT NULL,
    node TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    class TEXT NOT NULL DEFAULT '',
    title TEXT NOT NULL DEFAULT '',
    parent TEXT NOT NULL DEFAULT '',
    cached INTEGER NOT NULL DEFAULT 0,
    started_at TEXT NOT NULL DEFAULT '',
    finished_at TEXT NOT NULL DEFAULT '',
    error TEXT NOT NULL DEFAULT '',
    files INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (run_id, ordinal)
) WITHOUT ROWID;

-- AUTOINCREMENT: a number is never given twice, even when the newest events
-- were trimmed.
CREATE TABLE events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id TEXT NOT NULL,
    scope TEXT NOT NULL,
    revision INTEGER NOT NULL,
    type TEXT NOT NULL,
    targets TEXT NOT NULL,
    at TEXT NOT NULL,
    hash BLOB NOT NULL
);

CREATE INDEX events_run ON events(run_id, seq);

CREATE INDEX events_scope ON events(scope, seq);

CREATE TABLE blobs (
    sha256 TEXT NOT NULL PRIMARY KEY,
    size INTEGER NOT NULL,
    data BLOB NOT NULL
);
