package protocol_test

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/sidecar/protocol"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// source is a file of a form that notes how it is treated.
type source struct {
	io.Reader
	closed *int
}

func (s source) Close() error {
	*s.closed++
	return nil
}

func TestForm(t *testing.T) {
	opened, closed := 0, 0
	file := func(field, name, content string, size int64) protocol.File {
		return protocol.File{Field: field, Name: name, Type: "image/png", Size: size, Open: func() (io.ReadCloser, error) {
			opened++
			if opened-closed != 1 {
				t.Errorf("%d files are open at once", opened-closed)
			}
			return source{iotest.DataErrReader(iotest.OneByteReader(strings.NewReader(content))), &closed}, nil
		}}
	}
	for _, unknown := range []bool{false, true} {
		opened, closed = 0, 0
		size := int64(3)
		if unknown {
			size = -1
		}
		form, err := protocol.NewForm([]byte(`{"a":1}`), []protocol.File{file("f0", `we "ird.png`, "abc", 3), file("f1", "empty.png", "", 0), file("f2", "c.png", "xyz", size)})
		must(t, err)
		body, err := io.ReadAll(form)
		must(t, err)
		must(t, form.Close())
		if want := int64(len(body)); form.Size != want && !unknown || unknown && form.Size != -1 {
			t.Errorf("size %d, of %d bytes", form.Size, want)
		}
		if opened != 3 || closed != 3 {
			t.Errorf("%d opened, %d closed", opened, closed)
		}
		_, params, err := mime.ParseMediaType(form.ContentType)
		must(t, err)
		var got []string
		for r := multipart.NewReader(bytes.NewReader(body), params["boundary"]); ; {
			part, err := r.NextRawPart()
			if errors.Is(err, io.EOF) {
				break
			}
			must(t, err)
			content, err := io.ReadAll(part)
			must(t, err)
			got = append(got, part.FormName()+" "+part.FileName()+" "+part.Header.Get("Content-Type")+" "+string(content))
		}
		want := []string{`payload  application/json {"a":1}`, `f0 we "ird.png image/png abc`, "f1 empty.png image/png ", "f2 c.png image/png xyz"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("parts (-want +got):\n%s", diff)
		}
	}
}

func TestFormBreaksOff(t *testing.T) {
	closed := 0
	broken := errors.New("the disk is gone")
	for name, open := range map[string]func() (io.ReadCloser, error){
		"opening": func() (io.ReadCloser, error) { return nil, broken },
		"reading": func() (io.ReadCloser, error) { return source{iotest.ErrReader(broken), &closed}, nil },
	} {
		form, err := protocol.NewForm([]byte("{}"), []protocol.File{{Field: "f", Name: "f", Size: 3, Open: open}})
		must(t, err)
		if _, err := io.ReadAll(form); !errors.Is(err, broken) {
			t.Errorf("%s: %v", name, err)
		}
		must(t, form.Close())
		if _, err := form.Read(make([]byte, 9)); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%s: a closed form reads %v", name, err)
		}
	}
	if closed != 1 {
		t.Errorf("%d closed", closed)
	}
}
