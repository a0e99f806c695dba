package sidecar

import "sync"

// Bell wakes any number of waiters. A waiter takes the channel of Wait before
// it looks at what it waits for, and so misses nothing. The zero Bell works.
type Bell struct {
	mu sync.Mutex
	ch chan struct{} // guarded by mu; closed and replaced by Ring
}

// Wait returns a channel that the next Ring closes.
func (b *Bell) Wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

// Ring wakes everybody who waits.
func (b *Bell) Ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}
