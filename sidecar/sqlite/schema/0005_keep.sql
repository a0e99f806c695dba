-- What a finished run takes of the disk, with its copies; NULL: not measured
-- since it last changed.
ALTER TABLE run_state ADD COLUMN bytes INTEGER;

-- Retention walks the runs that it may remove by the time of their end.
CREATE INDEX run_state_kept ON run_state(finished_at, run_id, bytes)
    WHERE phase = 'finished' AND pinned = 0 AND finished_at <> '';

-- Who names a blob. A part of the digest finds the few that may.
CREATE INDEX run_state_graph ON run_state(substr(graph, 1, 16));

CREATE INDEX run_state_contract ON run_state(substr(contract, 1, 16));

-- The next start looks at all runs of the reference and gives them a state, so
-- that they have a time at which they ended.
UPDATE sidecar_meta SET value = -1 WHERE key = 'foreign_seen';
