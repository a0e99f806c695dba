package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"time"
)

// lab is what every group of measures works with.
type lab struct {
	dir       string
	back      *backend
	sidecar   *contender // nil: not measured
	reference *contender // nil: not measured
	seconds   time.Duration
	// referenceMiB is the size of the output that the reference sends: it
	// holds all of it in memory, several times over.
	referenceMiB int64
	say          func(format string, args ...any)

	databases int
}

// group is a set of measures that belong together.
type group struct {
	name    string
	about   string
	measure func(context.Context, *lab) ([]row, error)
}

var groups = []group{
	{"rate", "requests per second", measureRate},
	{"start", "start to first answer", measureStart},
	{"memory", "idle memory", measureMemory},
	{"wait", "result in history to answer of a waiting call", measureWait},
	{"view", "a big output through the server", measureView},
	{"accept", "runs accepted per second", measureAccept},
	{"large", "lists of a session with 300,000 rows", measureLarge},
}

// contenders are the servers under test, the sidecar first.
func (l *lab) contenders() []*contender {
	var out []*contender
	for _, c := range []*contender{l.sidecar, l.reference} {
		if c != nil {
			out = append(out, c)
		}
	}
	return out
}

// newDatabase is the path of a database that does not exist yet.
func (l *lab) newDatabase() string {
	l.databases++
	return filepath.Join(l.dir, fmt.Sprintf("state-%d.sqlite", l.databases))
}

// start runs a contender on a new database.
func (l *lab) start(ctx context.Context, c *contender) (*process, error) {
	p, err := c.start(ctx, l.back.url(), l.newDatabase())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.role, err)
	}
	return p, nil
}

// running are servers that run side by side; those under no load cost nothing.
type running map[role]*process

// stop ends all of them.
func (r running) stop() {
	for p := range maps.Values(r) {
		p.stop()
	}
}

// startAll runs every contender. The caller stops what is returned, on an
// error too.
func (l *lab) startAll(ctx context.Context) (running, error) {
	all := running{}
	for _, c := range l.contenders() {
		p, err := l.start(ctx, c)
		if err != nil {
			return all, err
		}
		all[c.role] = p
	}
	return all, nil
}

// newRaw is a raw copy that answers as bodies says, and is healthy.
func (l *lab) newRaw(bodies map[string]string) (*contender, error) {
	bodies["/health"] = cmp.Or(bodies["/health"], `{"ok":true}`)
	return newRaw(filepath.Join(l.dir, "raw.json"), bodies)
}

// launchRun is the request that runs the example contract in a session.
func launchRun(addr, session string, colour int, wait bool) []byte {
	body := fmt.Sprintf(`{"inputs":{"width":64,"height":64,"colour":%d},"wait":%t,"timeout_seconds":60}`, colour, wait)
	return request("POST", addr, "/contracts/solid/default/run", session, []byte(body))
}

// settleLimit is how long submitted runs may take to be seen as ended.
const settleLimit = 60 * time.Second

// settle waits until a session has no active run.
func settle(ctx context.Context, addr, session string) error {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		body, err := get(ctx, addr, "/runs?active=true", session)
		if err != nil {
			return fmt.Errorf("wait for runs to end: %w", err)
		}
		var answer struct {
			Runs []json.RawMessage `json:"runs"`
		}
		if err := json.Unmarshal(body, &answer); err != nil {
			return fmt.Errorf("wait for runs to end: %w", err)
		}
		if len(answer.Runs) == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for %d runs to end: %w", len(answer.Runs), ctx.Err())
		}
	}
}

// pause waits for d unless ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
