package routes

import (
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// apiFiles describe schemas, parameters and operations; the reference's
// document is in them. Which paths there are is said by the table of routes.
//
//go:embed openapi
var apiFiles embed.FS

// object is a JSON object of the description.
type object = map[string]any

// openAPI describes the API, and each contract of the manifest as it is now.
func (c *call) openAPI() error {
	snap := c.studio.Catalog().Snapshot()
	return c.shared(pageKey{route: "openapi", snapshot: snap}, func() ([]byte, error) { return c.describeAPI(snap) })
}

func (s *Server) describeAPI(snap *manifest.Snapshot) ([]byte, error) {
	d := description{schemas: object{}, paths: object{}, operations: map[string]object{}, names: map[string]bool{}}
	var components object
	for name, into := range map[string]any{"components": &components, "schemas": &d.schemas, "operations": &d.operations} {
		text, err := apiFiles.ReadFile("openapi/" + name + ".json")
		if err == nil {
			err = json.Unmarshal(text, into)
		}
		if err != nil {
			return nil, fmt.Errorf("describe the API: %w", err)
		}
	}
	d.schemas["ErrorCode"] = object{"type": "string", "enum": codes()}
	for _, r := range table() {
		if !r.Alias {
			if err := d.route(r); err != nil {
				return nil, err
			}
		}
	}
	for _, contract := range snap.Contracts() {
		if contract.Fault == nil {
			d.contract(contract)
		}
	}
	components["schemas"] = d.schemas
	whole := object{
		"openapi": "3.1.0", "info": apiInfo(), "paths": d.paths, "components": components,
		"servers": []object{{"url": s.urls.prefix + "/", "description": "Mounted Studio runtime API base path"}},
	}
	if s.urls.prefix != "" {
		whole["servers"].([]object)[0]["url"] = s.urls.prefix
	}
	if s.guard.token != "" {
		whole["security"] = []object{{"bearer": []string{}}, {"signIn": []string{}}}
	} else {
		delete(components, "securitySchemes")
	}
	return json.Marshal(whole)
}

// apiVersion is the version of the API that clients were written for, not of
// this server.
const apiVersion = "1.0.0"

func apiInfo() object {
	return object{
		"title": "ComfyGit Studio Contract API", "version": apiVersion,
		"description": "Contracts of a ComfyUI environment: read them, run them, follow the runs, fetch what they made. " +
			"Every GET answers HEAD too. Beside each general path to run a contract stands one for each contract that there is, with its inputs.",
	}
}

// codes lists all codes of errors.
func codes() []sidecar.Code { return slices.Sorted(maps.Keys(statuses)) }

// description is an OpenAPI document in the making.
type description struct {
	schemas, paths object
	operations     map[string]object // by the name of the route
	names          map[string]bool   // of contracts, as they are in ids
}

var pathVariable = regexp.MustCompile(`\{(\w+):[^}]*\}`)

// route describes one line of the table.
func (d *description) route(r Route) error {
	op := d.operations[r.Name]
	if op == nil {
		return fmt.Errorf("describe the API: route %s has no operation", r.Name)
	}
	op["summary"] = r.Summary
	d.common(op)
	path := pathVariable.ReplaceAllString(r.Path, "{$1}")
	item, ok := d.paths[path].(object)
	if !ok {
		item = object{}
		d.paths[path] = item
	}
	// Parameters that the reference does not list stand beside its operation.
	beside, _ := op["pathParameters"].([]any)
	delete(op, "pathParameters")
	if r.changes() {
		beside = append(beside, keyParameter)
	}
	known, _ := item["parameters"].([]any)
	for _, parameter := range beside {
		if !slices.ContainsFunc(known, func(k any) bool { return reflect.DeepEqual(k, parameter) }) {
			known = append(known, parameter)
		}
	}
	if known != nil {
		item["parameters"] = known
	}
	item[strings.ToLower(r.Method)] = op
	return nil
}

// keyParameter is the key that every change may come with.
var keyParameter = object{"$ref": "#/components/parameters/idempotencyKey"}

// anyBytes is the content of answers with files. Generators of clients know
// the first type, and take the first.
var anyBytes = json.RawMessage(`{"application/octet-stream":{"schema":{"type":"string","format":"binary"}},"*/*":{"schema":{"type":"string","format":"binary"}}}`)

// common adds what every operation may answer.
func (d *description) common(op object) {
	answers, _ := op["responses"].(object)
	for _, answer := range answers {
		answer, _ := answer.(object)
		if _, shared := answer["$ref"]; shared {
			continue
		}
		headers, ok := answer["headers"].(object)
		if !ok {
			headers = object{}
			answer["headers"] = headers
		}
		if content, ok := answer["content"].(object); ok && content["*/*"] != nil {
			answer["content"] = anyBytes
		}
		headers["X-Request-ID"] = object{"$ref": "#/components/headers/RequestId"}
	}
	answers["default"] = object{"$ref": "#/components/responses/Fault"}
}

// contract describes the path that runs one contract.
func (d *description) contract(c *manifest.Contract) {
	name := d.name(c)
	d.schemas["Inputs_"+name] = inputsSchema(c)
	d.schemas["Run_"+name] = runSchema(c, "Inputs_"+name)
	op := maps.Clone(d.operations["run_contract"])
	op["operationId"] = "run_" + name
	op["summary"] = "Run " + c.Workflow + " / " + c.Name
	if c.DisplayName != "" {
		op["summary"] = c.DisplayName
	}
	if c.Description != "" {
		op["description"] = c.Description
	}
	delete(op, "parameters")
	op["requestBody"] = object{
		"required": len(requiredInputs(c)) > 0,
		"content":  object{"application/json": object{"schema": schemaRef("Run_" + name)}},
	}
	d.paths["/contracts/"+pathSegment(c.Workflow)+"/"+pathSegment(c.Name)+"/run"] = object{
		"post": op, "parameters": []object{{"$ref": "#/components/parameters/session"}, keyParameter},
	}
}

// name is a contract's name as ids may be written, and no other's.
func (d *description) name(c *manifest.Contract) string {
	plain := identifier(c.Workflow) + "_" + identifier(c.Name)
	name := plain
	for n := 2; d.names[strings.ToLower(name)]; n++ {
		name = plain + "_" + strconv.Itoa(n)
	}
	d.names[strings.ToLower(name)] = true
	return name
}

func identifier(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x80 && sane(string(r)) && r != '-' {
			return r
		}
		return '_'
	}, s)
}

func schemaRef(name string) object { return object{"$ref": "#/components/schemas/" + name} }
