-- What was asked for under an Idempotency-Key, and what it was answered. owner
-- is the session that came with the key, '' for none; hash is of the request;
-- status is 0 until there is an answer.
CREATE TABLE commands (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    owner TEXT NOT NULL,
    key TEXT NOT NULL,
    hash BLOB NOT NULL,
    session_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    run_id TEXT NOT NULL DEFAULT '',
    at TEXT NOT NULL,
    status INTEGER NOT NULL DEFAULT 0,
    header TEXT,
    answer BLOB
);

CREATE UNIQUE INDEX commands_key ON commands(owner, key);

CREATE INDEX commands_session ON commands(session_id, seq);

CREATE INDEX commands_at ON commands(at);
