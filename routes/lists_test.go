package routes_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestGalleryPages(t *testing.T) {
	r := start(t)
	for i := range 5 {
		r.run(fmt.Sprintf(`{"wait": true, "width": %d}`, 16+i))
	}
	golden(t, "gallery_one", r.get("/gallery?limit=1").body)

	whole := itemIDs(r.get("/gallery").json(t))
	var paged []string
	cursor := ""
	for range 4 {
		doc := r.get("/gallery?limit=2&cursor=" + cursor).json(t)
		paged = append(paged, itemIDs(doc)...)
		cursor, _ = doc["next_cursor"].(string)
		if more := doc["has_more"].(bool); more != (cursor != "") {
			t.Errorf("has_more %v with cursor %q", more, cursor)
		}
		if cursor == "" {
			break
		}
		raw, err := base64.RawURLEncoding.DecodeString(cursor)
		must(t, err)
		if want := fmt.Sprintf(`","item_id":"%s","v":1}`, paged[len(paged)-1]); string(raw[len(raw)-len(want):]) != want {
			t.Errorf("cursor %s does not end in %s", raw, want)
		}
	}
	if diff := cmp.Diff(whole, paged); diff != "" || len(whole) != 5 {
		t.Errorf("%d items; pages and whole differ: %s", len(whole), diff)
	}
}

func itemIDs(doc map[string]any) []string {
	var ids []string
	for _, item := range doc["items"].([]any) {
		ids = append(ids, item.(map[string]any)["id"].(string))
	}
	return ids
}

func TestLimitsAndCursors(t *testing.T) {
	r := start(t)
	b64 := func(doc string) string { return url.QueryEscape(base64.RawURLEncoding.EncodeToString([]byte(doc))) }
	cases := []struct {
		query, message string // "" for good ones
	}{
		{"limit=1", ""}, {"limit=200", ""}, {"limit=", ""}, {"cursor=", ""}, {"limit=5&limit=x", ""},
		{"limit=201", "'limit' must be less than or equal to 200."},
		{"limit=99999999999999999999", "'limit' must be less than or equal to 200."},
		{"limit=0", "'limit' must be a positive integer."}, {"limit=-1", "'limit' must be a positive integer."},
		{"limit=%2B5", "'limit' must be a positive integer."}, {"limit=1_0", "'limit' must be a positive integer."},
		{"limit=%D9%A3", "'limit' must be a positive integer."}, {"limit=1.5", "'limit' must be a positive integer."},
		{"limit=0&cursor=zzz", "'limit' must be a positive integer."},
		{"cursor=zzz", "cursor"}, {"cursor=***", "cursor"},
		{"cursor=" + b64("[]"), "cursor"}, {"cursor=" + b64("hello"), "cursor"},
		{"cursor=" + b64(`{"v":2,"created_at":"a","item_id":"b"}`), "cursor"},
		{"cursor=" + b64(`{"v":"1","created_at":"a","item_id":"b"}`), "cursor"},
		{"cursor=" + b64(`{"v":1,"created_at":"a","item_id":null}`), "cursor"},
		{"cursor=" + b64(`{"created_at":"a","item_id":"b"}`), "cursor"},
		{"cursor=" + b64(`{"v":1,"created_at":"0","item_id":"x"}`), ""},
		{"cursor=" + b64(`{"v":1,"created_at":"9","item_id":"x"}`) + "==", ""},
	}
	for path, cursor := range map[string]string{"/gallery?": "Gallery cursor is invalid.", "/runs?": "Runs cursor is invalid."} {
		for _, c := range cases {
			if c.message == "cursor" {
				c.message = cursor
			}
			t.Run(path+c.query, func(t *testing.T) {
				a := r.get(path + c.query)
				want := http.StatusOK
				if c.message != "" {
					want = http.StatusBadRequest
				}
				message, _ := a.json(t)["message"].(string)
				if a.status != want || message != c.message {
					t.Errorf("%d %q", a.status, message)
				}
			})
		}
	}
}

func TestActiveRuns(t *testing.T) {
	r := start(t)
	r.run(`{"wait": true}`)
	r.fake.Hold()
	defer r.fake.Release()
	r.run(`{}`)
	for query, want := range map[string]int{
		"": 2, "?active=true": 1, "?active=1": 1, "?active=YES": 1, "?active=": 2, "?active=no": 2, "?limit=1": 1,
	} {
		if got := len(r.get("/runs" + query).json(t)["runs"].([]any)); got != want {
			t.Errorf("/runs%s lists %d, want %d", query, got, want)
		}
	}
}

// What is kept of an answer shows nothing old.
func TestListsAreKeptAndFresh(t *testing.T) {
	r := start(t)
	r.run(`{"wait": true}`)
	for _, path := range []string{"/runs", "/gallery", "/contracts", "/contracts/solid/default"} {
		first, second := r.get(path), r.get(path)
		etag := first.header.Get("ETag")
		if etag == "" || etag != second.header.Get("ETag") {
			t.Fatalf("%s: ETags %q and %q", path, etag, second.header.Get("ETag"))
		}
		if a := r.get(path, "If-None-Match", etag); a.status != http.StatusNotModified || len(a.body) != 0 {
			t.Errorf("%s with its own ETag: %d", path, a.status)
		}
		if a := r.get(path, "If-None-Match", `"other", W/`+etag); a.status != http.StatusNotModified {
			t.Errorf("%s with a list of ETags: %d", path, a.status)
		}
	}
	before := r.get("/gallery").header.Get("ETag")
	item := itemIDs(r.get("/gallery").json(t))[0]
	if a := r.ask("DELETE", "/gallery/"+item, "", "X-ComfyGit-Studio-Session", "other"); a.status != 404 || string(a.body) != `{"deleted":false}` {
		t.Errorf("a stranger's delete: %d %s", a.status, a.body)
	}
	if a := r.ask("DELETE", "/gallery/"+item, ""); a.status != 200 || string(a.body) != `{"deleted":true}` {
		t.Errorf("delete: %d %s", a.status, a.body)
	}
	after := r.get("/gallery", "If-None-Match", before)
	if after.status != 200 || len(itemIDs(after.json(t))) != 0 {
		t.Errorf("after the delete: %d %s", after.status, after.body)
	}
	if a := r.ask("DELETE", "/gallery/"+item, ""); a.status != 404 {
		t.Errorf("delete again: %d", a.status)
	}
}

func TestContractsAnswer(t *testing.T) {
	r := start(t)
	golden(t, "contracts", r.get("/contracts").body)
	golden(t, "contract", r.get("/contracts/solid/default").body)
}
