//go:build unix

package manifest_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/comfygit-ai/studio-sidecar/manifest"
)

// withoutFiles calls f while this process can open no file.
func withoutFiles(t *testing.T, f func()) {
	t.Helper()
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	none := was
	none.Cur = 0
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
			t.Error(err)
		}
	}()
	f()
}

func TestFilesThatCannotBeReadForAWhile(t *testing.T) {
	files := map[string]string{"pyproject.toml": declare("w", ""), "workflow_api/g.json": `{"1":{"class_type":"A"}}`}
	alone := map[string]string{"pyproject.toml": files["pyproject.toml"]}
	resting := func(t *testing.T, files map[string]string) *manifest.Catalog {
		env, err := manifest.Locate(write(t, files))
		if err != nil {
			t.Fatal(err)
		}
		return manifest.OpenAt(env, func() time.Time { return time.Now().Add(time.Hour) })
	}
	t.Run("contracts", func(t *testing.T) {
		c := resting(t, files)
		withoutFiles(t, func() {
			if len(c.Snapshot().Faults) != 1 {
				t.Error("the file was read")
			}
		})
		if s := c.Snapshot(); len(s.Faults) > 0 || len(s.Contracts()) != 1 {
			t.Errorf("afterwards: %v", s.Faults)
		}
	})
	t.Run("digest", func(t *testing.T) {
		c := resting(t, files)
		withoutFiles(t, func() {
			if digest := c.Digest(); digest != "" {
				t.Errorf("digest of nothing: %s", digest)
			}
		})
		if want := resting(t, files).Digest(); c.Digest() != want || want == "" {
			t.Errorf("afterwards %q, want %q", c.Digest(), want)
		}
	})
	t.Run("digest_of_one_file", func(t *testing.T) {
		c := resting(t, alone)
		withoutFiles(t, func() {
			if digest := c.Digest(); digest != "" {
				t.Errorf("digest of nothing: %s", digest)
			}
		})
		if want := resting(t, alone).Digest(); c.Digest() != want || want == "" {
			t.Errorf("afterwards %q, want %q", c.Digest(), want)
		}
	})
	t.Run("graphs", func(t *testing.T) {
		c := resting(t, files)
		c.Snapshot()
		c.Digest()
		withoutFiles(t, func() {
			if len(c.Snapshot().Diagnose()) != 1 {
				t.Error("the graph was read")
			}
		})
		if faults := c.Snapshot().Diagnose(); len(faults) > 0 {
			t.Errorf("afterwards: %v", faults)
		}
	})
}
