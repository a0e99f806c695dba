package artifact_test

import (
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/comfygit-ai/studio-sidecar/internal/need"
)

// TestFolderIsTakenAway: copies go to where the next start looks for them, also
// when the folder was removed or replaced meanwhile.
func TestFolderIsTakenAway(t *testing.T) {
	need.That(t, runtime.GOOS != "windows", "open folders that can be moved")
	for name, take := range map[string]func(path string) error{
		"removed": os.RemoveAll,
		"moved":   func(path string) error { return os.Rename(path, path+".aside") },
		"replaced": func(path string) error {
			if err := os.Rename(path, path+".aside"); err != nil {
				return err
			}
			return os.Mkdir(path, 0o755)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, path := open(t)
			if _, err := d.Add("p1", "a.png", strings.NewReader("one")); err != nil {
				t.Fatal(err)
			}
			if err := take(path); err != nil {
				t.Fatal(err)
			}
			var adding sync.WaitGroup
			for range 4 {
				adding.Go(func() {
					added, err := d.Add("p2", "b.png", strings.NewReader("two"))
					if err != nil {
						t.Error(err)
						return
					}
					if got := read(t, d, added.Ref); got != "two" {
						t.Errorf("got %q", got)
					}
				})
			}
			adding.Wait()
			if list := files(t, path); len(list) != 4 {
				t.Errorf("in its place: %v", list)
			}
			if _, err := d.Open("p1/a.png"); err == nil {
				t.Error("what was taken away is still shown")
			}
		})
	}
}
