package routes_test

import (
	"bytes"
	"sync"
)

// logKept is what a test keeps of its log at most: to fuzz writes hundreds of
// megabytes.
const logKept = 8 << 20 // bytes

// lockedBuffer is a log that may be read while it is written. It begins anew
// where it would hold more than logKept.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.buf.Len()+len(p) > logKept {
		b.buf.Reset()
	}
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
