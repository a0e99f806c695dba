package routes_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/config"
	"github.com/pb33f/libopenapi-validator/schema_validation"
	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"

	"github.com/comfygit-ai/studio-sidecar/routes"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// full asks for every size and variant: they take a while with -race.
var full = flag.Bool("full", false, "hold every variant of the document to OpenAPI's schema")

// described is the document that a server gives of itself.
type described struct {
	t       *testing.T
	raw     []byte
	model   *v3.Document
	checker validator.Validator
	seen    map[string]bool // "GET /path 200"
}

func describe(t *testing.T, r *rig, headers ...string) *described {
	t.Helper()
	a := r.get("/openapi.json", headers...)
	if a.status != 200 {
		t.Fatalf("no document: %d %s", a.status, a.body)
	}
	doc, err := libopenapi.NewDocument(a.body)
	must(t, err)
	model, err := doc.BuildV3Model()
	must(t, err)
	// Strict: what the document does not name is a fault, but for documents that
	// ComfyUI or a caller wrote.
	free := []string{"inputs", "raw", "rawResult", "raw_result", "artifact", "remote_cancel", "comfyui", "targets", "value"}
	for i, name := range free {
		free[i] = "$.body.**." + name + ".**"
	}
	for _, name := range []string{"openapi", "info", "paths", "components", "servers", "security", "graph", "targets"} {
		free = append(free, "$.body."+name)
	}
	checker, errs := validator.NewValidator(doc, config.WithFormatAssertions(), config.WithStrictMode(), config.WithStrictIgnorePaths(free...),
		config.WithStrictIgnoredHeadersExtra("Host", "Date", "Content-Length", "Cache-Control", "Vary", "X-Content-Type-Options", "Referrer-Policy",
			"Content-Security-Policy", "Last-Modified", "Allow", "Connection", "Retry-After", "X-Accel-Buffering", "Www-Authenticate", "Etag", "Set-Cookie"))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return &described{t: t, raw: a.body, model: &model.Model, checker: checker, seen: map[string]bool{}}
}

// check holds an answer to the document.
func (d *described) check(method, path, body string, a reply, headers ...string) {
	d.t.Helper()
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp := &http.Response{StatusCode: a.status, Header: a.header, Body: io.NopCloser(bytes.NewReader(a.body)), Request: req}
	if ok, faults := d.checker.ValidateHttpResponse(req, resp); !ok {
		for _, f := range faults {
			d.t.Errorf("%s %s → %d: %s: %s", method, path, a.status, f.Message, f.Reason)
			for _, s := range f.SchemaValidationErrors {
				d.t.Errorf("    %s: %s", s.KeywordLocation, s.Reason)
			}
		}
		d.t.Logf("%.300s", a.body)
	}
}

func TestDocumentIsValid(t *testing.T) {
	for name, change := range map[string]func(*routes.Options){
		"plain": func(*routes.Options) {}, "prefixed": func(o *routes.Options) { o.PublicPrefix = "/api/v2/x" },
		"token": func(o *routes.Options) { o.Token = "t0ken" },
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, change)
			if name != "token" && !*full {
				var doc struct{ Servers []struct{ URL string } }
				must(t, json.Unmarshal(r.get("/openapi.json").body, &doc))
				if want := map[string]string{"plain": "/", "prefixed": "/api/v2/x"}[name]; doc.Servers[0].URL != want {
					t.Errorf("server %q", doc.Servers[0].URL)
				}
				return
			}
			d := describe(t, r, "Authorization", "Bearer t0ken")
			if ok, faults := d.checker.ValidateDocument(); !ok {
				for _, f := range faults {
					t.Error(f.Message, f.Reason, f.SchemaValidationErrors)
				}
			}
			if want := map[string]string{"plain": "/", "prefixed": "/api/v2/x", "token": "/"}[name]; d.model.Servers[0].URL != want {
				t.Errorf("server %q", d.model.Servers[0].URL)
			}
			if secured := len(d.model.Security) > 0; secured != (name == "token") {
				t.Errorf("security %v", d.model.Security)
			}
		})
	}
}

// ownPath tells the paths that stand for one contract each.
var ownPath = regexp.MustCompile(`^/contracts/[^{/]+/[^{/]+/run$`)

var pattern = regexp.MustCompile(`:[^}]*\}`)

func TestTableIsDocument(t *testing.T) {
	d := describe(t, start(t))
	want, got := map[string]string{}, map[string]string{}
	for _, route := range routes.Table() {
		if !route.Alias {
			want[route.Method+" "+pattern.ReplaceAllString(route.Path, "}")] = route.Summary
		}
	}
	ids := map[string]bool{}
	for path, item := range d.model.Paths.PathItems.FromOldest() {
		for method, op := range item.GetOperations().FromOldest() {
			if ids[op.OperationId] || op.OperationId == "" {
				t.Errorf("%s %s: operation id %q is none of its own", method, path, op.OperationId)
			}
			ids[op.OperationId] = true
			if !ownPath.MatchString(path) {
				got[strings.ToUpper(method)+" "+path] = op.Summary
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("document (-table +document):\n%s", diff)
	}
	for name, summary := range want {
		if summary == "" || strings.HasSuffix(summary, ".") || strings.Contains(summary, "\n") {
			t.Errorf("%s: summary %q", name, summary)
		}
	}
}

func TestTableIsREADME(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "README.md"))
	must(t, err)
	_, rest, ok := strings.Cut(string(text), "<!-- routes")
	if !ok {
		t.Fatal("README has no mark of the list of routes")
	}
	list, _, _ := strings.Cut(rest, "\n#")
	var got, want []string
	for line := range strings.SplitSeq(list, "\n") {
		if strings.HasPrefix(line, "| `") {
			got = append(got, line)
		}
	}
	for _, route := range append(routes.Table(), routes.ProxyTable()...) {
		if !route.Alias {
			want = append(want, "| `"+route.Method+" "+pattern.ReplaceAllString(route.Path, "}")+"` | "+route.Summary+" |")
		}
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("README (-table +README):\n%s", diff)
	}
}

func TestCodesAreInTheDocument(t *testing.T) {
	d := describe(t, start(t))
	schema := d.model.Components.Schemas.GetOrZero("ErrorCode")
	if schema == nil {
		t.Fatal("no ErrorCode")
	}
	have := map[string]bool{}
	for _, node := range schema.Schema().Enum {
		have[node.Value] = true
	}
	for _, code := range []sidecar.Code{sidecar.CodeNotFound, sidecar.CodeBadRequest, "environment_busy", "unknown_host", "unauthorized", "too_many_tries"} {
		if !have[string(code)] {
			t.Errorf("%s is missing", code)
		}
	}
}

const manyInputs = `
[tool.comfygit.workflows."Ünder {x}".execution_contract]
api_prompt_file = "workflow_api/solid.json"
[tool.comfygit.workflows."Ünder {x}".execution_contract.contracts.default]
display_name = "All kinds"
description = "Takes one of each."
inputs = [
  { name = "text", type = "string", node_id = "1", required = true, description = "What to paint." },
  { name = "steps", type = "integer", node_id = "1", required = true, default = 20, min = 1, max = 18446744073709551615 },
  { name = "cfg", type = "number", node_id = "1", required = false, default = 1.0, min = 0.5 },
  { name = "tile", type = "boolean", node_id = "1", required = false, default = true, display_name = "Tiles" },
  { name = "mode", type = "enum", node_id = "1", required = false, enum_values = ["a", "b"], default = "a" },
  { name = "size", type = "integer", node_id = "1", required = false, enum_values = ["1", "2", "x"] },
  { name = "picture", type = "image", node_id = "1", required = true },
  { name = "odd", type = "colour", node_id = "1", required = false },
]
outputs = [ { name = "image", type = "image", node_id = "2" } ]
[tool.comfygit.workflows."_nder _x_".execution_contract]
api_prompt_file = "workflow_api/solid.json"
[tool.comfygit.workflows."_nder _x_".execution_contract.contracts.default]
inputs = []
outputs = []
[tool.comfygit.workflows.broken.execution_contract.contracts.default]
inputs = [ { type = "integer" } ]
`

func TestContractsAreInTheDocument(t *testing.T) {
	r := start(t)
	first := r.get("/openapi.json")
	if again := r.get("/openapi.json", "If-None-Match", first.header.Get("ETag")); again.status != http.StatusNotModified {
		t.Errorf("unchanged: %d", again.status)
	}
	r.writeManifest(pyproject + manyInputs)
	var doc struct {
		Paths      map[string]map[string]any
		Components struct{ Schemas map[string]json.RawMessage }
	}
	must(t, json.Unmarshal(r.get("/openapi.json").body, &doc))
	for _, path := range []string{"/contracts/solid/default/run", "/contracts/a%2Fb%20%25/default/run", "/contracts/%C3%9Cnder%20%7Bx%7D/default/run", "/contracts/_nder%20_x_/default/run"} {
		if doc.Paths[path] == nil {
			t.Errorf("%s is missing", path)
		}
	}
	if len(doc.Paths["/contracts/broken/default/run"]) > 0 {
		t.Error("a broken contract is described")
	}
	post := doc.Paths["/contracts/%C3%9Cnder%20%7Bx%7D/default/run"]["post"].(map[string]any)
	if post["summary"] != "All kinds" || post["description"] != "Takes one of each." || post["operationId"] != "run__nder__x__default" {
		t.Errorf("operation %v", post)
	}
	golden(t, "openapi_inputs", marshal(t, map[string]any{
		"one": doc.Components.Schemas["Inputs__nder__x__default"], "other": doc.Components.Schemas["Inputs__nder__x__default_2"],
		"body": doc.Components.Schemas["Run__nder__x__default"],
	}))
	if ok, faults := describe(t, r).checker.ValidateDocument(); !ok {
		t.Error(faults)
	}
}

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	must(t, err)
	return raw
}

// exchange is one request whose answer is held to the document.
type exchange struct {
	method, path, body string
	status             int
	headers            []string
}

func (d *described) all(r *rig, list []exchange) {
	d.t.Helper()
	for _, x := range list {
		if x.method == "" {
			x.method = "GET"
		}
		if x.body != "" {
			x.headers = append(x.headers, "Content-Type", "application/json")
		}
		a := r.ask(x.method, x.path, x.body, x.headers...)
		if a.status != x.status {
			d.t.Errorf("%s %s: %d, want %d: %.300s", x.method, x.path, a.status, x.status, a.body)
		}
		d.check(x.method, x.path, x.body, a, x.headers...)
		d.seen[x.method+" "+strings.SplitN(x.path, "?", 2)[0]] = true
	}
}

// Every route is asked, and what it answers is as the document says.
func TestAnswersAreAsDocumented(t *testing.T) {
	r := start(t, own)
	d := describe(t, r)
	done := r.run(`{"wait": true}`)
	id, item := done["run_id"].(string), done["gallery_items"].([]any)[0].(map[string]any)
	etag := func(path string) []string { return []string{"If-None-Match", r.get(path).header.Get("ETag")} }
	upload := r.ask("POST", "/uploads/prepare", `{"filename": "a.png", "size": 3}`).json(t)
	put := upload["upload_url"].(string)
	missing := "/runs/" + strings.Repeat("0", 32)
	d.all(r, []exchange{
		{path: "/openapi.json", status: 200}, {path: "/health", status: 200},
		{path: "/contracts", status: 200}, {path: "/contracts", status: 304, headers: etag("/contracts")},
		{path: "/contracts/solid/default", status: 200}, {path: "/contracts/solid/none", status: 400},
		{path: "/runs", status: 200}, {path: "/runs?limit=1", status: 200}, {path: "/runs?limit=x", status: 400}, {path: "/runs", status: 304, headers: etag("/runs")},
		{path: "/runs/" + id, status: 200}, {path: missing, status: 404},
		{path: "/runs/" + id, status: 304, headers: etag("/runs/" + id)}, {path: "/commands", status: 200}, {path: "/commands?after=x", status: 400},
		{path: "/gallery", status: 200}, {path: "/gallery?limit=1", status: 200}, {path: "/gallery?cursor=x", status: 400},
		{path: "/events?after=x", status: 400}, {path: "/events", status: 403, headers: []string{"Origin", "http://evil.example"}},
		{path: "/runs/" + id + "/events?after=x", status: 400}, {path: missing + "/events", status: 404},
		{path: "/runs/" + id + "/preview", status: 404},
		{path: "/runs/" + id + "/view?include=contract,graph,targets", status: 200}, {path: missing + "/view", status: 404}, {path: "/runs/" + id + "/view?include=x", status: 400},
		{path: "/runs/" + id + "/view?at=1", status: 200}, {path: "/runs/" + id + "/view?at=99", status: 400},
		{path: "/runs?metrics=1&counts=1", status: 200}, {path: "/runs?status=x", status: 400}, {path: "/runs/" + id + "/events?format=json", status: 200},
		{path: "/events?format=json&after=0", status: 200}, {path: "/runs/" + id + "/deltas?after=1", status: 200}, {path: "/runs/" + id + "/deltas?after=x", status: 400},
		{path: "/runs/" + id + "/pages/events", status: 200}, {path: "/runs/" + id + "/pages/nodes", status: 200}, {path: "/runs/" + id + "/pages/slots", status: 200},
		{path: "/runs/" + id + "/pages/x", status: 404}, {path: missing + "/deltas", status: 404},
		{path: item["url"].(string), status: 200}, {path: item["url"].(string), status: 206, headers: []string{"Range", "bytes=0-3"}},
		{path: item["url"].(string), status: 416, headers: []string{"Range", "bytes=999999-"}},
		{path: "/outputs/view", status: 400}, {path: "/outputs/view?filename=none.png", status: 404}, {path: "/outputs/view?filename=x&type=temp", status: 403},
		{method: "POST", path: "/contracts/solid/default/run", body: `{"inputs": {"width": 64}, "wait": true}`, status: 200},
		{method: "POST", path: "/contracts/solid/default/run", body: `{}`, status: 200},
		{method: "POST", path: "/contracts/solid/default/run", body: `{"inputs": {"width": "x", "none": 1}}`, status: 400},
		{method: "POST", path: "/contracts/solid/default/run", body: `{`, status: 400},
		{method: "POST", path: "/contracts/none/default/run", body: `{}`, status: 400},
		{method: "POST", path: "/contracts/solid/default/run", body: `{"wait": true, "timeout_seconds": 1e-9}`, status: 504},
		{method: "POST", path: "/contracts/a%2Fb%20%25/default/run", body: `{"wait": true}`, status: 200},
		{method: "POST", path: "/runs/" + id + "/cancel", status: 409}, {method: "POST", path: missing + "/cancel", status: 404},
		{method: "DELETE", path: "/gallery/" + item["id"].(string), status: 412, headers: []string{"If-Match", `"0"`}},
		{method: "PATCH", path: "/runs/" + id, body: `{"title": "Dunes", "pinned": true}`, status: 200}, {method: "PATCH", path: "/runs/" + id, body: `{"colour": 1}`, status: 400},
		{method: "PATCH", path: missing, body: `{"pinned": true}`, status: 404},
		{method: "DELETE", path: "/gallery/" + item["id"].(string), status: 200}, {method: "DELETE", path: "/gallery/none", status: 404},
		{method: "POST", path: "/uploads/prepare", body: `{"filename": "a.png"}`, status: 200}, {method: "POST", path: "/uploads/prepare", body: `[]`, status: 400},
		{path: "/uploads/" + upload["upload_id"].(string) + "/status", status: 200}, {path: "/uploads/none/status", status: 404},
		{method: "PUT", path: strings.Replace(put, "token=", "token=x", 1), status: 403}, {method: "PUT", path: "/uploads/none?token=x", status: 404},
		{path: "/studio-session", status: 200}, {method: "POST", path: "/studio-session", body: `{"passcode": "x"}`, status: 200},
		{method: "POST", path: "/studio-session", body: `[]`, status: 400}, {method: "DELETE", path: "/studio-session", status: 200},
		{method: "DELETE", path: missing, status: 404}, {method: "DELETE", path: "/runs/" + id, status: 200},
		{path: "/livez", status: 200}, {path: "/readyz", status: 200}, {path: "/favicon.ico", status: 204},
		{path: "/", status: 200}, {path: "/assets/js%2Fapp.js", status: 200}, {path: "/assets/none", status: 404},
	})
	d.all(r, queueExchanges(r, missing))
	for _, route := range routes.Table() {
		form := regexp.MustCompile("^" + regexp.MustCompile(`\\\{[^}]*\}`).ReplaceAllString(regexp.QuoteMeta(pattern.ReplaceAllString(route.Path, "}")), "[^/]+") + "$")
		asked := false
		for name := range d.seen {
			method, path, _ := strings.Cut(name, " ")
			asked = asked || method == route.Method && form.MatchString(path)
		}
		if !asked && !route.Alias {
			t.Errorf("%s %s was not asked", route.Method, route.Path)
		}
	}
}

// Failures of a run answer as documented too.
func TestFailuresAreAsDocumented(t *testing.T) {
	r := start(t)
	d := describe(t, r)
	must(t, r.fake.Close())
	d.all(r, []exchange{
		{path: "/health", status: 200}, {path: "/health", status: 200, headers: []string{"X-Forwarded-For", "10.0.0.1"}},
		{method: "POST", path: "/contracts/solid/default/run", body: `{"wait": true}`, status: 502},
		{path: "/runs", status: 200}, {path: "/gallery", status: 200}, {path: "/outputs/view?filename=x.png", status: 502},
		{path: "/runs", status: 421, headers: []string{"Host", "evil.example"}},
	})
	r.writeManifest("[[[")
	d.all(r, []exchange{{path: "/contracts", status: 200}, {path: "/health", status: 200}, {path: "/readyz", status: 200}})
}

// eventKinds says which schema the events of a stream have, by their kinds.
func (d *described) eventKinds(path string) map[string]string {
	d.t.Helper()
	var doc struct {
		Paths map[string]map[string]json.RawMessage
	}
	must(d.t, json.Unmarshal(d.raw, &doc))
	var get struct {
		Responses map[string]struct {
			Events map[string]struct {
				Ref string `json:"$ref"`
			} `json:"x-events"`
		}
	}
	must(d.t, json.Unmarshal(doc.Paths[path]["get"], &get))
	kinds := map[string]string{}
	for kind, schema := range get.Responses["200"].Events {
		kinds[kind] = strings.TrimPrefix(schema.Ref, "#/components/schemas/")
	}
	return kinds
}

// What a stream sends is as the document says of each kind of event.
func TestEventsAreAsDocumented(t *testing.T) {
	r := start(t)
	d := describe(t, r)
	stream := r.listen("/events")
	kinds := d.eventKinds("/events")
	r.fake.Hold() // until there was progress, which a run that has ended has no more
	r.ask("POST", runPath, `{}`)
	told := map[string]bool{}
	for !told["run_completed"] {
		m, ok := stream.next()
		if !ok {
			t.Fatalf("the stream ended after %v", told)
		}
		if m.Name == "" {
			continue
		}
		if told[m.Name] = true; m.Name == "progress" {
			r.fake.Release()
		}
		schema := d.model.Components.Schemas.GetOrZero(kinds[m.Name])
		if schema == nil {
			t.Fatalf("the document does not know the event %q", m.Name)
		}
		if ok, faults := schema_validation.NewSchemaValidator().ValidateSchemaString(schema.Schema(), m.Data); !ok {
			t.Errorf("%s %s: %v", m.Name, m.Data, faults)
		}
	}
	for _, want := range []string{"run_started", "node_started", "progress", "run_output_completed", "run_completed"} {
		if !told[want] {
			t.Errorf("no %s came: %v", want, told)
		}
	}
}
