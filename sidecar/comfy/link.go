package comfy

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync"
	"time"
)

// deafAfter is how long a socket may stay silent after the queue moved: every
// socket is told of that. The margin is for a ComfyUI that is busy, or
// waits for another socket that does not read.
const deafAfter = 10 * time.Second

type linkState int

const (
	linkDown linkState = iota
	linkDialing
	linkUp
)

// link is the state of the socket as Submit, Look and Health see it. It holds
// the client id of the connection, or of the one that will be tried next, so
// that a prompt submitted in between is heard of as soon as it stands.
type link struct {
	mu     sync.Mutex
	client string
	state  linkState
	epoch  int
	moved  chan struct{} // closed when state changes
	queue  int           // prompts in the queue, while linkUp
	heard  time.Time     // when the last bytes came
	spoken time.Time     // when the last message came
	due    time.Time     // by when a message must come; zero: none is owed
}

func newLink() *link { return &link{client: newClientID(), moved: make(chan struct{})} }

// newClientID is fresh for each connection: when an old socket of the same id
// closes, ComfyUI forgets the new one too.
func newClientID() string {
	var b [16]byte
	rand.Read(b[:])
	return "comfygit-serve-" + hex.EncodeToString(b[:])
}

// clientID is the id to submit under. While a connection is being made it
// waits for the outcome, patience at most.
func (l *link) clientID(ctx context.Context, patience time.Duration) string {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		l.mu.Lock()
		id, state, moved := l.client, l.state, l.moved
		l.mu.Unlock()
		if state != linkDialing {
			return id
		}
		select {
		case <-moved:
		case <-timer.C:
			return id
		case <-ctx.Done():
			return id
		}
	}
}

// connected reports whether messages come in just now.
func (l *link) connected() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state == linkUp
}

func (l *link) setLocked(state linkState) {
	l.state = state
	close(l.moved)
	l.moved = make(chan struct{})
}

// dialing begins an attempt and returns the client id for it.
func (l *link) dialing() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setLocked(linkDialing)
	return l.client
}

// opened notes that the handshake is done; ComfyUI owes its first message.
func (l *link) opened() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.heard, l.spoken, l.due = now, time.Time{}, now.Add(deafAfter)
}

// up begins an epoch and returns its number.
func (l *link) up() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epoch++
	l.setLocked(linkUp)
	return l.epoch
}

// down ends the attempt or the epoch; the next one gets another client id.
func (l *link) down() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.client = newClientID()
	l.due = time.Time{}
	l.setLocked(linkDown)
}

// bytes notes that something came.
func (l *link) bytes() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = time.Now()
}

// message notes that a whole message came.
func (l *link) message() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spoken, l.due = time.Now(), time.Time{}
}

func (l *link) setQueue(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = n
}

// remaining is the length of the queue as the socket last told it.
func (l *link) remaining() (n int, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue, l.state == linkUp
}

// expect notes that the queue has moved since then, so that a message must
// have come, or comes.
func (l *link) expect(since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == linkUp && l.due.IsZero() && l.spoken.Before(since) {
		l.due = time.Now().Add(deafAfter)
	}
}

// silence is how long nothing came, and whether a message that was owed did
// not come in time.
func (l *link) silence() (quiet time.Duration, deaf bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	return now.Sub(l.heard), !l.due.IsZero() && now.After(l.due)
}
