-- What the rows of a finished run hashed to, after the number of foreign opens
-- until which that counts.
ALTER TABLE run_state ADD COLUMN digest TEXT;
