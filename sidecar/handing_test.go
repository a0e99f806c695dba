package sidecar_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

func TestHandingOn(t *testing.T) {
	onUpload := func(kind comfyfake.Kind, times int) comfyfake.Fault {
		return comfyfake.Fault{Kind: kind, Method: http.MethodPost, Route: "/upload/image", Times: times}
	}
	for _, c := range []struct {
		name  string
		fault comfyfake.Fault
		want  end
		posts int
	}{
		{"is_tried_again_when_the_answer_is_lost", onUpload(comfyfake.ActThenRefuse, 1), completed(), 1},
		{"is_tried_again_after_a_500", onUpload(comfyfake.ActThenAnswer, 1), completed(), 1},
		{"is_given_up_when_it_stays_so", onUpload(comfyfake.Refuse, 0), refusal(sidecar.OutcomeFailed, sidecar.CodeUnavailable), 0},
		{"ends_with_comfyuis_no", comfyfake.Fault{Kind: comfyfake.Answer, Status: 413, Method: http.MethodPost, Route: "/upload/image"},
			refusal(sidecar.OutcomeRejected, sidecar.CodeRejected), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			withUploads(t, false, func(r *rig, _ string) {
				r.fake.Fault(c.fault)
				run := r.finished(r.load(anna, refTo(r.ready(session(anna), pngOf(t, 24)))).ID)
				if diff := cmp.Diff(c.want, endOf(run)); diff != "" {
					t.Error(run.Error, diff)
				}
				if got := r.posts("POST", "/prompt"); got != c.posts {
					t.Errorf("the prompt was handed over %d times", got)
				}
			})
		})
	}
	t.Run("honours_a_name_that_comfyui_changes", func(t *testing.T) {
		withUploads(t, false, func(r *rig, _ string) {
			u := r.ready(session(anna), pngOf(t, 24))
			must(t, os.WriteFile(filepath.Join(r.fake.Dir("input"), u.StoredName()), pngOf(t, 40), 0o644))
			run := r.finished(r.load(anna, refTo(u)).ID)
			if diff := cmp.Diff(completed(), endOf(run)); diff != "" || run.Slots[0].Width != 24 {
				t.Errorf("%s %s width %d", run.Error, diff, run.Slots[0].Width)
			}
			if want := fmt.Sprintf(`{"picture":%q}`, u.StoredName()); string(run.Inputs) != want {
				t.Errorf("inputs %s", run.Inputs)
			}
		})
	})
	t.Run("takes_new_bytes_for_old", func(t *testing.T) {
		withUploads(t, false, func(r *rig, _ string) {
			u, token := r.prepare(session(anna))
			for _, width := range []int{24, 40} {
				_, err := r.receive(u.ID, token, bytes.NewReader(pngOf(t, width)))
				must(t, err)
				if run := r.finished(r.load(anna, refTo(u)).ID); run.Status != sidecar.StatusCompleted || run.Slots[0].Width != width {
					t.Errorf("%s width %d, want %d", run.Error, run.Slots[0].Width, width)
				}
			}
		})
	})
	t.Run("is_done_by_the_next_life", func(t *testing.T) {
		withUploads(t, false, func(r *rig, _ string) {
			release := r.fake.Fault(onUpload(comfyfake.Hang, 0))
			u := r.ready(session(anna), pngOf(t, 24))
			run := r.load(anna, refTo(u)) // answers without a decision
			r.stop()
			release()
			r.start()
			if got := r.finished(run.ID); got.Status != sidecar.StatusCompleted || got.Slots[0].Width != 24 {
				t.Errorf("%s %+v", got.Error, endOf(got))
			}
			if got := r.posts("POST", "/prompt"); got != 1 {
				t.Errorf("the prompt was handed over %d times", got)
			}
		})
	})
	t.Run("fails_when_the_file_is_gone_meanwhile", func(t *testing.T) {
		withUploads(t, false, func(r *rig, dir string) {
			release := r.fake.Fault(onUpload(comfyfake.Hang, 0))
			u := r.ready(session(anna), pngOf(t, 24))
			run := r.load(anna, refTo(u))
			r.stop()
			release()
			must(t, os.Remove(filepath.Join(dir, u.StoredName())))
			r.start()
			got := r.finished(run.ID)
			if diff := cmp.Diff(refusal(sidecar.OutcomeRejected, sidecar.CodeBadRequest), endOf(got)); diff != "" || got.Error != "The file of an upload that the run uses is gone." {
				t.Error(got.Error, diff)
			}
		})
	})
}
