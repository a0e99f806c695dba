package routes

import (
	"context"
	"sync"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// cancelPatience bounds how long an answer waits for another one.
const cancelPatience = 3 * time.Second

// cancels are the cancels that are not answered yet. Who waits for a cancelled
// run is answered after whoever cancelled it, with what the backend said.
type cancels struct {
	mu   sync.Mutex
	open map[sidecar.RunID][]chan struct{}
}

// begin notes a cancel, until the function that it returns is called.
func (c *cancels) begin(id sidecar.RunID) (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = map[sidecar.RunID][]chan struct{}{}
	}
	answered := make(chan struct{})
	c.open[id] = append(c.open[id], answered)
	return func() { c.end(id, answered) }
}

func (c *cancels) end(id sidecar.RunID, answered chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(answered)
	for i, other := range c.open[id] {
		if other == answered {
			c.open[id] = append(c.open[id][:i], c.open[id][i+1:]...)
			break
		}
	}
	if len(c.open[id]) == 0 {
		delete(c.open, id)
	}
}

// first is a cancel of the run that is not answered yet; nil when there is none.
func (c *cancels) first(id sidecar.RunID) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open[id]) == 0 {
		return nil
	}
	return c.open[id][0]
}

// afterCancel is a run that was waited for. If somebody cancelled it just now,
// it is the run as that one was told of it.
func (c *call) afterCancel(ctx context.Context, run *sidecar.Run) *sidecar.Run {
	answered := c.cancels.first(run.ID)
	if run.Status != sidecar.StatusCancelled || answered == nil {
		return run
	}
	timer := time.NewTimer(cancelPatience)
	defer timer.Stop()
	select {
	case <-answered:
	case <-timer.C:
	case <-ctx.Done():
	}
	latest, err := c.studio.Wait(context.WithoutCancel(ctx), run.ID)
	if err != nil {
		return run
	}
	return latest
}
