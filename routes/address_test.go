package routes_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/comfygit-ai/studio-sidecar/routes"
)

const prefix = "/api/v2/studio/runtime"

// crawl asks for everything that an answer names, and fails on an address
// that lacks the prefix.
func crawl(t *testing.T, r *rig, doc any) (found int) {
	t.Helper()
	switch v := doc.(type) {
	case []any:
		for _, e := range v {
			found += crawl(t, r, e)
		}
	case map[string]any:
		for key, value := range v {
			address, ok := value.(string)
			if key != "url" && key != "upload_url" || !ok {
				found += crawl(t, r, value)
				continue
			}
			found++
			if !strings.HasPrefix(address, prefix+"/") || strings.Count(address, prefix) != 1 {
				t.Errorf("address %s", address)
			}
			if a := r.get(address); a.status != http.StatusOK || a.header.Get("Content-Type") != "image/png" {
				t.Errorf("%s: %d %s", address, a.status, a.body)
			}
		}
	}
	return found
}

func TestEveryAddressCarriesThePrefix(t *testing.T) {
	for name, change := range map[string]func(*routes.Options){
		"public": func(o *routes.Options) { o.PublicPrefix = prefix + "/" },
		"mounted": func(o *routes.Options) {
			o.RoutePrefix = prefix
		},
		"both": func(o *routes.Options) { o.PublicPrefix, o.RoutePrefix = prefix, "/cg" },
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, change)
			answers := []reply{
				r.ask("POST", prefix+runPath, `{"wait": true}`),
				r.ask("POST", prefix+"/contracts/solid/preview/run", `{"wait": true}`),
				r.get(prefix + "/gallery"), r.get(prefix + "/runs"),
			}
			var first struct {
				ID string `json:"run_id"`
			}
			must(t, json.Unmarshal(answers[0].body, &first))
			answers = append(answers,
				r.get(prefix+"/runs/"+first.ID), r.ask("POST", prefix+"/runs/"+first.ID+"/cancel", ""))
			for i, a := range answers {
				if n := crawl(t, r, a.json(t)); n == 0 {
					t.Errorf("answer %d names nothing: %s", i, a.body)
				}
			}
		})
	}
}

func TestPaths(t *testing.T) {
	public := start(t, func(o *routes.Options) { o.PublicPrefix, o.PublicUIPrefix = prefix, "/studio" })
	mounted := start(t, func(o *routes.Options) { o.RoutePrefix = "/cg" })
	plain := start(t)
	cases := []struct {
		name   string
		r      *rig
		path   string
		accept string
		status int
	}{
		{"public_with", public, prefix + "/health", "", 200}, {"public_without", public, "/health", "", 200},
		{"ui_prefix", public, "/studio/health", "", 200}, {"longer_word", public, prefix + "x/health", "", 404},
		{"mounted", mounted, "/cg/health", "", 200}, {"outside", mounted, "/health", "text/html", 404}, {"outside_root", mounted, "/", "text/html", 404},
		{"mounted_unknown", mounted, "/cg/nowhere", "text/html", 404}, {"mounted_icon", mounted, "/cg/favicon.ico", "", 204},
		{"trailing_slash", plain, "/health/", "", 404}, {"doubled_slash", plain, "//health", "", 404},
		{"api_path_of_a_browser", plain, "/runs/", "text/html", 404}, {"empty_name", plain, "/contracts//default", "text/html", 404},
		{"dots", plain, "/x/../health", "", 404}, {"encoded_dots", plain, "/%2e%2e/health", "", 404}, {"nul", plain, "/runs/%00", "", 404},
		{"slash_in_id", plain, "/runs/a%2Fb", "", 404}, {"icon", plain, "/favicon.ico", "", 204},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if a := c.r.get(c.path, "Accept", c.accept); a.status != c.status {
				t.Errorf("%s: %d, want %d: %s", c.path, a.status, c.status, a.body)
			}
		})
	}
	if a := plain.get("/runs/a%2Fb%2520"); a.json(t)["message"] != "Run 'a/b%20' was not found." {
		t.Errorf("unescaped other than once: %s", a.body)
	}
}
