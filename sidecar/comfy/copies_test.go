package comfy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image/png"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/artifact"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfy"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

func shelfDir(t *testing.T) (*artifact.Dir, string) {
	t.Helper()
	path := t.TempDir()
	dir, err := artifact.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dir.Close(); err != nil {
			t.Error(err)
		}
	})
	return dir, path
}

// empty: no file is left in a folder.
func empty(t *testing.T, path string) {
	t.Helper()
	err := filepath.WalkDir(path, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			t.Errorf("left behind: %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestResultsCopies(t *testing.T) {
	small := encoded(t, png.Encode, 3, 2)
	t.Run("temp_files_at_once", func(t *testing.T) {
		dir, _ := shelfDir(t)
		s := &shelf{files: map[string][]byte{"ComfyUI_temp_2_00001_.png": small, "out.png": small, "x.bin": {0, 1}}}
		scripted(t, s, comfy.Options{Artifacts: dir}, func(t *testing.T, exec *comfy.Executor) {
			results, err := exec.Results(t.Context(), job(promptA, "{}"), seen("images",
				item("ComfyUI_temp_2_00001_.png", "temp"), item("out.png", "output"), item("x.bin", "TEMP")))
			if err != nil {
				t.Fatal(err)
			}
			want := []sidecar.File{
				{Width: 3, Height: 2, Bytes: int64(len(small)), Ref: string(promptA) + "/ComfyUI_temp_2_00001_.png", ContentType: "image/png"},
				{Width: 3, Height: 2, Bytes: int64(len(small))},
				{Bytes: 2, Ref: string(promptA) + "/x.bin", ContentType: "application/octet-stream"},
			}
			if diff := cmp.Diff(want, results[0].Files); diff != "" {
				t.Error(diff)
			}
			f, err := dir.Open(want[0].Ref)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if data, err := io.ReadAll(f); !bytes.Equal(data, small) || err != nil {
				t.Errorf("the copy has %d bytes, %v", len(data), err)
			}
		})
		if n := s.sent["ComfyUI_temp_2_00001_.png"]; n != len(small) {
			t.Errorf("the copied file was sent %d bytes, has %d", n, len(small))
		}
	})
	t.Run("output_files_when_asked_to", func(t *testing.T) {
		dir, _ := shelfDir(t)
		s := &shelf{files: map[string][]byte{"a.png": small, "b.png": small}}
		scripted(t, s, comfy.Options{Artifacts: dir, Localise: comfy.LocaliseAll}, func(t *testing.T, exec *comfy.Executor) {
			results, err := exec.Results(t.Context(), job(promptA, "{}"), seen("images", item("a.png", "output"), item("b.png", "input")))
			if err != nil || results[0].Files[0].Ref == "" || results[0].Files[1].Ref != "" {
				t.Errorf("%+v, %v", results, err)
			}
		})
	})
	t.Run("what_cannot_be_copied_stays_with_comfyui", func(t *testing.T) {
		dir, path := shelfDir(t)
		cut := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Query().Get("filename") {
			case "cut.png", "cut_chunked.png":
				if r.URL.Query().Get("filename") == "cut.png" {
					w.Header().Set("Content-Length", "100000")
				}
				w.Write(make([]byte, 70000))
				if err := http.NewResponseController(w).Flush(); err != nil {
					return
				}
				panic(http.ErrAbortHandler)
			case "error.png":
				w.WriteHeader(http.StatusInternalServerError)
			default:
				http.NotFound(w, r)
			}
		})
		scripted(t, cut, comfy.Options{Artifacts: dir}, func(t *testing.T, exec *comfy.Executor) {
			results, err := exec.Results(t.Context(), job(promptA, "{}"), seen("images",
				item("cut.png", "temp"), item("cut_chunked.png", "temp"), item("error.png", "temp"), item("gone.png", "temp")))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(make([]sidecar.File, 4), results[0].Files); diff != "" {
				t.Error(diff)
			}
		})
		empty(t, path)
	})
	t.Run("a_comfyui_that_hangs_is_asked_later", func(t *testing.T) {
		dir, path := shelfDir(t)
		hanging := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("filename") == "0.png" {
				w.Write(small)
				return
			}
			<-r.Context().Done()
		})
		items := make([]string, 40)
		for i := range items {
			items[i] = item(fmt.Sprintf("%d.png", i), "temp")
		}
		scripted(t, hanging, comfy.Options{Artifacts: dir, IdleTimeout: 30 * time.Second}, func(t *testing.T, exec *comfy.Executor) {
			began := time.Now()
			_, err := exec.Results(t.Context(), job(promptA, "{}"), seen("images", items...))
			if _, away := errors.AsType[*sidecar.UnreachableError](err); !away {
				t.Errorf("err = %v", err)
			}
			if took := time.Since(began); took > 31*time.Second {
				t.Errorf("it took %v", took)
			}
		})
		empty(t, path)
	})
	t.Run("one_that_stops_within_a_file_is_asked_later", func(t *testing.T) {
		dir, path := shelfDir(t)
		half := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Write(make([]byte, 70000))
			if err := http.NewResponseController(w).Flush(); err == nil {
				<-r.Context().Done()
			}
		})
		scripted(t, half, comfy.Options{Artifacts: dir}, func(t *testing.T, exec *comfy.Executor) {
			_, err := exec.Results(t.Context(), job(promptA, "{}"), seen("images", item("a.png", "temp")))
			if _, away := errors.AsType[*sidecar.UnreachableError](err); !away {
				t.Errorf("err = %v", err)
			}
		})
		empty(t, path)
	})
	t.Run("nothing_stays_when_the_caller_goes", func(t *testing.T) {
		dir, path := shelfDir(t)
		ctx, cancel := context.WithCancel(t.Context())
		copied := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("filename") == "0.png" {
				w.Write(small)
				return
			}
			pause(r.Context(), time.Second) // the other is there by then
			cancel()
			<-r.Context().Done()
		})
		scripted(t, copied, comfy.Options{Artifacts: dir}, func(t *testing.T, exec *comfy.Executor) {
			_, err := exec.Results(ctx, job(promptA, "{}"), seen("images", item("0.png", "temp"), item("1.png", "temp")))
			if !errors.Is(err, context.Canceled) {
				t.Errorf("err = %v", err)
			}
		})
		empty(t, path)
	})
	t.Run("under_whatever_name_nothing_is_written_elsewhere", func(t *testing.T) {
		dir, path := shelfDir(t)
		names := []string{"../../evil.png", "/etc/evil.png", `..\..\evil.png`, "%2e%2e%2fevil.png", "a/../../evil.png", "evil\x00.png", "..", ".", "", "C:evil.png", ".evil", strings.Repeat("../", 50) + "evil.png"}
		s := &shelf{files: map[string][]byte{}}
		var items []string
		for _, name := range names {
			s.files[name] = small
			text, err := json.Marshal(map[string]string{"filename": name, "type": "temp"})
			if err != nil {
				t.Fatal(err)
			}
			items = append(items, string(text))
		}
		scripted(t, s, comfy.Options{Artifacts: dir}, func(t *testing.T, exec *comfy.Executor) {
			results, err := exec.Results(t.Context(), job(promptA, "{}"), seen("images", items...))
			if err != nil {
				t.Fatal(err)
			}
			copied := 0
			for i, f := range results[0].Files {
				if f.Ref == "" {
					continue // there is no such name
				}
				copied++
				if group, name, _ := strings.Cut(f.Ref, "/"); group != string(promptA) || strings.ContainsAny(name, `/\`+"\x00") || strings.HasPrefix(name, ".") {
					t.Errorf("%q was copied as %q", names[i], f.Ref)
				}
			}
			entries, err := os.ReadDir(filepath.Join(path, string(promptA)))
			if err != nil || len(entries) != copied || copied < 8 {
				t.Errorf("%d copies, %d files: %v", copied, len(entries), err)
			}
		})
	})
	t.Run("of_a_real_preview_node", func(t *testing.T) {
		dir, _ := shelfDir(t)
		bubble(t, comfyfake.Options{}, comfy.Options{Artifacts: dir}, func(r *rig) {
			j := job(promptA, strings.Replace(picture(1), `"SaveImage","inputs":{"images":["1",0],"filename_prefix":"t"}`, `"PreviewImage","inputs":{"images":["1",0]}`, 1))
			r.submit(j)
			results, err := r.exec.Results(r.Context(), j, r.await(j, sidecar.PlaceDone))
			if err != nil || len(results[0].Files) != 1 {
				r.Fatal(results, err)
			}
			if f := results[0].Files[0]; f.Width != 64 || !strings.HasPrefix(f.Ref, string(promptA)+"/ComfyUI_temp_") || f.ContentType != "image/png" {
				r.Errorf("%+v", f)
			}
		})
	})
}
