-- The tables that the reference shares with us, as it makes them (version 2).
-- Applied at every start; whatever is there stays as it is.

CREATE TABLE IF NOT EXISTS serve_state_meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
);

CREATE TABLE IF NOT EXISTS sessions (
    session_id TEXT PRIMARY KEY,
    scope_key TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
);

CREATE TABLE IF NOT EXISTS runs (
    run_id TEXT PRIMARY KEY,
    session_id TEXT NOT NULL,
    scope_key TEXT NOT NULL,
    workflow TEXT NOT NULL,
    contract TEXT NOT NULL,
    status TEXT NOT NULL,
    prompt_id TEXT,
    inputs_json TEXT NOT NULL,
    raw_result_json TEXT,
    error TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
);

CREATE TABLE IF NOT EXISTS gallery_items (
    item_id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    scope_key TEXT NOT NULL,
    workflow TEXT NOT NULL,
    contract TEXT NOT NULL,
    status TEXT NOT NULL,
    output_type TEXT NOT NULL,
    slot_id TEXT,
    output_name TEXT,
    prompt_id TEXT,
    filename TEXT,
    url TEXT,
    width INTEGER,
    height INTEGER,
    inputs_json TEXT NOT NULL,
    artifact_json TEXT,
    raw_result_json TEXT,
    error TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
);

CREATE TABLE IF NOT EXISTS output_slots (
    slot_id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    scope_key TEXT NOT NULL,
    workflow TEXT NOT NULL,
    contract TEXT NOT NULL,
    output_name TEXT NOT NULL,
    output_type TEXT NOT NULL,
    status TEXT NOT NULL,
    prompt_id TEXT,
    width INTEGER,
    height INTEGER,
    error TEXT,
    raw_result_json TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
);

CREATE INDEX IF NOT EXISTS idx_gallery_items_scope_created_item
    ON gallery_items(scope_key, created_at DESC, item_id DESC);

CREATE INDEX IF NOT EXISTS idx_gallery_items_scope_run
    ON gallery_items(scope_key, run_id);

CREATE INDEX IF NOT EXISTS idx_runs_scope_status_created
    ON runs(scope_key, status, created_at DESC);

CREATE INDEX IF NOT EXISTS idx_output_slots_scope_run
    ON output_slots(scope_key, run_id);

-- Ours: lists of runs by page. Ascending, since SQLite splits less where the
-- newest come last; read backwards they are as fast.

CREATE INDEX IF NOT EXISTS sidecar_runs_by_time
    ON runs(scope_key, created_at, run_id);

CREATE INDEX IF NOT EXISTS sidecar_runs_by_workflow
    ON runs(scope_key, workflow, created_at, run_id);
