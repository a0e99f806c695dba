package bounded_test

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/comfygit-ai/studio-sidecar/internal/bounded"
)

type failing struct {
	testing.TB
	failed bool
}

func (f *failing) Helper()               {}
func (f *failing) Fatalf(string, ...any) { f.failed = true }

func TestInput(t *testing.T) {
	fails := func(do func()) bool {
		f := &failing{TB: t}
		bounded.Input(f, do)
		return f.failed
	}
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		for _, c := range []struct {
			name string
			do   func()
			want bool
		}{
			{"quick", func() {}, false},
			{"slow once", func() {
				if calls++; calls == 1 {
					<-time.After(2 * bounded.Time)
				}
			}, false},
			{"always slow", func() { <-time.After(bounded.Time + 1) }, true},
		} {
			if got := fails(c.do); got != c.want {
				t.Errorf("%s: fails %v", c.name, got)
			}
		}
	})
	var kept []byte
	if !fails(func() { kept = make([]byte, bounded.Memory+64<<20) }) {
		t.Error("growth goes unnoticed")
	}
	runtime.KeepAlive(kept)
}
