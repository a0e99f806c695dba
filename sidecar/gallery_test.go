package sidecar_test

import (
	"context"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/artifact"
)

func TestDeleteItem(t *testing.T) {
	t.Run("takes_our_copy_along", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			dir := r.TempDir()
			copies, err := artifact.Open(dir)
			must(r, err)
			defer func() { must(r, copies.Close()) }()
			r.copies = copies
			r.restart()
			run := r.finished(r.launch(anna, "temp", 1).ID)
			folder := dir + "/" + string(run.Prompt)
			if n := len(files(t, folder)); n != 1 {
				r.Fatalf("%d copies", n)
			}
			if ok, err := r.studio.DeleteItem(context.Background(), run.Scope, run.Items[0].ID); !ok || err != nil {
				r.Fatal(ok, err)
			}
			if _, err := os.Stat(folder); !os.IsNotExist(err) {
				r.Errorf("the copy stays: %v", err)
			}
			if left, err := r.store.Doomed(context.Background(), "", 10); err != nil || len(left) != 0 {
				r.Errorf("it is to be removed still: %v, %v", left, err)
			}
			r.gapless(r.read(run.ID))
		})
	})
	t.Run("leaves_what_another_item_shows", func(t *testing.T) {
		bubble(t, setup{}, func(r *rig) {
			dir := r.TempDir()
			copies, err := artifact.Open(dir)
			must(r, err)
			defer func() { must(r, copies.Close()) }()
			r.copies = copies
			r.restart()
			run := r.finished(r.launch(anna, "temp", 1).ID)
			_, err = r.store.Update(context.Background(), run.ID, func(now *sidecar.Run) ([]sidecar.Event, error) {
				twin := now.Items[0]
				twin.ID += "_twin"
				now.Items = append(now.Items, twin)
				return []sidecar.Event{{Run: now.ID, Scope: now.Scope, Type: sidecar.EventRunProgress, Revision: now.Revision, At: now.UpdatedAt}}, nil
			})
			must(r, err)
			for left := 1; left >= 0; left-- {
				item := r.read(run.ID).Items[0]
				if ok, err := r.studio.DeleteItem(context.Background(), run.Scope, item.ID); !ok || err != nil {
					r.Fatal(ok, err)
				}
				want := []string{".partial", string(run.Prompt)}[:left+1]
				if diff := cmp.Diff(want, files(t, dir)); diff != "" {
					r.Error(diff)
				}
			}
		})
	})
}

func TestAsAccepted(t *testing.T) {
	run := at("executing")
	receipt := at("queued").AsAccepted()
	for stage := range stages {
		if got := at(stage); len(got.Slots) == len(run.Slots) && got.PromptID != "" && got.Issues == nil {
			if diff := cmp.Diff(receipt.Slots, got.AsAccepted().Slots); diff != "" {
				t.Error(stage, diff)
			}
			if diff := cmp.Diff(receipt.Items, got.AsAccepted().Items); diff != "" {
				t.Error(stage, diff)
			}
		}
	}
	if receipt.Status != sidecar.StatusSubmitted || receipt.Slots[0].Status != sidecar.SlotPending || receipt.Items[1].Status != sidecar.ItemPending {
		t.Errorf("%+v", receipt)
	}
	if run.AsAccepted(); run.Slots[0].Status != sidecar.SlotRunning {
		t.Error("the run itself was changed")
	}
}
