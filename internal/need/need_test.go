package need_test

import (
	"runtime"
	"testing"

	"github.com/comfygit-ai/studio-sidecar/internal/need"
)

// ended notes how a test would end.
type ended struct {
	testing.TB
	how string
}

func (e *ended) Helper()               {}
func (e *ended) Skipf(string, ...any)  { e.how = "skipped"; runtime.Goexit() }
func (e *ended) Fatalf(string, ...any) { e.how = "failed"; runtime.Goexit() }

func endOf(do func(t testing.TB)) string {
	e, done := &ended{how: "went on"}, make(chan struct{})
	go func() {
		defer close(done)
		do(e)
	}()
	<-done
	return e.how
}

func TestNeeds(t *testing.T) {
	for _, c := range []struct {
		name, ci string
		do       func(testing.TB)
		want     string
	}{
		{"what_is_there_lets_it_go_on", "true", func(t testing.TB) { need.Command(t, "no-such-command", "go") }, "went on"},
		{"what_is_missing_skips", "", func(t testing.TB) { need.Command(t, "no-such-command") }, "skipped"},
		{"what_is_missing_fails_in_ci", "true", func(t testing.TB) { need.Command(t, "no-such-command") }, "failed"},
		{"what_is_not_so_fails_in_ci", "true", func(t testing.TB) { need.That(t, false, "root") }, "failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("CI", c.ci)
			if got := endOf(c.do); got != c.want {
				t.Errorf("it %s, want %s", got, c.want)
			}
		})
	}
}
