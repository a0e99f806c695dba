package sidecar_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/upload"
)

const loadFlow = `
[tool.comfygit.workflows.load.execution_contract]
version = 1
api_prompt_file = "workflow_api/load.json"
[tool.comfygit.workflows.load.execution_contract.contracts.default]
inputs = [ { name = "picture", type = "image", node_id = "1", required = true, api_field_key = "image" } ]
outputs = [ { name = "out", type = "image", node_id = "2" } ]
`

const loadGraph = `{"1":{"class_type":"LoadImage","inputs":{"image":"example.png"}},
"2":{"class_type":"SaveImage","inputs":{"filename_prefix":"t","images":["1",0]}}}`

const uploadLimit = 1 << 20

// withUploads runs test in a rig that keeps uploads, in ComfyUI's own folder of
// inputs or in another.
func withUploads(t *testing.T, shared bool, test func(*rig, string)) {
	t.Helper()
	bubble(t, setup{}, func(r *rig) {
		dir := r.fake.Dir("input")
		if !shared {
			dir = r.TempDir()
		}
		path := filepath.Join(r.env.Dir, ".cec", "pyproject.toml")
		text, err := os.ReadFile(path)
		must(r, err)
		must(r, os.WriteFile(path, append(text, loadFlow...), 0o644))
		must(r, os.WriteFile(filepath.Join(r.env.Dir, ".cec", "workflow_api", "load.json"), []byte(loadGraph), 0o644))
		folder, err := upload.Open(dir)
		must(r, err)
		defer func() {
			r.stop()
			must(r, folder.Close())
		}()
		r.opts.Uploads = folder
		r.restart()
		test(r, dir)
	})
}

// pngOf is a PNG of a width.
func pngOf(t testing.TB, width int) []byte {
	t.Helper()
	var b bytes.Buffer
	must(t, png.Encode(&b, image.NewNRGBA(image.Rect(0, 0, width, 8))))
	return b.Bytes()
}

func session(id sidecar.SessionID) sidecar.Session {
	return sidecar.Session{ID: id, Scope: sidecar.Scope(id)}
}

func (r *rig) prepare(owner sidecar.Session) (*sidecar.Upload, string) {
	r.Helper()
	u, token, err := r.studio.PrepareUpload(context.Background(), sidecar.UploadRequest{
		Owner: owner, Name: "my ünï.png", Size: -1, Limit: uploadLimit,
	})
	must(r, err)
	return u, token
}

func (r *rig) receive(id sidecar.UploadID, token string, body io.Reader) (*sidecar.Upload, error) {
	return r.studio.ReceiveUpload(context.Background(), sidecar.UploadBody{
		ID: id, Token: token, Length: -1, Limit: uploadLimit, Body: body,
	})
}

// ready makes an upload of bytes.
func (r *rig) ready(owner sidecar.Session, data []byte) *sidecar.Upload {
	r.Helper()
	u, token := r.prepare(owner)
	u, err := r.receive(u.ID, token, bytes.NewReader(data))
	must(r, err)
	return u
}

// load runs the workflow that loads a picture, with a value for it.
func (r *rig) load(who sidecar.SessionID, value any) *sidecar.Run {
	r.Helper()
	raw, err := json.Marshal(value)
	must(r, err)
	run, err := r.studio.Launch(context.Background(), sidecar.LaunchRequest{
		Session: session(who), Workflow: "load", Contract: "default",
		Values: manifest.Values{{Name: "picture", Value: raw}},
	})
	must(r, err)
	return run
}

func refTo(u *sidecar.Upload) map[string]any {
	return map[string]any{"kind": "file_ref", "ref": u.ID, "filename": "other.gif", "size": 1}
}

// files are the names in a folder.
func files(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func (r *rig) unknown(id sidecar.UploadID) {
	r.Helper()
	_, err := r.studio.Upload(context.Background(), id)
	if told, ok := errors.AsType[*sidecar.Error](err); !ok || told.Code != sidecar.CodeNotFound {
		r.Errorf("upload %s: %v", id, err)
	}
}

func TestUploadInRun(t *testing.T) {
	for _, c := range []struct {
		name  string
		value func(*sidecar.Upload) any
	}{
		{"by_reference", func(u *sidecar.Upload) any { return refTo(u) }},
		{"by_upload_id", func(u *sidecar.Upload) any { return map[string]any{"kind": "file_ref", "upload_id": u.ID} }},
		{"by_the_name_that_runs_show", func(u *sidecar.Upload) any { return u.StoredName() }},
	} {
		for _, shared := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/shared_%v", c.name, shared), func(t *testing.T) {
				withUploads(t, shared, func(r *rig, _ string) {
					u := r.ready(session(anna), pngOf(t, 24))
					run := r.finished(r.load(anna, c.value(u)).ID)
					if diff := cmp.Diff(completed(), endOf(run)); diff != "" || run.Slots[0].Width != 24 {
						t.Errorf("%s %s width %d", run.Error, diff, run.Slots[0].Width)
					}
					if want := fmt.Sprintf(`{"picture":%q}`, u.StoredName()); string(run.Inputs) != want {
						t.Errorf("inputs %s, want %s", run.Inputs, want)
					}
					if diff := cmp.Diff([]sidecar.UploadID{u.ID}, run.Uploads); diff != "" {
						t.Error(diff)
					}
					if sent := r.posts("POST", "/upload/image"); shared != (sent == 0) || sent > 1 {
						t.Errorf("handed on %d times", sent)
					}
				})
			})
		}
	}
}

func TestUploadRefused(t *testing.T) {
	for _, c := range []struct {
		name  string
		who   sidecar.SessionID
		value func(*rig, string) any
		want  string
	}{
		{"not_there_yet", anna, func(r *rig, _ string) any { u, _ := r.prepare(session(anna)); return refTo(u) }, "references an upload that is not ready."},
		{"of_another_session", bert, func(r *rig, _ string) any { return refTo(r.ready(session(anna), pngOf(r, 8))) }, "references an unknown upload."},
		{"of_another_session_by_name", bert, func(r *rig, _ string) any { return r.ready(session(anna), pngOf(r, 8)).StoredName() }, "references an unknown upload."},
		{"unknown", anna, func(*rig, string) any { return map[string]any{"kind": "file_ref", "ref": "upload_none"} }, "references an unknown upload."},
		{"without_a_name", anna, func(*rig, string) any { return map[string]any{"kind": "file_ref", "ref": 5} }, "file_ref is missing a ref."},
		{"removed_by_somebody", anna, func(r *rig, dir string) any {
			u := r.ready(session(anna), pngOf(r, 8))
			must(r, os.Remove(filepath.Join(dir, u.StoredName())))
			return refTo(u)
		}, "references an upload whose file is gone. Upload it again."},
		{"a_data_url", anna, func(*rig, string) any { return "data:image/png;base64,AAAA" }, "uses an inline data URL. Upload the file first and submit a file_ref."},
		{"a_data_url_in_disguise", anna, func(*rig, string) any { return " DATA:image/png;base64,AAAA" }, "uses an inline data URL. Upload the file first and submit a file_ref."},
		{"inline_bytes", anna, func(*rig, string) any { return map[string]any{"base64": "AAAA"} }, "uses inline file bytes. Upload the file first and submit a file_ref."},
	} {
		t.Run(c.name, func(t *testing.T) {
			withUploads(t, true, func(r *rig, dir string) {
				run := r.load(c.who, c.value(r, dir))
				if diff := cmp.Diff(refusal(sidecar.OutcomeRejected, sidecar.CodeBadRequest), endOf(run)); diff != "" || run.Error != "Input 'picture' "+c.want {
					t.Errorf("%q %s", run.Error, diff)
				}
				if r.posts("POST", "/prompt") != 0 {
					t.Error("ComfyUI heard of it")
				}
			})
		})
	}
	t.Run("not_when_it_belongs_to_nobody", func(t *testing.T) {
		withUploads(t, true, func(r *rig, _ string) {
			u := r.ready(sidecar.Session{}, pngOf(t, 8))
			if run := r.finished(r.load(bert, refTo(u)).ID); run.Status != sidecar.StatusCompleted {
				t.Error(run.Error)
			}
		})
	})
	t.Run("other_names_are_comfyuis_business", func(t *testing.T) {
		withUploads(t, true, func(r *rig, dir string) {
			for _, name := range []string{"example.png", "upload_0123456789abcdef0123456789abcdef_left.png"} {
				must(t, os.WriteFile(filepath.Join(dir, name), pngOf(t, 8), 0o644))
				if run := r.finished(r.load(bert, name).ID); run.Status != sidecar.StatusCompleted {
					t.Error(name, run.Error)
				}
			}
		})
	})
}

func TestUploadLife(t *testing.T) {
	t.Run("ends_a_day_after_the_last_use", func(t *testing.T) {
		withUploads(t, true, func(r *rig, dir string) {
			r.withoutSocket()
			used, unused := r.ready(session(anna), pngOf(t, 8)), r.ready(session(anna), []byte("x"))
			announced, _ := r.prepare(session(anna))
			r.pass(20 * time.Hour)
			r.finished(r.load(anna, refTo(used)).ID)
			r.pass(5 * time.Hour)
			if diff := cmp.Diff([]string{used.StoredName()}, files(t, dir)); diff != "" {
				t.Error(diff)
			}
			r.unknown(unused.ID)
			r.unknown(announced.ID)
			if run := r.load(anna, refTo(unused)); run.Error != "Input 'picture' references an unknown upload." {
				t.Errorf("%q", run.Error)
			}
			r.pass(21 * time.Hour)
			if diff := cmp.Diff([]string{}, files(t, dir)); diff != "" {
				t.Error(diff)
			}
			r.unknown(used.ID)
		})
	})
	t.Run("begins_anew_when_the_file_comes_while_it_ends", func(t *testing.T) {
		withUploads(t, true, func(r *rig, dir string) {
			r.withoutSocket()
			take := func() *sidecar.Upload {
				u, err := r.studio.TakeInput(context.Background(), sidecar.InputRequest{
					Owner: session(anna), Name: "a.png", Limit: uploadLimit, Body: bytes.NewReader(pngOf(t, 8)),
				})
				must(t, err)
				return u
			}
			name := take().StoredName()
			again := make(chan string, 1)
			sent := func() { again <- take().StoredName() }
			r.store.expired.Store(&sent)
			r.pass(26 * time.Hour)
			if got := <-again; got != name {
				t.Errorf("it became %s, was %s", got, name)
			}
			if diff := cmp.Diff([]string{name}, files(t, dir)); diff != "" {
				t.Error(diff)
			}
		})
	})
	t.Run("is_over_to_the_millisecond", func(t *testing.T) {
		withUploads(t, true, func(r *rig, _ string) {
			r.withoutSocket()
			u, token := r.prepare(session(anna))
			r.pass(24*time.Hour - 2*time.Millisecond)
			if _, err := r.studio.Upload(context.Background(), u.ID); err != nil {
				t.Error(err)
			}
			r.pass(2 * time.Millisecond)
			r.unknown(u.ID)
			if _, err := r.receive(u.ID, token, strings.NewReader("x")); err == nil {
				t.Error("an expired upload was received")
			}
		})
	})
	t.Run("goes_on_after_a_restart", func(t *testing.T) {
		withUploads(t, true, func(r *rig, dir string) {
			ready := r.ready(session(anna), pngOf(t, 8))
			pending, token := r.prepare(session(anna))
			r.restart()
			if run := r.finished(r.load(anna, refTo(ready)).ID); run.Status != sidecar.StatusCompleted {
				t.Error(run.Error)
			}
			u, err := r.receive(pending.ID, token, strings.NewReader("later"))
			if err != nil || u.State != sidecar.UploadReady || u.Size != 5 {
				t.Errorf("%+v %v", u, err)
			}
		})
	})
	t.Run("a_start_removes_what_is_nobodys", func(t *testing.T) {
		withUploads(t, true, func(r *rig, dir string) {
			const ours, older = "upload_0123456789ab8def8123456789abcdef_a.png", "upload_1123456789ab8def8123456789abcdef_a.png"
			const theirs = "upload_0123456789ab4def8123456789abcdef_a.png"
			ready := r.ready(session(anna), []byte("x"))
			cut, _ := r.prepare(session(anna)) // its file got a name, and the process died
			for name, age := range map[string]time.Duration{ours: 47, older: 49, theirs: 1000, cut.StoredName(): 0, "upload_notes.txt": 1000} {
				must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
				then := time.Now().Add(-age * time.Hour)
				must(t, os.Chtimes(filepath.Join(dir, name), then, then))
			}
			r.restart()
			r.until("they are gone", func() bool { return len(files(t, dir)) == 4 })
			left := []string{theirs, ours, ready.StoredName(), "upload_notes.txt"}
			slices.Sort(left)
			if diff := cmp.Diff(left, files(t, dir)); diff != "" {
				t.Error(diff)
			}
		})
	})
}

func TestReceiveUpload(t *testing.T) {
	codeOf := func(err error) sidecar.Code {
		told, ok := errors.AsType[*sidecar.Error](err)
		if !ok {
			t.Errorf("no error for clients: %v", err)
			return ""
		}
		return told.Code
	}
	t.Run("many_at_once_leave_one_whole", func(t *testing.T) {
		withUploads(t, true, func(r *rig, dir string) {
			u, token := r.prepare(session(anna))
			var all sync.WaitGroup
			for n := range 8 {
				all.Go(func() {
					if _, err := r.receive(u.ID, token, strings.NewReader(strings.Repeat("x", 1000*n))); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			u, err := r.studio.Upload(context.Background(), u.ID)
			must(t, err)
			data, err := os.ReadFile(filepath.Join(dir, u.StoredName()))
			must(t, err)
			sum := sha256.Sum256(data)
			if u.SHA256 != hex.EncodeToString(sum[:]) || u.Size != int64(len(data)) || u.Writes != 8 || u.State != sidecar.UploadReady {
				t.Errorf("%+v stands for %d bytes", u, len(data))
			}
			if got := files(t, dir); len(got) != 1 {
				t.Errorf("left: %q", got)
			}
		})
	})
	t.Run("what_the_store_does_not_know_is_not_kept", func(t *testing.T) {
		withUploads(t, true, func(r *rig, dir string) {
			u, token := r.prepare(session(anna))
			r.opts.Store = &forgetful{r.store}
			r.restart()
			if _, err := r.receive(u.ID, token, strings.NewReader("x")); codeOf(err) != sidecar.CodeStorage {
				t.Errorf("got %v", err)
			}
			u, err := r.studio.Upload(context.Background(), u.ID)
			if got := files(t, dir); err != nil || u.State != sidecar.UploadPending || len(got) != 0 {
				t.Errorf("%+v %v %q", u, err, got)
			}
		})
	})
	t.Run("tokens_compare_as_bytes", func(t *testing.T) {
		withUploads(t, true, func(r *rig, _ string) {
			u, token := r.prepare(session(anna))
			for _, wrong := range []string{"", "x", "ünï", token + "x", token[:len(token)-1], strings.ToUpper(token), "\xff\x00"} {
				if _, err := r.receive(u.ID, wrong, strings.NewReader("x")); codeOf(err) != sidecar.CodeForbidden {
					t.Errorf("%q: %v", wrong, err)
				}
			}
			stored, err := r.studio.Upload(context.Background(), u.ID)
			if err != nil || bytes.Contains(stored.TokenHash, []byte(token)) || len(stored.TokenHash) != sha256.Size || len(token) < 43 {
				t.Errorf("%+v %v", stored, err)
			}
		})
	})
	t.Run("a_studio_without_a_folder", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			_, _, err := r.studio.PrepareUpload(context.Background(), sidecar.UploadRequest{Size: -1, Limit: 1})
			if codeOf(err) != sidecar.CodeBadRequest {
				t.Errorf("got %v", err)
			}
		})
	})
}

// forgetful fails to note that an upload is there.
type forgetful struct{ *flaky }

func (s *forgetful) UpdateUpload(ctx context.Context, id sidecar.UploadID, change func(*sidecar.Upload) error) (*sidecar.Upload, error) {
	return s.flaky.UpdateUpload(ctx, id, func(u *sidecar.Upload) error {
		if err := change(u); err != nil || u.State == sidecar.UploadReady {
			return errors.Join(err, errDisk)
		}
		return nil
	})
}
