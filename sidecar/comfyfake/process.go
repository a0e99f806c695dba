package comfyfake

import (
	"context"
	"crypto/rand"
	"sync"
)

// process is what dies with a restart of ComfyUI.
type process struct {
	s      *Server
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	hub    *hub
	temp   string // prefix of this process's preview files

	mu        sync.Mutex
	ended     bool
	pending   []*item
	running   *run
	working   bool
	number    int64
	past      history
	interrupt *signal
	cache     map[string]*cacheEntry
	dropCache bool
}

func newProcess(s *Server) *process {
	p := &process{s: s, temp: "ComfyUI_temp_" + randomLetters(5), interrupt: newSignal(), cache: map[string]*cacheEntry{}}
	p.past.limit = s.opts.HistoryLimit
	p.ctx, p.cancel = context.WithCancel(s.ctx)
	p.hub = newHub(p)
	return p
}

// spawn runs f in a goroutine that stop waits for; it refuses after stop.
func (p *process) spawn(f func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.spawnLocked(f)
}

func (p *process) spawnLocked(f func()) bool {
	if p.ended {
		return false
	}
	p.wg.Go(f)
	return true
}

// stop kills the process: nothing is sent any more and sockets just end.
func (p *process) stop() {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.cancel()
	p.hub.kill()
	p.wg.Wait()
}

func (p *process) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending = nil
	p.past.clear()
	if p.running != nil {
		p.running.forgotten = true
		p.running = nil
		p.interrupt.raise()
	}
}

func randomLetters(n int) string {
	text := []byte(rand.Text())
	for i := range text {
		text[i] = 'a' + text[i]%26
	}
	return string(text[:n])
}

// signal is the interrupt flag: raised, seen by waiters, cleared.
type signal struct {
	mu sync.Mutex
	up bool
	ch chan struct{}
}

func newSignal() *signal { return &signal{ch: make(chan struct{})} }

func (g *signal) raise() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.up {
		g.up = true
		close(g.ch)
	}
}

func (g *signal) clear() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.up {
		g.up = false
		g.ch = make(chan struct{})
	}
}

func (g *signal) raised() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.up
}

func (g *signal) wait() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ch
}
