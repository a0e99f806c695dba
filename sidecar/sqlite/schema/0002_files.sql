-- Files that we keep. Of an upload: announced is the size that its client
-- promised, size the real one; token_hash is what its PUT has to bring; path
-- is its name in the folder of inputs.
CREATE TABLE files (
    id TEXT NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL,
    session_id TEXT NOT NULL DEFAULT '',
    scope TEXT NOT NULL DEFAULT '',
    name TEXT NOT NULL,
    mime TEXT NOT NULL DEFAULT '',
    announced INTEGER NOT NULL DEFAULT -1,
    size INTEGER NOT NULL DEFAULT 0,
    sha256 TEXT NOT NULL DEFAULT '',
    path TEXT NOT NULL,
    token_hash BLOB,
    state TEXT NOT NULL,
    writes INTEGER NOT NULL DEFAULT 0,
    created_at TEXT NOT NULL,
    expires_at TEXT NOT NULL
);

CREATE INDEX files_expiry ON files(kind, expires_at);

-- The ids of the uploads that the run's inputs name, a JSON array.
ALTER TABLE run_state ADD COLUMN uploads TEXT;
