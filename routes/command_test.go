package routes_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/routes"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

const keyName = "Idempotency-Key"

// counts are the runs that a session sees and the prompts that were submitted.
func (r *rig) counts() (runs, prompts int) {
	return len(r.get("/runs").json(r.t)["runs"].([]any)), len(r.fake.Submissions().ByPrompt)
}

// same holds a replay to the first answer.
func same(t *testing.T, first, replay reply) {
	t.Helper()
	if first.header.Get("Idempotent-Replayed") != "" || replay.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("replayed: first %q, then %q", first.header.Get("Idempotent-Replayed"), replay.header.Get("Idempotent-Replayed"))
	}
	if first.status != replay.status || string(first.body) != string(replay.body) {
		t.Errorf("first %d %s\nthen %d %s", first.status, first.body, replay.status, replay.body)
	}
	one, two := first.header.Clone(), replay.header.Clone()
	for _, name := range []string{"X-Request-Id", "Date", "Idempotent-Replayed"} {
		one.Del(name)
		two.Del(name)
	}
	if diff := cmp.Diff(one, two); diff != "" {
		t.Errorf("headers (-first +replay):\n%s", diff)
	}
}

func TestKeys(t *testing.T) {
	t.Run("a_run_is_made_once", func(t *testing.T) {
		r := start(t)
		for i, body := range []string{`{"width": 48}`, `{"wait": true}`, `{"wait": true, "width": 32, "timeout_seconds": 30}`} {
			key := fmt.Sprintf("k%d", i)
			first := r.ask("POST", runPath, body, keyName, key)
			if first.status != 200 {
				t.Fatalf("%d %s", first.status, first.body)
			}
			same(t, first, r.ask("POST", runPath, body, keyName, key))
			same(t, first, r.ask("POST", runPath, body, keyName, `"`+key+`"`))
		}
		r.run(`{"wait": true}`)
		if runs, prompts := r.counts(); runs != 4 || prompts != 4 {
			t.Errorf("%d runs, %d prompts, want 4", runs, prompts)
		}
	})
	t.Run("a_key_belongs_to_its_session", func(t *testing.T) {
		r := start(t)
		anna, berta := r.ask("POST", runPath, `{}`, keyName, "k"), r.ask("POST", runPath, `{}`, keyName, "k", "X-ComfyGit-Studio-Session", "berta")
		if anna.json(t)["run_id"] == berta.json(t)["run_id"] || berta.header.Get("Idempotent-Replayed") != "" {
			t.Errorf("%s\n%s", anna.body, berta.body)
		}
	})
	t.Run("a_failed_run_is_stored_and_answered_once", func(t *testing.T) {
		r := start(t)
		first := r.ask("POST", runPath, `{"width": 5}`, keyName, "k")
		if first.status != 400 {
			t.Fatalf("%d %s", first.status, first.body)
		}
		same(t, first, r.ask("POST", runPath, `{"width": 5}`, keyName, "k"))
		release := r.fake.Fault(comfyfake.Fault{Kind: comfyfake.Answer, Method: "POST", Route: "/prompt", Status: 403, Body: `{"error":"no"}`})
		second := r.ask("POST", runPath, `{"wait": true}`, keyName, "l")
		release()
		if second.status != 502 {
			t.Fatalf("%d %s", second.status, second.body)
		}
		same(t, second, r.ask("POST", runPath, `{"wait": true}`, keyName, "l"))
		if runs, _ := r.counts(); runs != 2 {
			t.Errorf("%d runs", runs)
		}
	})
	t.Run("another_request_is_a_conflict", func(t *testing.T) {
		r := start(t)
		id := r.ask("POST", runPath, `{"wait": true}`, keyName, "k").json(t)["run_id"].(string)
		for _, c := range [][2]string{{runPath, `{"wait": true, "width": 32}`}, {runPath + "?x=1", `{"wait": true}`}, {"/contracts/solid/preview/run", `{"wait": true}`}, {"/runs/" + id + "/cancel", ""}} {
			a := r.ask("POST", c[0], c[1], keyName, "k")
			if doc := a.json(t); a.status != 409 || doc["error"] != "idempotency_key_reused" || doc["hint"] == nil {
				t.Errorf("%s: %d %s", c[0], a.status, a.body)
			}
		}
		if runs, _ := r.counts(); runs != 1 {
			t.Errorf("%d runs", runs)
		}
	})
	t.Run("a_refusal_that_stored_nothing_is_not_kept", func(t *testing.T) {
		r := start(t)
		for _, c := range []struct {
			path, body string
			status     int
		}{{runPath, `{`, 400}, {"/contracts/none/default/run", `{}`, 400}, {"/runs/none/cancel", "", 404}, {runPath, `{"wait": true}`, 200}} {
			if a := r.ask("POST", c.path, c.body, keyName, "k"); a.status != c.status || a.header.Get("Idempotent-Replayed") != "" {
				t.Errorf("%s %s: %d %s", c.path, c.body, a.status, a.body)
			}
		}
	})
	t.Run("without_a_session_the_key_stands_for_itself", func(t *testing.T) {
		r := start(t)
		ask := func(key string) reply {
			return r.ask("POST", runPath, `{"wait": true}`, keyName, key, "X-ComfyGit-Studio-Session", "")
		}
		first := ask(strings.Repeat("k", 16))
		if first.status != 200 || !strings.Contains(first.header.Get("Set-Cookie"), "comfygit_studio_session=anon_") {
			t.Fatalf("%d %v", first.status, first.header)
		}
		same(t, first, ask(strings.Repeat("k", 16)))
		cookie, _, _ := strings.Cut(first.header.Get("Set-Cookie"), ";")
		if a := r.get("/runs/"+first.json(t)["run_id"].(string), "X-ComfyGit-Studio-Session", "", "Cookie", cookie); a.status != 200 {
			t.Errorf("the session that was given does not see its run: %d", a.status)
		}
		if a := ask(strings.Repeat("k", 15)); a.status != 400 || !strings.Contains(string(a.body), "16 characters") {
			t.Errorf("a short key: %d %s", a.status, a.body)
		}
	})
	t.Run("an_upload_is_prepared_once", func(t *testing.T) {
		r := start(t, own)
		first := r.ask("POST", "/uploads/prepare", `{"filename": "a.png"}`, keyName, "k")
		same(t, first, r.ask("POST", "/uploads/prepare", `{"filename": "a.png"}`, keyName, "k"))
		if a := r.ask("PUT", first.json(t)["upload_url"].(string), "abc"); a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
	t.Run("an_item_is_deleted_once", func(t *testing.T) {
		r := start(t)
		item := "/gallery/" + r.run(`{"wait": true}`)["gallery_items"].([]any)[0].(map[string]any)["id"].(string)
		first := r.ask("DELETE", item, "", keyName, "k")
		if string(first.body) != `{"deleted":true}` {
			t.Fatalf("%d %s", first.status, first.body)
		}
		same(t, first, r.ask("DELETE", item, "", keyName, "k"))
		if a := r.ask("DELETE", item, "", keyName, "l"); a.status != 404 {
			t.Errorf("another key: %d", a.status)
		}
	})
	t.Run("a_run_is_cancelled_once", func(t *testing.T) {
		r := start(t)
		r.fake.Hold()
		defer r.fake.Release()
		path := "/runs/" + r.run(`{}`)["run_id"].(string) + "/cancel"
		first := r.ask("POST", path, "{}", keyName, "k")
		if first.status != 200 {
			t.Fatalf("%d %s", first.status, first.body)
		}
		same(t, first, r.ask("POST", path, "{}", keyName, "k"))
	})
}

func TestKeyRules(t *testing.T) {
	r := start(t)
	for name, c := range map[string]struct {
		key    string
		status int
	}{
		"longest": {strings.Repeat("k", 255), 200}, "too_long": {strings.Repeat("k", 256), 400}, "spaces_inside": {"a key", 200},
		"umlaut": {"schlüssel", 400}, "only_quotes": {`""`, 400}, "tab": {"a\tb", 400},
	} {
		t.Run(name, func(t *testing.T) {
			if a := r.ask("POST", runPath, `{"wait": true}`, keyName, c.key); a.status != c.status {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
	t.Run("two_keys", func(t *testing.T) {
		req, err := http.NewRequest("POST", r.server.URL+runPath, strings.NewReader("{}"))
		must(t, err)
		req.Header.Set("X-ComfyGit-Studio-Session", "anna")
		req.Header[keyName] = []string{"a", "b"}
		if a := r.send(req); a.status != 400 {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}

// Whatever changes something takes a key, by standing in the table.
func TestEveryChangeTakesAKey(t *testing.T) {
	r := start(t)
	variable := strings.NewReplacer("{run_id}", "x", "{item_id}", "x", "{workflow}", "x", "{contract}", "x", "{path:.+}", "x/y/z", "{kind}", "x", "{name}", "x")
	seen, exempt := 0, map[string]bool{"sign_in": true, "sign_out": true, "receive_upload": true}
	for _, route := range routes.Table() {
		if !slices.Contains([]string{"POST", "PATCH", "PUT", "DELETE"}, route.Method) || exempt[route.Name] {
			continue
		}
		seen++
		a := r.ask(route.Method, variable.Replace(route.Path), "", keyName, strings.Repeat("k", 256))
		if message, _ := a.json(t)["message"].(string); a.status != 400 || !strings.HasPrefix(message, "'Idempotency-Key'") {
			t.Errorf("%s %s: %d %s", route.Method, route.Path, a.status, a.body)
		}
	}
	if seen < 7 {
		t.Errorf("only %d routes", seen)
	}
}

// A wait that ended is no answer for ever: who asks again waits again.
func TestReplayWaits(t *testing.T) {
	r := start(t)
	r.fake.Hold()
	defer r.fake.Release()
	body := `{"wait": true, "timeout_seconds": 0.2}`
	first := r.ask("POST", runPath, body, keyName, "k")
	if first.status != 504 {
		t.Fatalf("%d %s", first.status, first.body)
	}
	if again := r.ask("POST", runPath, body, keyName, "k"); again.status != 504 || again.json(t)["run_id"] != first.json(t)["run_id"] {
		t.Errorf("%d %s", again.status, again.body)
	}
	r.fake.Release()
	path := "/runs/" + first.json(t)["run_id"].(string)
	eventually(t, "the run completes", func() bool { return r.get(path).json(t)["run"].(map[string]any)["status"] == "completed" })
	for range 2 {
		if a := r.ask("POST", runPath, body, keyName, "k"); a.status != 200 || a.json(t)["status"] != "completed" || a.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	if runs, _ := r.counts(); runs != 1 {
		t.Errorf("%d runs", runs)
	}
}

// The change was committed and the answer was not: a replay renders it.
func TestReplayFinishes(t *testing.T) {
	r := start(t, own)
	item := "/gallery/" + r.run(`{"wait": true}`)["gallery_items"].([]any)[0].(map[string]any)["id"].(string)
	ended := "/runs/" + r.run(`{"wait": true}`)["run_id"].(string)
	r.fake.Hold()
	defer r.fake.Release()
	held := "/runs/" + r.run(`{}`)["run_id"].(string) + "/cancel"
	for i, c := range []struct{ method, path, body string }{
		{"POST", held, ""}, {"DELETE", item, ""}, {"PATCH", ended, `{"title": "a"}`}, {"DELETE", ended, ""}, {"POST", "/uploads/prepare", `{"filename": "a.png"}`}, {"POST", runPath, `{}`}, {"POST", runPath, `{"wait": true}`}, {"POST", runPath, `{"width": 5}`},
	} {
		t.Run(c.method+c.path+c.body, func(t *testing.T) {
			key := fmt.Sprintf("k%d", i)
			if c.path == runPath {
				r.fake.Release()
			}
			runs, _ := r.counts()
			r.mute.Store(true)
			first := r.ask(c.method, c.path, c.body, keyName, key)
			r.mute.Store(false)
			replay := r.ask(c.method, c.path, c.body, keyName, key)
			if first.status != replay.status || replay.header.Get("Idempotent-Replayed") != "true" {
				t.Errorf("first %d %s\nthen %d %s", first.status, first.body, replay.status, replay.body)
			}
			if c.body != `{}` && c.path != held { // those show how far the run is
				same(t, first, replay)
			}
			if again := r.ask(c.method, c.path, c.body, keyName, key); string(again.body) != string(replay.body) {
				t.Errorf("%s\nand then %s", replay.body, again.body)
			}
			if first.json(t)["run_id"] != replay.json(t)["run_id"] {
				t.Errorf("runs %v and %v", first.json(t)["run_id"], replay.json(t)["run_id"])
			}
			if now, _ := r.counts(); c.path == runPath && now != runs+1 {
				t.Errorf("%d runs became %d", runs, now)
			}
		})
	}
}

func TestReceipts(t *testing.T) {
	r := start(t)
	id := r.ask("POST", runPath, `{"wait": true}`, keyName, "a").json(t)["run_id"].(string)
	r.ask("POST", runPath, `{"width": 5}`, keyName, "b")
	r.ask("POST", runPath, `{"wait": true}`, keyName, "c", "X-ComfyGit-Studio-Session", "berta")
	list := func(path string, headers ...string) (keys []string, doc map[string]any) {
		t.Helper()
		doc = r.get(path, headers...).json(t)
		for _, c := range doc["commands"].([]any) {
			keys = append(keys, c.(map[string]any)["key"].(string))
		}
		return keys, doc
	}
	keys, doc := list("/commands")
	if diff := cmp.Diff([]string{"a", "b"}, keys); diff != "" {
		t.Errorf("anna's: %s", diff)
	}
	one := doc["commands"].([]any)[0].(map[string]any)
	if one["run_id"] != id || one["kind"] != "run_contract" || fmt.Sprint(one["status"]) != "200" || one["at"] == nil {
		t.Errorf("receipt %v", one)
	}
	keys, doc = list("/commands?limit=1")
	if diff := cmp.Diff([]string{"a"}, keys); diff != "" || doc["has_more"] != true {
		t.Errorf("first page: %s %v", diff, doc)
	}
	if keys, doc = list(fmt.Sprint("/commands?after=", doc["next_after"])); !cmp.Equal(keys, []string{"b"}) || doc["has_more"] != false {
		t.Errorf("second page: %v %v", keys, doc)
	}
	for _, who := range []string{"carl", ""} {
		if keys, _ = list("/commands", "X-ComfyGit-Studio-Session", who); keys != nil {
			t.Errorf("%q sees %v", who, keys)
		}
	}
	for _, bad := range []string{"x", "-1", "1.5"} {
		if a := r.get("/commands?after=" + bad); a.status != 400 {
			t.Errorf("after=%s: %d", bad, a.status)
		}
	}
}

func TestReceiptsOfAll(t *testing.T) {
	r := start(t, func(o *routes.Options) { o.Token = "t0ken" })
	bearer := []string{"Authorization", "Bearer t0ken"}
	for i, who := range []string{"anna", "berta"} {
		r.ask("POST", runPath, `{"wait": true}`, append(bearer, keyName, fmt.Sprint(i), "X-ComfyGit-Studio-Session", who)...)
	}
	if a := r.get("/commands"); a.status != 401 {
		t.Errorf("without the token: %d", a.status)
	}
	if n := len(r.get("/commands", bearer...).json(t)["commands"].([]any)); n != 2 {
		t.Errorf("the owner sees %d", n)
	}
}
