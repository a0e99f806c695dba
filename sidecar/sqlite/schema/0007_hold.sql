-- What a run waits for beside its turn, or waited for: a JSON object. Whose
-- inputs and files it brings along is told by the other columns.
ALTER TABLE run_state ADD COLUMN hold TEXT;

CREATE INDEX run_state_parent ON run_state(parent, run_id) WHERE parent IS NOT NULL;
