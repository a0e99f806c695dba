package sidecar_test

import (
	"context"
	"errors"
	"testing"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

func TestLaunchErrors(t *testing.T) {
	t.Run("a_graph_that_is_none_is_told_as_any_other_fault", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			_, err := r.studio.LaunchPrompt(context.Background(), sidecar.PromptRequest{
				Session: session(anna), Files: map[string]*sidecar.Upload{"a.png": {ID: "upload_1", Name: "a.png"}},
			})
			if told, ok := errors.AsType[*sidecar.Error](err); !ok || told.Code != sidecar.CodeInternal {
				t.Errorf("%T %v", err, err)
			}
		})
	})
	t.Run("who_gave_up_is_not_told_of_a_fault", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			r.pass(1)
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			if run, err := r.studio.Launch(ctx, r.request(anna, "picture", 1)); err == nil {
				r.finished(run.ID)
			} else if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	})
}
