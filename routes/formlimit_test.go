package routes_test

import (
	"fmt"
	"io"
	"io/fs"
	"mime/multipart"
	"path/filepath"
	"strings"
	"testing"

	"github.com/comfygit-ai/studio-sidecar/routes"
	"github.com/comfygit-ai/studio-sidecar/sidecar/protocol"
)

// formLimit is the limit of requests here, in bytes.
const formLimit = 4 << 10

// TestFormLimits: the limit of requests holds for each file that comes along
// and for the payload, not for all of them together; so many files are too many.
func TestFormLimits(t *testing.T) {
	t.Run("submission", submissionLimits)
	t.Run("callback", callbackLimits)
}

func submissionLimits(t *testing.T) {
	const limit = formLimit
	r := start(t, func(o *routes.Options) { o.Role, o.MaxRequestBytes = routes.RoleProxy, limit })
	send := func(told string, sizes ...int) reply {
		var files []protocol.File
		var listed []string
		for i, size := range sizes {
			content := strings.Repeat(fmt.Sprint(i), size)
			name := fmt.Sprintf("f%d.png", i)
			listed = append(listed, fmt.Sprintf(`{"field_name":"f%d","comfyui_filename":%q%s}`, i, name, told))
			files = append(files, protocol.File{Field: fmt.Sprintf("f%d", i), Name: name, Type: "image/png", Size: int64(size), Open: func() (io.ReadCloser, error) {
				return io.NopCloser(strings.NewReader(content)), nil
			}})
		}
		payload := `{"prompt":{"1":{"class_type":"EmptyImage","inputs":{"width":64,"height":64,"batch_size":1,"color":1}},"2":{"class_type":"SaveImage","inputs":{"filename_prefix":"t","images":["1",0]}}},"outputs":[],"uploads":[` + strings.Join(listed, ",") + `]}`
		form, err := protocol.NewForm([]byte(payload), files)
		must(t, err)
		body, err := io.ReadAll(form)
		must(t, err)
		return r.ask("POST", "/proxy/runs", string(body), "Content-Type", form.ContentType)
	}
	if a := send("", limit, limit, limit); a.status != 200 {
		t.Errorf("three files of just the limit: %d %s", a.status, a.body)
	}
	for name, a := range map[string]reply{"a larger file": send("", 3, limit+1), "one that is announced larger": send(`,"size":"4097"`, 3)} {
		if message, _ := a.json(t)["message"].(string); a.status != 400 || !strings.HasSuffix(message, "is too large. Limit: 4096 bytes.") {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	if a := send(`,"note":"`+strings.Repeat("x", limit)+`"`, 3); a.status != 413 {
		t.Errorf("a larger payload: %d %s", a.status, a.body)
	}
	r = start(t, func(o *routes.Options) { o.Role = routes.RoleProxy })
	if a := send("", make([]int, 4097)...); a.status != 413 || a.json(t)["message"] != "The form brings too many files. At most 4096 are taken." {
		t.Errorf("4097 files: %d %s", a.status, a.body)
	}
}

func callbackLimits(t *testing.T) {
	r := start(t, func(o *routes.Options) {
		o.MaxRequestBytes, o.Callbacks, o.CallbackTokens = formLimit, true, protocol.Tokens{Secret: []byte("x"), Configured: "secret"}
	})
	r.fake.Hold()
	defer r.fake.Release()
	path := "/worker-callback/runs/" + r.asked(`{}`)["run_id"].(string)
	// send tells a status and the artifacts of one output, and brings a file
	// of a size for each field.
	send := func(status, artifacts, before string, fields []string, size int) reply {
		var form strings.Builder
		parts := multipart.NewWriter(&form)
		add := func(field string) {
			part, err := parts.CreateFormFile(field, field+".bin")
			must(t, err)
			_, err = io.WriteString(part, strings.Repeat("x", size))
			must(t, err)
		}
		if before != "" {
			add(before)
		}
		must(t, parts.WriteField("payload", `{"status": "`+status+`", "outputs": [{"artifacts": [`+artifacts+`]}]}`))
		for _, field := range fields {
			add(field)
		}
		must(t, parts.Close())
		return r.ask("POST", path, form.String(), "Content-Type", parts.FormDataContentType(), "Authorization", "Bearer secret")
	}
	three := []string{"artifact_0_0", "artifact_0_1", "artifact_0_2"}
	many := make([]string, 4097)
	for n := range many {
		many[n] = fmt.Sprintf("more_%d", n)
	}
	for name, c := range map[string]struct {
		before string
		fields []string
		size   int
		status int
		says   string
	}{
		"a larger file":                   {"", three, formLimit + 1, 413, "Callback upload 'artifact_0_0' is too large. Limit: 4096 bytes."},
		"a larger file that nobody wants": {"", []string{"other"}, formLimit + 1, 413, "Callback upload 'other' is too large. Limit: 4096 bytes."},
		"a file before the payload":       {"artifact_0_0", nil, 1, 400, "Worker callback request is missing a payload field."},
		"4097 files":                      {"", many, 1, 413, "The form brings too many files. At most 4096 are taken."},
	} {
		a := send("running", "{}, {}, {}", c.before, c.fields, c.size)
		if message := a.json(t)["message"]; a.status != c.status || message != c.says {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	if a := send("running", strings.Repeat("{},", formLimit)+"{}", "", nil, 0); a.status != 413 {
		t.Errorf("a larger payload: %d %s", a.status, a.body)
	}
	if left := r.copied(); len(left) != 0 {
		t.Errorf("%d copies are left of refused forms", len(left))
	}
	if a := send("completed", "{}, {}, {}", "", three, formLimit); a.status != 200 || len(r.copied()) != 3 {
		t.Errorf("three files of just the limit: %d %s, %d copies", a.status, a.body, len(r.copied()))
	}
}

// copied lists the files that are kept of outputs.
func (r *rig) copied() (files []string) {
	r.t.Helper()
	must(r.t, filepath.WalkDir(r.artifacts, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, path)
		}
		return err
	}))
	return files
}
