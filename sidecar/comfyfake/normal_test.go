package comfyfake_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime/multipart"
	"net/textproto"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// form builds an upload with a file of the recorded length: a picture if it
// is named so.
func form(t *testing.T, fields map[string]json.RawMessage) (io.Reader, string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, k := range slices.Sorted(maps.Keys(fields)) {
		var file struct {
			Filename string
			Len      int
		}
		var text string
		if json.Unmarshal(fields[k], &file) == nil || (k == "image" && fields["len"] != nil) {
			if json.Unmarshal(fields[k], &text) == nil {
				file.Filename = text
				if err := json.Unmarshal(fields["len"], &file.Len); err != nil {
					t.Fatal(err)
				}
			}
			h := textproto.MIMEHeader{}
			h.Set("Content-Disposition", fmt.Sprintf(`form-data; name=%q; filename="%s"`, k, strings.ReplaceAll(file.Filename, `"`, `\"`)))
			part, err := w.CreatePart(h)
			if err != nil {
				t.Fatal(err)
			}
			part.Write(fileOf(file.Filename, file.Len)) // a buffer
			continue
		}
		if json.Unmarshal(fields[k], &text) == nil {
			w.WriteField(k, text) // a buffer
		}
	}
	w.Close() // a buffer
	return &b, w.FormDataContentType()
}

var unordered = map[string]bool{"nodes": true, "executed": true, "current_outputs": true}

// normal is a JSON text without what differs from run to run, with its keys
// sorted.
func normal(t *testing.T, data []byte) string {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return string(data)
	}
	out, err := json.MarshalIndent(scrub("", v), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

var folder = regexp.MustCompile(`'/[^']*/`)

var tempName = regexp.MustCompile(`ComfyUI_temp_[a-z]{5}_`)

func scrub(key string, v any) any {
	switch v := v.(type) {
	case string:
		if key == "exception_message" {
			v = folder.ReplaceAllString(v, "'")
		}
		return tempName.ReplaceAllString(v, "ComfyUI_temp_xxxxx_")
	case map[string]any:
		for k := range v {
			switch k {
			case "timestamp", "number", "create_time":
				v[k] = "*"
			case "traceback", "current_inputs", "dependent_outputs": // the last depends on the order of a set
				v[k] = []any{}
			default:
				v[k] = scrub(k, v[k])
			}
		}
		return v
	case []any:
		for i := range v {
			v[i] = scrub(key, v[i])
		}
		if key == "prompt" && len(v) == 5 || (len(v) == 5 && strings.HasPrefix(key, "queue_")) {
			v[0] = "*"
		}
		if unordered[key] {
			slices.SortFunc(v, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
	}
	return v
}
