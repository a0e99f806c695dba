package routes

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

const (
	// pageLimit is the largest page that may be asked for, as in the reference.
	pageLimit = 200
	// wholeLimit bounds the answer to who asks for no page.
	wholeLimit = 1000
)

func (c *call) listRuns() error {
	query := c.r.URL.Query()
	v := c.session()
	window, err := readWindow("Runs", query)
	if err != nil {
		return err
	}
	ask, err := readRunAsk(query)
	if err != nil {
		return err
	}
	ask.filter.Scope, ask.filter.Limit, ask.filter.After = v.Scope, window.rows(), window.after
	version := c.studio.Version(v.Scope)
	err = c.cached(v, c.key("runs", v, version), func() ([]byte, error) {
		var found foundRuns
		if !v.empty() || ask.counts {
			if found, err = c.findRuns(ask); err != nil {
				return nil, err
			}
		}
		return c.renderRuns(v, found), nil
	})
	if err == nil {
		c.remember(v)
	}
	return err
}

func (c *call) key(route string, v visitor, version int64) pageKey {
	return pageKey{route: route, session: v.Session, version: version, query: c.r.URL.RawQuery, direct: c.direct}
}

func (c *call) renderRuns(v visitor, found foundRuns) []byte {
	s, t := c.shape(), text{}
	t.open('{')
	t.str("state", c.opts.State)
	t.str("session_id", string(v.ID))
	t.key("runs")
	t.open('[')
	for i, r := range found.Runs {
		s.openRun(&t, "", r)
		if found.Metrics != nil {
			metrics(&t, "metrics", found.Metrics[i])
		}
		t.close('}')
	}
	t.close(']')
	if found.counts != nil {
		runCounts(&t, found.counts)
	}
	if found.More {
		last := found.Runs[len(found.Runs)-1]
		t.str("next_cursor", encodeCursor(sidecar.Cursor{CreatedAt: last.CreatedAt, ID: string(last.ID)}))
		t.bool("has_more", true)
	}
	t.close('}')
	return t.b
}

// yes reads a flag of a query.
func yes(value string) bool {
	switch strings.ToLower(value) {
	case "true", "1", "yes":
		return true
	}
	return false
}

func (c *call) listGallery() error {
	query := c.r.URL.Query()
	v := c.session()
	window, err := readWindow("Gallery", query)
	if err != nil {
		return err
	}
	version := c.studio.Version(v.Scope)
	err = c.cached(v, c.key("gallery", v, version), func() ([]byte, error) {
		var found sidecar.ItemPage
		if !v.empty() {
			filter := sidecar.ItemFilter{Scope: v.Scope, Limit: window.rows(), After: window.after}
			if found, err = c.studio.Gallery(c.r.Context(), filter); err != nil {
				return nil, err
			}
		}
		return c.renderGallery(v, window, found), nil
	})
	if err == nil {
		c.remember(v)
	}
	return err
}

func (c *call) renderGallery(v visitor, w window, found sidecar.ItemPage) []byte {
	s, t := c.shape(), text{}
	t.open('{')
	t.str("state", c.opts.State)
	t.str("gallery", c.galleryName())
	t.str("session_id", string(v.ID))
	t.key("items")
	t.open('[')
	for _, item := range found.Items {
		s.item(&t, item)
	}
	t.close(']')
	next := ""
	if found.More && len(found.Items) > 0 {
		last := found.Items[len(found.Items)-1]
		next = encodeCursor(sidecar.Cursor{CreatedAt: last.CreatedAt, ID: string(last.ID)})
	}
	t.orNull("next_cursor", next)
	t.bool("has_more", found.More)
	if w.limit == 0 {
		t.raw("limit", []byte("null"))
	} else {
		t.int("limit", int64(w.limit))
	}
	t.close('}')
	return t.b
}

func (c *call) galleryName() string {
	if c.opts.Shared {
		return "shared"
	}
	return "private"
}

func (c *call) deleteItem() error {
	v := c.session()
	c.foretell(http.StatusOK, renderDeleted(true))
	deleted, err := c.studio.DeleteItem(c.r.Context(), v.Scope, sidecar.ItemID(c.path("item_id")))
	if err != nil {
		return err
	}
	status := http.StatusOK
	if !deleted {
		status = http.StatusNotFound
	}
	c.json(status, renderDeleted(deleted))
	return nil
}

func renderDeleted(deleted bool) []byte {
	t := text{}
	t.open('{')
	t.bool("deleted", deleted)
	t.close('}')
	return t.b
}

// window is the part of a list that is asked for.
type window struct {
	limit int // 0: none was given
	after sidecar.Cursor
}

func (w window) rows() int {
	if w.limit == 0 {
		return wholeLimit
	}
	return w.limit
}

// readWindow reads limit and cursor of a list, whose name is for people.
func readWindow(list string, query url.Values) (window, error) {
	rows, err := readLimit(query.Get("limit"))
	if err != nil {
		return window{}, err
	}
	after, err := decodeCursor(query.Get("cursor"))
	if err != nil {
		return window{}, &fault{
			code: sidecar.CodeBadRequest, message: list + " cursor is invalid.",
			hint: "Use next_cursor of an earlier answer as it is, or leave the cursor out.", cause: err,
		}
	}
	return window{rows, after}, nil
}

func readLimit(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	if strings.Trim(text, "0123456789") != "" || strings.Trim(text, "0") == "" {
		return 0, badRequest("'limit' must be a positive integer.", "Give it in decimal digits, from 1 to 200.")
	}
	n, err := strconv.Atoi(text)
	if err != nil || n > pageLimit {
		return 0, badRequest("'limit' must be less than or equal to 200.", "Ask for the next page with next_cursor.")
	}
	return n, nil
}

// cursorVersion marks the encoding below, which is the reference's.
const cursorVersion = 1

type cursorDoc struct {
	CreatedAt *string         `json:"created_at"`
	ItemID    *string         `json:"item_id"`
	Version   json.RawMessage `json:"v"`
}

// valid accepts as the version what is one in Python too.
func (d cursorDoc) valid() bool {
	switch string(d.Version) {
	case "1", "1.0", "true":
		return d.CreatedAt != nil && d.ItemID != nil
	}
	return false
}

func encodeCursor(at sidecar.Cursor) string {
	t := text{}
	t.open('{')
	t.str("created_at", sidecar.FormatTime(at.CreatedAt))
	t.str("item_id", at.ID)
	t.int("v", cursorVersion)
	t.close('}')
	return base64.RawURLEncoding.EncodeToString(t.b)
}

var errNoCursor = errors.New("members of a cursor are missing")

func decodeCursor(cursor string) (sidecar.Cursor, error) {
	if cursor == "" {
		return sidecar.Cursor{}, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(cursor, "="))
	if err != nil {
		return sidecar.Cursor{}, err
	}
	var doc cursorDoc
	if err := json.Unmarshal(raw, &doc); err != nil {
		return sidecar.Cursor{}, err
	}
	if !doc.valid() {
		return sidecar.Cursor{}, errNoCursor
	}
	return sidecar.Cursor{CreatedAt: cursorTime(*doc.CreatedAt), ID: *doc.ItemID}, nil
}

// cursorTime reads the time in a cursor, which the reference compares as text:
// what is no time stands before or after all times.
func cursorTime(text string) time.Time {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at
	}
	if text < "1" {
		return time.Unix(0, 0).UTC()
	}
	return time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
}
