package manifest

import "time"

// OpenAt is Open with a clock: files are at rest for a catalog that lives later
// than they were written.
func OpenAt(env Environment, now func() time.Time) *Catalog { return openAt(env, now) }

// The limits of the digest's freshness.
const (
	EveryFileLimit = everyFileLimit
	SweepEvery     = sweepEvery
)

// ParsedBytes is the size of the files whose graphs are kept parsed.
func (c *Catalog) ParsedBytes() int64 {
	c.graphs.mu.RLock()
	defer c.graphs.mu.RUnlock()
	return c.graphs.size
}
