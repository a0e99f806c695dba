package worker

import (
	"context"
	"net/http"
	"sync"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/protocol"
)

// acquaintance is whether the worker was met, and is one of ours. A worker is
// asked nothing for the sake of this: its answers tell.
type acquaintance struct {
	mu   sync.Mutex
	ours bool
	from sidecar.Seq // the newest event when it was met
	bell sidecar.Bell
}

func (a *acquaintance) note(h http.Header) {
	head, ours := protocol.Abilities(h)
	if !ours {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.ours {
		a.ours, a.from = true, head
		a.bell.Ring()
	}
}

// forget: something else answers at the address now.
func (a *acquaintance) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ours = false
}

// wait returns once the worker has shown to be one of ours, with the number of
// what was its newest event before it heard of us.
func (a *acquaintance) wait(ctx context.Context) (sidecar.Seq, error) {
	for {
		rung := a.bell.Wait()
		if from, ours := a.met(); ours {
			return from, nil
		}
		select {
		case <-rung:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

func (a *acquaintance) met() (sidecar.Seq, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.from, a.ours
}

// greeting reads every answer's header.
type greeting struct {
	http.RoundTripper
	met *acquaintance
}

// RoundTrip makes the exchange.
func (g *greeting) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := g.RoundTripper.RoundTrip(req)
	if err == nil {
		g.met.note(resp.Header)
	}
	return resp, err
}

// CloseIdleConnections lets go of connections that nobody uses.
func (g *greeting) CloseIdleConnections() {
	if t, ok := g.RoundTripper.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
}
