package comfyfake

import (
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
)

// What the book keeps at most, so that a server that runs for weeks stays
// small.
const (
	maxRequests  = 20000
	maxKeptBytes = 1 << 20
)

// Request is one request as it arrived.
type Request struct {
	Method string
	Path   string // as sent, with /api if there
	Query  string
	Host   string
	Header http.Header
	// Body is what was read of the body, at most 1 MiB.
	Body []byte
	At   time.Time
}

// Count tells how often a thing was put in line and how often it began to
// execute.
type Count struct{ Queued, Executed int }

// Submissions counts by prompt id and by graph; a graph's key is its JSON text
// as stored, which is after literals were coerced.
type Submissions struct {
	ByPrompt map[string]Count
	ByGraph  map[string]Count
}

// book records what clients did. It survives Restart.
type book struct {
	mu       sync.Mutex
	requests []*Request
	prompts  map[string]Count
	graphs   map[string]Count
}

// Requests returns the latest requests, oldest first.
func (s *Server) Requests() []Request {
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	list := make([]Request, len(s.book.requests))
	for i, r := range s.book.requests {
		list[i] = *r
		list[i].Body = slices.Clone(r.Body)
	}
	return list
}

// Submissions returns the counts so far.
func (s *Server) Submissions() Submissions {
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	return Submissions{ByPrompt: maps.Clone(s.book.prompts), ByGraph: maps.Clone(s.book.graphs)}
}

// request notes a request and returns its body, of which it keeps a copy
// while the handler reads.
func (b *book) request(r *http.Request, at time.Time) io.ReadCloser {
	entry := &Request{Method: r.Method, Path: r.URL.EscapedPath(), Query: r.URL.RawQuery, Host: r.Host, Header: r.Header.Clone(), At: at}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.requests) >= maxRequests {
		b.requests = slices.Delete(b.requests, 0, maxRequests/2)
	}
	b.requests = append(b.requests, entry)
	return &keptBody{ReadCloser: r.Body, book: b, entry: entry}
}

type keptBody struct {
	io.ReadCloser
	book  *book
	entry *Request
}

func (k *keptBody) Read(p []byte) (int, error) {
	n, err := k.ReadCloser.Read(p)
	k.book.mu.Lock()
	defer k.book.mu.Unlock()
	if room := maxKeptBytes - len(k.entry.Body); room > 0 {
		k.entry.Body = append(k.entry.Body, p[:min(n, room)]...)
	}
	return n, err
}

func (b *book) queued(it *item) { b.count(it, func(c *Count) { c.Queued++ }) }

func (b *book) executed(it *item) { b.count(it, func(c *Count) { c.Executed++ }) }

func (b *book) count(it *item, add func(*Count)) {
	graph := dumps(it.prompt)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.prompts == nil {
		b.prompts, b.graphs = map[string]Count{}, map[string]Count{}
	}
	c := b.prompts[it.id]
	add(&c)
	b.prompts[it.id] = c
	c = b.graphs[graph]
	add(&c)
	b.graphs[graph] = c
}
