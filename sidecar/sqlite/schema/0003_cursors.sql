-- What is left to tell to somebody outside. consumer is "callback/RUN", target
-- whom to tell (JSON), seq the revision that was told last.
CREATE TABLE cursors (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    consumer TEXT NOT NULL UNIQUE,
    target TEXT NOT NULL,
    seq INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    due_at TEXT NOT NULL DEFAULT '',
    error TEXT NOT NULL DEFAULT ''
);
