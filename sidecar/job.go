package sidecar

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/comfygit-ai/studio-sidecar/manifest"
)

// recoveryError is a sentence for people about a run that cannot be taken up.
type recoveryError string

func (e recoveryError) Error() string { return string(e) }

// jobOf is what the executor needs of a stored run.
func (s *Studio) jobOf(ctx context.Context, run *Run) (Job, error) {
	job := Job{Run: run.ID, Prompt: run.PromptID, Resumed: s.mayHaveRun(run), Accepted: run.Accepted, Due: run.DueAt, EnvironmentRef: run.EnvironmentRef}
	if !run.DueAt.IsZero() {
		job.Limit = run.DueAt.Sub(run.CreatedAt)
		if run.Hold != nil && run.Hold.Limit > 0 {
			job.Limit = run.Hold.Limit // its time began with its release
		}
	}
	if job.Prompt == "" {
		job.Prompt = run.Prompt
	}
	if run.Status.Terminal() {
		return job, nil // only to be dropped
	}
	outputs, err := s.launchedOutputs(ctx, run)
	if err != nil {
		return job, err
	}
	job.Outputs = outputs
	if run.Graph != "" {
		if job.Graph, err = s.store.Blob(ctx, run.Graph); err != nil {
			return job, fmt.Errorf("read the graph of run %s: %w", run.ID, err)
		}
	}
	if len(job.Graph) == 0 && !run.Accepted {
		return job, recoveryError("Active run has no ComfyUI prompt id to recover.")
	}
	return job, nil
}

// mayHaveRun tells that the backend may have the run's prompt already: it was
// being handed over, or a backup was brought back from before that.
func (s *Studio) mayHaveRun(run *Run) bool {
	restored := s.restored.Load()
	return run.Attempt > 0 || restored != nil && run.CreatedAt.Before(*restored)
}

// recoverRestored reads when a backup was brought back.
func (s *Studio) recoverRestored(ctx context.Context) error {
	at, err := retry(ctx, s.log, "read when a backup was brought back", func() (time.Time, error) { return s.store.RestoredAt(ctx) })
	if err != nil {
		return fmt.Errorf("read when a backup was brought back: %w", err)
	}
	s.restored.Store(&at)
	return nil
}

// launchedOutputs are the outputs of the contract as launched. A run that the
// reference left behind has none stored: there today's contract has to do.
func (s *Studio) launchedOutputs(ctx context.Context, run *Run) ([]manifest.Output, error) {
	if run.ContractRef != "" {
		data, err := s.store.Blob(ctx, run.ContractRef)
		if err != nil {
			return nil, fmt.Errorf("read the contract of run %s: %w", run.ID, err)
		}
		return decodeOutputs(data)
	}
	contract, err := s.catalog.Snapshot().Contract(run.Workflow, run.Contract)
	if err != nil {
		return nil, recoveryError(fmt.Sprintf("Cannot recover active run because contract '%s / %s' no longer exists.", run.Workflow, run.Contract))
	}
	return contract.Outputs, nil
}

func decodeOutputs(contract []byte) ([]manifest.Output, error) {
	var doc struct {
		Outputs []manifest.Output `json:"outputs"`
	}
	if err := json.Unmarshal(contract, &doc); err != nil {
		return nil, recoveryError(fmt.Sprintf("The contract that was stored with the run cannot be read: %v.", err))
	}
	return doc.Outputs, nil
}
