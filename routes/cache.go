package routes

import (
	"container/list"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"sync"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

const (
	cachedPages = 512
	cachedBytes = 32 << 20
)

// pageKey names an answer by all that it shows.
type pageKey struct {
	route    string
	snapshot *manifest.Snapshot
	session  sidecar.Session
	version  int64
	query    string
	direct   bool
}

// page is a rendered answer.
type page struct {
	body []byte
	etag string
}

func newPage(body []byte) *page {
	sum := sha256.Sum256(body)
	return &page{body, `"` + hex.EncodeToString(sum[:12]) + `"`}
}

// pageCache keeps the answers that were asked for last, bounded in number and
// size. Keys name what an answer shows, so that nothing in it grows old. The
// zero pageCache works.
type pageCache struct {
	mu    sync.Mutex
	pages map[pageKey]*list.Element
	order list.List // of *cachedPage, the newest use in front
	bytes int
}

type cachedPage struct {
	key  pageKey
	page *page
}

func (pc *pageCache) get(key pageKey) *page {
	pc.mu.Lock()
	defer pc.mu.Unlock()
	e, ok := pc.pages[key]
	if !ok {
		return nil
	}
	pc.order.MoveToFront(e)
	return e.Value.(*cachedPage).page
}

func (pc *pageCache) put(key pageKey, p *page) {
	if len(p.body) > cachedBytes/8 {
		return
	}
	pc.mu.Lock()
	defer pc.mu.Unlock()
	if _, ok := pc.pages[key]; ok {
		return
	}
	if pc.pages == nil {
		pc.pages = map[pageKey]*list.Element{}
	}
	pc.pages[key] = pc.order.PushFront(&cachedPage{key, p})
	pc.bytes += len(p.body)
	for len(pc.pages) > cachedPages || pc.bytes > cachedBytes {
		oldest := pc.order.Remove(pc.order.Back()).(*cachedPage)
		delete(pc.pages, oldest.key)
		pc.bytes -= len(oldest.page.body)
	}
}

// cached answers with the page of a key, rendering it when it is not there. A
// visitor without an id is never seen again, and its page not kept.
func (c *call) cached(v visitor, key pageKey, render func() ([]byte, error)) error {
	p := c.pages.get(key)
	if p == nil {
		body, err := render()
		if err != nil {
			return err
		}
		p = newPage(body)
		if !v.fresh {
			c.pages.put(key, p)
		}
	}
	c.showPage(p)
	return nil
}

// showPage answers with a page, or tells that the client has it.
func (c *call) showPage(p *page) {
	h := c.w.Header()
	h.Set("ETag", p.etag)
	h.Set("Cache-Control", "private, no-cache")
	h.Set("Vary", "Cookie, "+sessionHeader)
	if matches(c.r.Header.Get("If-None-Match"), p.etag) {
		c.w.WriteHeader(http.StatusNotModified)
		return
	}
	c.json(http.StatusOK, p.body)
}

func matches(header, etag string) bool {
	for one := range strings.SplitSeq(header, ",") {
		one = strings.TrimSpace(one)
		if one == "*" || strings.TrimPrefix(one, "W/") == etag {
			return true
		}
	}
	return false
}
