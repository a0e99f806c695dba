package routes_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/comfygit-ai/studio-sidecar/routes"
	"github.com/comfygit-ai/studio-sidecar/sidecar/protocol"
)

// TestFormLimits: the limit of requests holds for each file that comes along
// and for the payload, not for all of them together.
func TestFormLimits(t *testing.T) {
	const limit = 4 << 10
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
}
