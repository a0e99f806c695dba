package comfy_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfy"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

const pictureName = "upload_0123_ünï.png"

// inputFile is a file with those bytes; opened counts how often it was sent.
func inputFile(text string, opened *int) sidecar.InputFile {
	return sidecar.InputFile{
		Name: pictureName, Type: "image/png", Size: int64(len(text)),
		Open: func() (io.ReadCloser, error) {
			*opened++
			return io.NopCloser(strings.NewReader(text)), nil
		},
	}
}

// inputs are the files that ComfyUI has.
func (r *rig) inputs() map[string]string {
	r.Helper()
	files := map[string]string{}
	dir := r.fake.Dir("input")
	entries, err := os.ReadDir(dir)
	if err != nil {
		r.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			r.Fatal(err)
		}
		files[e.Name()] = string(data)
	}
	return files
}

func (r *rig) put(name, text string) {
	r.Helper()
	if err := os.WriteFile(filepath.Join(r.fake.Dir("input"), name), []byte(text), 0o644); err != nil {
		r.Fatal(err)
	}
}

func TestStage(t *testing.T) {
	for _, c := range []struct {
		name      string
		there     map[string]string
		rewritten bool
		want      string
		sent      int
		files     map[string]string
	}{
		{"hands_on_what_is_not_there", nil, false, pictureName, 1, map[string]string{pictureName: "picture"}},
		{"sends_nothing_that_is_there", map[string]string{pictureName: "picture"}, false, pictureName, 0, map[string]string{pictureName: "picture"}},
		{"takes_the_name_that_comfyui_gives", map[string]string{pictureName: "other bytes"}, false, "upload_0123_ünï (1).png", 1,
			map[string]string{pictureName: "other bytes", "upload_0123_ünï (1).png": "picture"}},
		{"does_not_take_old_bytes_for_new", map[string]string{pictureName: "PICTURE"}, true, "upload_0123_ünï (1).png", 1,
			map[string]string{pictureName: "PICTURE", "upload_0123_ünï (1).png": "picture"}},
		{"keeps_the_name_of_the_same_bytes", map[string]string{pictureName: "picture"}, true, pictureName, 1, map[string]string{pictureName: "picture"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, comfyfake.Options{}, comfy.Options{}, func(r *rig) {
				for name, text := range c.there {
					r.put(name, text)
				}
				sent := 0
				file := inputFile("picture", &sent)
				file.Rewritten = c.rewritten
				got, err := r.exec.Stage(r.Context(), sidecar.Job{}, file)
				if err != nil || got != c.want || sent != c.sent {
					t.Errorf("got %q %v, sent %d times", got, err, sent)
				}
				if diff := cmp.Diff(c.files, r.inputs()); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
	t.Run("again_changes_nothing", func(t *testing.T) {
		bubble(t, comfyfake.Options{}, comfy.Options{}, func(r *rig) {
			sent := 0
			for range 3 {
				if got, err := r.exec.Stage(r.Context(), sidecar.Job{}, inputFile("picture", &sent)); err != nil || got != pictureName {
					t.Errorf("got %q %v", got, err)
				}
			}
			if diff := cmp.Diff(map[string]string{pictureName: "picture"}, r.inputs()); diff != "" || sent != 1 {
				t.Error(diff, sent)
			}
		})
	})
}

func TestStageFails(t *testing.T) {
	stage := func(r *rig, size int) error {
		sent := 0
		_, err := r.exec.Stage(r.Context(), sidecar.Job{}, inputFile(strings.Repeat("x", size), &sent))
		return err
	}
	t.Run("a_file_that_comfyui_does_not_take", func(t *testing.T) {
		bubble(t, comfyfake.Options{MaxUpload: 1000}, comfy.Options{}, func(r *rig) {
			err := stage(r, 2000)
			refused, ok := errors.AsType[*sidecar.RefusedError](err)
			if !ok || !strings.Contains(refused.Failure.Hint, "--max-upload-size") || refused.Failure.Status != 413 || refused.Failure.Outcome != sidecar.OutcomeRejected {
				t.Errorf("got %v", err)
			}
			if got := r.inputs(); len(got) != 0 {
				t.Errorf("there is %v", got)
			}
		})
	})
	t.Run("nobody_listens", func(t *testing.T) {
		bubble(t, comfyfake.Options{}, comfy.Options{}, func(r *rig) {
			if err := r.fake.Close(); err != nil {
				t.Fatal(err)
			}
			if _, ok := errors.AsType[*sidecar.UnreachableError](stage(r, 5)); !ok {
				t.Errorf("got %v", stage(r, 5))
			}
		})
	})
	for _, c := range []struct {
		name  string
		fault comfyfake.Fault
	}{
		{"the_answer_is_lost", comfyfake.Fault{Kind: comfyfake.ActThenRefuse, Times: 1}},
		{"an_answer_of_500", comfyfake.Fault{Kind: comfyfake.ActThenAnswer, Status: 500, Times: 1}},
		{"an_answer_without_a_name", comfyfake.Fault{Kind: comfyfake.Answer, Status: 200, Body: "{}", Times: 1}},
		{"an_answer_that_is_no_json", comfyfake.Fault{Kind: comfyfake.Answer, Status: 200, Body: "<html>", Times: 1}},
	} {
		t.Run(c.name+"_leaves_it_open", func(t *testing.T) {
			bubble(t, comfyfake.Options{}, comfy.Options{}, func(r *rig) {
				c.fault.Method, c.fault.Route = "POST", "/upload/image"
				r.fake.Fault(c.fault)
				if _, ok := errors.AsType[*sidecar.UnsureError](stage(r, 5)); !ok {
					t.Errorf("got %v", stage(r, 5))
				}
				if err := stage(r, 5); err != nil {
					t.Errorf("the second try: %v", err)
				}
				if diff := cmp.Diff(map[string]string{pictureName: "xxxxx"}, r.inputs()); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
	t.Run("a_comfyui_that_reads_no_more", func(t *testing.T) {
		stuck := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodHead {
				http.NotFound(w, r)
				return
			}
			<-r.Context().Done()
			panic(http.ErrAbortHandler) // nothing is answered
		})
		scripted(t, stuck, comfy.Options{IdleTimeout: 7 * time.Second}, func(t *testing.T, exec *comfy.Executor) {
			sent, began := 0, time.Now()
			_, err := exec.Stage(t.Context(), sidecar.Job{}, inputFile(strings.Repeat("x", 1<<20), &sent))
			if _, ok := errors.AsType[*sidecar.UnsureError](err); !ok || time.Since(began) != 7*time.Second {
				t.Errorf("got %v after %v", err, time.Since(began))
			}
		})
	})
	t.Run("a_file_that_cannot_be_opened", func(t *testing.T) {
		bubble(t, comfyfake.Options{}, comfy.Options{}, func(r *rig) {
			file := inputFile("x", new(int))
			file.Open = func() (io.ReadCloser, error) { return nil, os.ErrPermission }
			if _, err := r.exec.Stage(r.Context(), sidecar.Job{}, file); !errors.Is(err, os.ErrPermission) {
				t.Errorf("got %v", err)
			}
		})
	})
}
