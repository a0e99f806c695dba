package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/comfygit-ai/studio-sidecar/internal/need"
)

// holdings are what a process holds that must not grow with use.
type holdings struct{ goroutines, files, sockets int }

// held counts the goroutines and open files of this process: the sidecar, the
// ComfyUI beside it and the clients. What only idles between requests is let
// go of first.
func (s *stage) held() holdings {
	s.t.Helper()
	http.DefaultClient.CloseIdleConnections()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		s.t.Fatal(err)
	}
	return holdings{runtime.NumGoroutine(), len(open), s.fake.Sockets()}
}

// idling is how many more goroutines and files may be held: connections to
// ComfyUI that wait for their next request.
const idling = 5

// back waits until no more is held than before, and returns what is.
func (s *stage) back(before holdings) (now holdings) {
	s.t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		now = s.held()
		if now.goroutines <= before.goroutines+idling && now.files <= before.files+idling && now.sockets <= before.sockets {
			return now
		}
		select {
		case <-tick.C:
		case <-deadline:
			stacks := make([]byte, 1<<20)
			s.t.Fatalf("%+v were held before, %+v now\n%s", before, now, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// several does something n times, a few at a time.
func several(n int, do func(i int)) {
	places := make(chan struct{}, 8)
	var all sync.WaitGroup
	for i := range n {
		places <- struct{}{}
		all.Go(func() {
			do(i)
			<-places
		})
	}
	all.Wait()
}

func (s *stage) paint(seed int) {
	body := fmt.Sprintf(`{"inputs":{"seed":%d,"steps":1,"width":64,"height":64},"wait":true}`, seed)
	resp, err := http.Post(s.url+"/contracts/painting/default/run", "application/json", strings.NewReader(body))
	if err != nil {
		s.t.Error(err)
		return
	}
	defer resp.Body.Close()
	if answer, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		s.t.Errorf("%d %s %v", resp.StatusCode, answer, err)
	}
}

// abort opens something and leaves after the first bytes.
func (s *stage) abort(path string) {
	ctx, leave := context.WithCancel(s.t.Context())
	defer leave()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		s.t.Error(err)
		return
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Error(err)
		return
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, 10)); err != nil || resp.StatusCode != http.StatusOK {
		s.t.Errorf("%s: %d %v", path, resp.StatusCode, err)
	}
}

// dials is how often a sidecar opened a socket to its ComfyUI.
func (s *stage) dials() (n int) {
	for _, req := range s.fake.Requests() {
		if strings.HasSuffix(req.Path, "/ws") {
			n++
		}
	}
	return n
}

// reconnect breaks the sockets of all stages at once, again and again.
func reconnect(t *testing.T, stages []*stage, times int) {
	t.Helper()
	for range times {
		var before []int
		for _, s := range stages {
			before = append(before, s.dials())
			s.fake.DropSockets()
		}
		for i, s := range stages {
			eventually(t, 20*time.Second, "another socket stands", func() bool { return s.dials() > before[i] && s.fake.Sockets() == 1 })
		}
	}
}

// TestNothingIsLeftBehind: after runs, broken sockets, downloads and streams
// that were left, no more goroutines and files are held than before. A socket
// that breaks soon after it was opened is opened again ever more slowly, so
// that the sockets of several sidecars break beside each other.
func TestNothingIsLeftBehind(t *testing.T) {
	_, err := os.Stat("/proc/self/fd")
	need.That(t, err == nil, "a list of its open files, /proc/self/fd")
	runs, sidecars, breaks, downloads := 60, 1, 2, 50
	if os.Getenv("STUDIO_FULL") != "" {
		runs, sidecars, breaks, downloads = 1000, 20, 10, 500
	}
	var stages []*stage
	for range sidecars {
		stages = append(stages, startStage(t))
	}
	s := stages[0]
	big := filepath.Join(s.fake.Dir("output"), "big.bin")
	if err := os.WriteFile(big, make([]byte, 8<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	file := "/outputs/view?filename=big.bin&subfolder=&type=output"
	exercise := func(runs, breaks, downloads int) {
		several(runs, s.paint)
		reconnect(t, stages, breaks)
		several(downloads, func(int) { s.abort(file) })
		several(downloads/10, func(int) { s.abort("/events?after=0") })
	}
	exercise(16, 1, 16) // what is kept for good is there
	before := s.held()
	exercise(runs, breaks, downloads)
	after := s.back(before)
	t.Logf("%d runs, %d reconnects of %d sidecars, %d downloads and %d streams left: %+v before, %+v after",
		runs, sidecars*breaks, sidecars, downloads, downloads/10, before, after)
}
