package routes_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/routes"
)

// slot is an answer to a request to prepare an upload.
type slot struct {
	UploadID string         `json:"upload_id"`
	URL      string         `json:"upload_url"`
	FileRef  map[string]any `json:"file_ref"`
}

func (r *rig) prepare(body string, headers ...string) slot {
	r.t.Helper()
	a := r.ask("POST", "/uploads/prepare", body, headers...)
	var s slot
	if err := json.Unmarshal(a.body, &s); a.status != http.StatusOK || err != nil {
		r.t.Fatalf("prepare: %d %s %v", a.status, a.body, err)
	}
	return s
}

// inputs are the names in the folder of uploads.
func (r *rig) inputs() []string {
	r.t.Helper()
	entries, err := os.ReadDir(r.uploads)
	must(r.t, err)
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// withLoader adds a workflow that loads a picture.
func (r *rig) withLoader() *rig {
	r.t.Helper()
	r.writeManifest(pyproject + `
[tool.comfygit.workflows.load.execution_contract]
api_prompt_file = "workflow_api/load.json"
[tool.comfygit.workflows.load.execution_contract.contracts.default]
inputs = [ { name = "picture", type = "image", node_id = "1", required = true, api_field_key = "image" } ]
outputs = [ { name = "image", type = "image", node_id = "2" } ]
`)
	must(r.t, os.WriteFile(filepath.Join(r.env, ".cec", "workflow_api", "load.json"), []byte(
		`{"1":{"class_type":"LoadImage","inputs":{"image":""}},"2":{"class_type":"SaveImage","inputs":{"filename_prefix":"l","images":["1",0]}}}`), 0o644))
	return r
}

func TestUploadWholeWay(t *testing.T) {
	r := start(t)
	a := r.ask("POST", "/uploads/prepare", `{"filename": "my photo (1).PNG", "mime_type": "image/png", "size": 12}`)
	made := a.json(t)
	id, at := made["upload_id"].(string), made["upload_url"].(string)
	ref := map[string]any{"kind": "file_ref", "ref": id, "filename": "myphoto1.PNG", "mime_type": "image/png", "size": json.Number("12")}
	want := map[string]any{
		"kind": "upload_slot", "upload_id": id, "ref": id, "upload_url": at, "method": "PUT",
		"headers": map[string]any{"content-type": "image/png"}, "destination": "input", "max_size": json.Number("268435456"), "file_ref": ref,
	}
	if diff := cmp.Diff(want, made); diff != "" || len(a.header.Values("Set-Cookie")) != 0 {
		t.Error(diff, a.header)
	}
	if !strings.HasPrefix(at, "/uploads/"+id+"?token=") || len(at) < len(id)+len("/uploads/?token=")+43 {
		t.Errorf("upload_url %s", at)
	}
	shows := func(what string, a reply, status string, ref map[string]any) {
		t.Helper()
		if diff := cmp.Diff(map[string]any{"status": status, "file_ref": ref}, a.json(t)); a.status != http.StatusOK || diff != "" {
			t.Errorf("%s: %d %s", what, a.status, diff)
		}
	}
	shows("before", r.get("/uploads/"+id+"/status"), "pending", ref)
	// A PUT shows who it is by its token alone.
	shows("put", r.ask("PUT", at, "\x89PNG\r\n\x1a\nabcd", "X-ComfyGit-Studio-Session", ""), "ready", ref)
	shows("after", r.get("/uploads/"+id+"/status"), "ready", ref)
	if data, err := os.ReadFile(filepath.Join(r.uploads, id+"_myphoto1.PNG")); err != nil || string(data) != "\x89PNG\r\n\x1a\nabcd" {
		t.Errorf("on the disk: %q %v", data, err)
	}
}

func TestUploadTypes(t *testing.T) {
	r := start(t)
	for _, c := range []struct{ prepared, data, want string }{
		{`{"filename": "a.png"}`, "GIF89a..........", "image/gif"},
		{`{"filename": "a.png", "mime_type": "text/plain"}`, "\x89PNG\r\n\x1a\n.......", "image/png"},
		{`{"filename": "a.png"}`, "<!DOCTYPE html><script>", "text/html"},
		{`{"filename": "a.csv", "mime_type": "text/csv"}`, "a;b", "text/csv"},
		{`{"filename": "a.wav"}`, "", "audio/wav"},
		{`{"filename": "a", "mime_type": "no type\r\n"}`, "abc", "application/octet-stream"},
	} {
		a := r.ask("PUT", r.prepare(c.prepared).URL, c.data)
		if got := a.json(t)["file_ref"].(map[string]any)["mime_type"]; got != c.want {
			t.Errorf("%s with %q: %v, want %s", c.prepared, c.data, got, c.want)
		}
	}
}

func TestUploadSizes(t *testing.T) {
	r := start(t, func(o *routes.Options) { o.MaxRequestBytes = 1 << 20 })
	for _, c := range []struct {
		given string
		want  any
	}{
		{"0", 0.0}, {"5", 5.0}, {"-5", nil}, {`"7"`, 7.0}, {`"x"`, nil}, {`"0x10"`, nil}, {`"inf"`, nil}, {`""`, nil}, {"1.9", 1.0}, {"null", nil}, {"true", 1.0},
		{"false", nil}, {"[1]", nil}, {"1048576", 1048576.0},
	} {
		if got := r.prepare(`{"size": ` + c.given + `}`).FileRef["size"]; got != c.want {
			t.Errorf("size %s: %v, want %v", c.given, got, c.want)
		}
	}
	for _, size := range []string{"1048577", "100000000000000000000", "1e999"} {
		a := r.ask("POST", "/uploads/prepare", `{"size": `+size+`}`)
		if got := a.json(t)["message"]; a.status != 400 || got != "Upload is too large. This cg serve instance accepts files up to 1048576 bytes." {
			t.Errorf("size %s: %d %v", size, a.status, got)
		}
	}
	const tooLarge = "Upload is too large. This cg serve instance accepts uploads up to 1 MiB."
	const short = "The upload has 3 bytes, but 10 were announced."
	whole, chunked := 0, func(n int) io.Reader { return io.MultiReader(strings.NewReader(strings.Repeat("y", n))) }
	for _, c := range []struct {
		name, prepare string
		body          io.Reader
		status        int
		message       any
	}{
		{"just fits", `{}`, strings.NewReader(strings.Repeat("x", 1<<20)), 200, nil},
		{"just fits, in chunks", `{}`, chunked(1 << 20), 200, nil},
		{"too large", `{}`, strings.NewReader(strings.Repeat("x", 1<<20+1)), 413, tooLarge},
		{"too large, in chunks", `{}`, chunked(1<<20 + 1), 413, tooLarge},
		{"far too large, in chunks", `{}`, chunked(3 << 20), 413, tooLarge},
		{"as announced", `{"size": 10}`, strings.NewReader("0123456789"), 200, nil},
		{"shorter", `{"size": 10}`, strings.NewReader("012"), 400, short},
		{"shorter, in chunks", `{"size": 10}`, chunked(3), 400, short},
		{"longer, in chunks", `{"size": 10}`, chunked(13), 400, "The upload has 13 bytes, but 10 were announced."},
		{"empty", `{}`, http.NoBody, 200, nil},
	} {
		s := r.prepare(c.prepare)
		req, err := http.NewRequestWithContext(t.Context(), "PUT", r.server.URL+s.URL, c.body)
		must(t, err)
		a := r.send(req)
		if got := a.json(t)["message"]; a.status != c.status || got != c.message {
			t.Errorf("%s: %d %v", c.name, a.status, got)
		}
		if c.status == 200 {
			whole++
		} else if got := r.get("/uploads/" + s.UploadID + "/status").json(t)["status"]; got != "pending" {
			t.Errorf("%s: then it is %v", c.name, got)
		}
		if got := r.inputs(); len(got) != whole {
			t.Errorf("%s: there is %q", c.name, got)
		}
	}
}

func TestUploadErrors(t *testing.T) {
	r := start(t)
	s := r.prepare(`{"filename": "a.png"}`)
	for _, c := range []struct {
		method, path string
		status       int
		code         string
	}{
		{"PUT", "/uploads/none?token=x", 404, "not_found"},
		{"PUT", "/uploads/" + s.UploadID, 403, "forbidden"},
		{"PUT", "/uploads/" + s.UploadID + "?token=wrong", 403, "forbidden"},
		{"PUT", "/uploads/" + s.UploadID + "?token=%C3%BC%FF", 403, "forbidden"},
		{"PUT", "/uploads/" + s.UploadID + "?token=x&token=y;", 403, "forbidden"},
		{"PUT", s.URL + "x", 403, "forbidden"},
		{"POST", s.URL, 405, "method_not_allowed"},
		{"GET", "/uploads/none/status", 404, "not_found"},
		{"GET", "/uploads/" + s.UploadID + "%00/status", 404, "not_found"},
	} {
		a := r.ask(c.method, c.path, "x")
		if got := a.json(t)["error"]; a.status != c.status || got != c.code {
			t.Errorf("%s %s: %d %v", c.method, c.path, a.status, got)
		}
	}
	for body, message := range map[string]string{
		"{": "Invalid JSON body: ", "[]": "Request body must be a JSON object.", `"x"`: "Request body must be a JSON object.", `{"a":1,"a":2}`: "Invalid JSON body: ",
	} {
		a := r.ask("POST", "/uploads/prepare", body)
		if got, _ := a.json(t)["message"].(string); a.status != 400 || !strings.HasPrefix(got, message) {
			t.Errorf("body %s: %d %s", body, a.status, got)
		}
	}
	for _, body := range []string{"", "null", "{}"} {
		if got := r.prepare(body).FileRef; !strings.HasSuffix(fmt.Sprint(got["filename"]), ".bin") || got["mime_type"] != "application/octet-stream" {
			t.Errorf("body %q: %v", body, got)
		}
	}
	if got := r.inputs(); len(got) != 0 {
		t.Errorf("there is %q", got)
	}
}

func TestUploadPrefix(t *testing.T) {
	r := start(t, func(o *routes.Options) { o.PublicPrefix = "/studio/api" })
	s := r.prepare(`{"filename": "a.png"}`)
	if !strings.HasPrefix(s.URL, "/studio/api/uploads/"+s.UploadID+"?token=") {
		t.Errorf("upload_url %s", s.URL)
	}
	if a := r.ask("PUT", s.URL, "x"); a.status != http.StatusOK {
		t.Errorf("put: %d %s", a.status, a.body)
	}
}

// hostile are file names, and ids in addresses, that lead elsewhere where they
// are believed.
var hostile = []string{
	"../x.png", "../../x.png", "../../../../../../etc/passwd", "..", ".", "./x", "/x.png", "//x.png", "/etc/passwd", "x/../../y.png", "x/../../../y.png",
	`..\x.png`, `..\..\x.png`, `C:\x.png`, `C:x.png`, `\\host\share\x.png`, `\\?\C:\x.png`, `\\.\pipe\x`, `x\..\..\y`, "c:/x.png", "file:///etc/passwd",
	"%2e%2e%2fx.png", "..%2fx.png", "..%2Fx.png", "%2e%2e/x.png", "..%5cx.png", "%252e%252e%252fx.png", "..%252fx.png", "%c0%ae%c0%ae/x.png", "%00x.png", "x.png%00.txt",
	"x\x00.png", "\x00", "x\n.png", "x\r\nX-Evil: 1", "x\t.png", "x\x7f.png", "\u202ex.png", "x\u2028.png", "..\u2215x.png", "..\uff0fx.png", "\uff0e\uff0e/x.png",
	"CON", "CON.png", "nul", "COM1.png", "aux.", "x.png:stream", "x.png::$DATA", "x.png.", "x.png ", " ", "...", "....//x.png", "~/x.png", "$HOME/x.png", "`id`.png", "$(id).png",
	"|id", "*", "?", "<x>.png", `"x".png`, "-rf", ".htaccess", ".ssh/authorized_keys", strings.Repeat("x", 300) + ".png", strings.Repeat("../", 100) + "x", strings.Repeat("ü", 300),
	"\xff\xfe.png", "x\xc0\xaf.png", "[input].png", "x.png [output]",
}

func TestHostileUploads(t *testing.T) {
	r := start(t).withLoader()
	around := func() (all []string) {
		must(t, filepath.WalkDir(filepath.Dir(r.env), func(path string, d os.DirEntry, err error) error {
			if err == nil && filepath.Dir(path) != r.uploads {
				all = append(all, path)
			}
			return err
		}))
		return all
	}
	before := around()
	for _, name := range hostile {
		body, err := json.Marshal(map[string]string{"filename": name, "mime_type": name})
		must(t, err)
		s := r.prepare(string(body))
		if a := r.ask("PUT", s.URL, "x"); a.status != http.StatusOK {
			t.Errorf("%q: put %d %s", name, a.status, a.body)
		}
		stored := s.UploadID + "_" + s.FileRef["filename"].(string)
		if !slices.Contains(r.inputs(), stored) || len(stored) > 255 || strings.ContainsAny(stored, "/\\\x00\r\n :*?\"<>|") {
			t.Errorf("%q became %q", name, stored)
		}
		for _, at := range []string{url.PathEscape(name), strings.ReplaceAll(url.PathEscape(name), "%", "%25")} {
			for _, method := range []string{"PUT", "GET"} {
				path := map[string]string{"PUT": "/uploads/" + at + "?token=x", "GET": "/uploads/" + at + "/status"}[method]
				if a := r.ask(method, path, ""); a.status < 400 || a.status >= 500 {
					t.Errorf("%s %s: %d %s", method, path, a.status, a.body)
				}
			}
		}
		ref, err := json.Marshal(map[string]any{"kind": "file_ref", "ref": name})
		must(t, err)
		if a := r.ask("POST", "/contracts/load/default/run", `{"inputs": {"picture": `+string(ref)+`}}`); a.status != 400 {
			t.Errorf("run with %q: %d %s", name, a.status, a.body)
		}
	}
	if len(hostile) < 60 || len(r.inputs()) != len(hostile) {
		t.Errorf("%d names, %d files", len(hostile), len(r.inputs()))
	}
	if diff := cmp.Diff(before, around()); diff != "" {
		t.Errorf("written elsewhere: %s", diff)
	}
}

func TestUploadBinding(t *testing.T) {
	var picture bytes.Buffer
	must(t, png.Encode(&picture, image.NewGray(image.Rect(0, 0, 4, 4))))
	for _, c := range []struct {
		name, owner, user string
		shared            bool
		status            int
	}{
		{"its own", "anna", "anna", false, 200},
		{"anothers", "anna", "bert", false, 400},
		{"nobodys", "", "bert", false, 200},
		{"anothers in a shared gallery", "anna", "bert", true, 200},
		{"for a stranger", "anna", "", false, 400},
	} {
		r := start(t, func(o *routes.Options) { o.Shared = c.shared }).withLoader()
		s := r.prepare(`{"filename": "a.png"}`, "X-ComfyGit-Studio-Session", c.owner)
		if a := r.ask("PUT", s.URL, picture.String()); a.status != http.StatusOK {
			t.Fatalf("put: %d %s", a.status, a.body)
		}
		a := r.ask("POST", "/contracts/load/default/run", `{"wait": true, "inputs": {"picture": {"kind": "file_ref", "ref": "`+s.UploadID+`"}}}`,
			"X-ComfyGit-Studio-Session", c.user)
		if a.status != c.status {
			t.Errorf("%s: %d %s", c.name, a.status, a.body)
		}
	}
}

func TestUploadBrokenOff(t *testing.T) {
	for _, c := range []struct{ name, head, body string }{
		{"of a known length", "Content-Length: 1000000", strings.Repeat("z", 100_000)},
		{"in chunks", "Transfer-Encoding: chunked", "4000\r\n" + strings.Repeat("z", 0x4000) + "\r\n"},
		{"in a broken chunk", "Transfer-Encoding: chunked", "4000\r\nzzz"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := start(t)
			s := r.prepare(`{"filename": "part.bin"}`)
			conn := r.dialRaw()
			_, err := fmt.Fprintf(conn, "PUT %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n%s", s.URL, c.head, c.body)
			must(t, err)
			eventually(t, "it is being received", func() bool { return len(r.inputs()) == 1 })
			must(t, conn.Close())
			eventually(t, "nothing is left", func() bool { return len(r.inputs()) == 0 })
			if got := r.get("/uploads/" + s.UploadID + "/status").json(t)["status"]; got != "pending" {
				t.Errorf("it is %v", got)
			}
			if a := r.ask("PUT", s.URL, "whole"); a.status != http.StatusOK {
				t.Errorf("sent again: %d %s", a.status, a.body)
			}
		})
	}
	t.Run("by the server's end", func(t *testing.T) {
		r := start(t)
		s := r.prepare(`{"filename": "part.bin"}`)
		conn := r.dialRaw()
		_, err := fmt.Fprintf(conn, "PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nzzz", s.URL)
		must(t, err)
		eventually(t, "it is being received", func() bool { return len(r.inputs()) == 1 })
		must(t, r.server.Config.Shutdown(t.Context()))
		if got := r.inputs(); len(got) != 0 {
			t.Errorf("left: %q", got)
		}
	})
}
