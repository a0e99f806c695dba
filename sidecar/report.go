package sidecar

import (
	"context"
	"errors"

	"github.com/comfygit-ai/studio-sidecar/manifest"
)

// Report moves a run by what its backend says unasked, and returns it as it
// then is. moved tells whether that changed anything: an ended run absorbs. A
// run that is unknown, or was never handed over, is CodeNotFound.
func (s *Studio) Report(ctx context.Context, id RunID, signals ...Signal) (run *Run, moved bool, err error) {
	if _, err := s.HandedOver(ctx, id); err != nil {
		return nil, false, err
	}
	run, moved, err = s.move(context.WithoutCancel(ctx), id, signals...)
	if err != nil {
		return nil, false, storageError(err)
	}
	s.boxes.poke(id)
	return run, moved, nil
}

// HandedOver reads a run of any scope that a backend may speak of. One that is
// unknown, or was never handed over, is CodeNotFound.
func (s *Studio) HandedOver(ctx context.Context, id RunID) (*Run, error) {
	run, err := s.Await(ctx, id, func(*Run) bool { return true })
	if err == nil && run.Attempt == 0 {
		err = ErrNotFound
	}
	if errors.Is(err, ErrNotFound) {
		return nil, unknownRun(id)
	}
	return run, err
}

// Outputs are the declared outputs of a run, as it was launched.
func (s *Studio) Outputs(ctx context.Context, run *Run) ([]manifest.Output, error) {
	outputs, err := s.launchedOutputs(ctx, run)
	if err != nil {
		return nil, storageError(err)
	}
	return outputs, nil
}
