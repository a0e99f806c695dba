//go:build linux

package routes_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/comfygit-ai/studio-sidecar/internal/need"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// smallDisk is a disk of 4 MiB; grow makes it larger.
func smallDisk(t *testing.T) (path string, grow func()) {
	t.Helper()
	need.That(t, os.Getuid() == 0, "root, to mount a small disk")
	path = t.TempDir()
	mount := func(options string) error {
		return exec.Command("mount", "-t", "tmpfs", "-o", options, "tmpfs", path).Run()
	}
	need.That(t, mount("size=4m") == nil, "the right to mount a small disk")
	t.Cleanup(func() { must(t, exec.Command("umount", path).Run()) })
	return path, func() { must(t, mount("remount,size=32m")) }
}

// fillDisk takes what is left of a disk.
func fillDisk(t *testing.T, disk string) {
	t.Helper()
	file, err := os.Create(filepath.Join(disk, "rest"))
	must(t, err)
	for n := 64 << 10; n > 0; {
		if _, err := file.Write(make([]byte, n)); err != nil {
			n /= 2
		}
	}
	must(t, file.Close())
}

// TestFullDiskIsToldCalmly: what small changes still find space for does not
// make a full disk one that is well.
func TestFullDiskIsToldCalmly(t *testing.T) {
	disk, grow := smallDisk(t)
	r := setup{name: "demo", db: filepath.Join(disk, "state.db")}.start(t)
	small := "/runs/" + r.run(`{"wait": true}`)["run_id"].(string)
	large := `{"inputs": {"width": "` + strings.Repeat("w", 500<<10) + `"}}`
	status := 0
	for range 50 {
		if status = r.ask("POST", "/contracts/solid/default/run", large).status; status == http.StatusServiceUnavailable {
			break
		}
	}
	if status != http.StatusServiceUnavailable {
		t.Fatalf("nothing was refused: %d", status)
	}
	taken, refused := 0, 0
	for refused < 4 {
		for _, a := range []reply{r.ask("PATCH", small, fmt.Sprintf(`{"title": "t%d"}`, taken)), r.ask("POST", "/contracts/solid/default/run", large)} {
			if a.status == http.StatusOK {
				taken++
			} else {
				refused++
			}
		}
		if a := r.get("/readyz"); a.status != http.StatusServiceUnavailable {
			t.Fatalf("/readyz answers %d after %d small changes: %s", a.status, taken, a.body)
		}
	}
	if a := r.get("/runs"); a.status != http.StatusOK || taken == 0 {
		t.Errorf("/runs answers %d, %d small changes were made", a.status, taken)
	}
	grow()
	eventually(t, "the server is ready again", func() bool { return r.get("/readyz").status == http.StatusOK })
	if a := r.ask("POST", "/contracts/solid/default/run", large); a.status == http.StatusServiceUnavailable {
		t.Errorf("with space: %d %s", a.status, a.body)
	}
	t.Logf("%d changes made and %d refused on a full disk", taken, refused)
	for _, line := range []string{"cannot be written", "can be written again"} {
		if n := strings.Count(r.log.String(), line); n != 1 {
			t.Errorf("the log says %d times that the database %s", n, line)
		}
	}
}

// TestWaitOnFullDisk: who waits for a run whose end finds no space is answered
// in time, with why, and the run ends when there is space.
func TestWaitOnFullDisk(t *testing.T) {
	disk, grow := smallDisk(t)
	r := setup{name: "demo", db: filepath.Join(disk, "state.db"), patience: time.Second}.start(t)
	r.fake.Hold()
	type waiter struct {
		body           string
		answer         chan reply
		status         int
		code, in, more string
	}
	waiters := []*waiter{{`{"wait": true, "timeout_seconds": 1.5}`, make(chan reply, 1), http.StatusGatewayTimeout, "timeout", "hint", "output_slots"}}
	for range sidecar.DefaultWindow { // one of them waits for its turn
		waiters = append(waiters, &waiter{`{"wait": true}`, make(chan reply, 1), http.StatusServiceUnavailable, "storage_unavailable", "message", "run"})
	}
	for _, w := range waiters {
		go func() { w.answer <- r.ask("POST", "/contracts/solid/default/run", w.body) }()
	}
	count := func(status string) (n int) {
		runs, _ := r.get("/runs").json(t)["runs"].([]any)
		for _, run := range runs {
			if doc, _ := run.(map[string]any); doc["status"] == status {
				n++
			}
		}
		return n
	}
	eventually(t, "the runs are handed over", func() bool { return count("running") == sidecar.DefaultWindow && count("submitted") == 1 })
	fillDisk(t, disk)
	r.fake.Release()
	for _, w := range waiters {
		select {
		case a := <-w.answer:
			doc := a.json(t)
			said, _ := doc[w.in].(string)
			if a.status != w.status || doc["error"] != w.code || !strings.Contains(said, "no space left") || doc[w.more] == nil {
				t.Errorf("%s: %d %s", w.body, a.status, a.body)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%s: no answer", w.body)
		}
	}
	grow()
	eventually(t, "the runs end", func() bool { return count("completed") == len(waiters) })
	eventually(t, "the server is ready again", func() bool { return r.get("/readyz").status == http.StatusOK })
	for line, most := range map[string]int{`level=ERROR msg="commit signals"`: sidecar.DefaultWindow, "the state database cannot be written": 1, "can be written again": 1} {
		if n := strings.Count(r.log.String(), line); n < 1 || n > most {
			t.Errorf("the log says %d times: %s", n, line)
		}
	}
}
