-- What an accepted run costs is the pages that it touches. Their place is taken
-- by the indexes of reference.sql; active runs are found by the reference's own
-- index.
DROP INDEX IF EXISTS sidecar_runs_scope_created;
DROP INDEX IF EXISTS sidecar_runs_active;
DROP INDEX IF EXISTS sidecar_runs_workflow_created;

-- By phase, which is short; it is walked as a whole.
DROP INDEX IF EXISTS run_state_unfinished;

CREATE INDEX run_state_unfinished ON run_state(phase) WHERE phase <> 'finished';

-- Numbers of events are given by the writer: SQLite need not write them down at
-- each. head is the newest that was given before the last start.
INSERT INTO sidecar_meta (key, value)
VALUES ('head', max(
    coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0),
    coalesce((SELECT max(seq) FROM events), 0),
    coalesce((SELECT value FROM sidecar_meta WHERE key = 'trimmed_to'), 0)));

DELETE FROM sqlite_sequence WHERE name = 'events';

-- The rows stay as they are, so the text alone is changed:
-- https://sqlite.org/lang_altertable.html#making_other_kinds_of_table_schema_changes
PRAGMA writable_schema = ON;

UPDATE sqlite_schema SET sql = replace(sql, 'INTEGER PRIMARY KEY AUTOINCREMENT', 'INTEGER PRIMARY KEY')
WHERE type = 'table' AND name = 'events';

PRAGMA writable_schema = RESET;
