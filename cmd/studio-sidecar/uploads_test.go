package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/comfygit-ai/studio-sidecar/internal/need"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

// uploader is an environment whose ComfyUI folder is there, and its sidecar.
type uploader struct {
	*process
	input string
	start func() *process
}

func startUploader(t *testing.T) *uploader {
	t.Helper()
	_, comfy := startFake(t, comfyfake.Options{})
	dir := t.TempDir()
	env, err := layDemo(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(env.InputDir(), 0o755); err != nil {
		t.Fatal(err)
	}
	u := &uploader{input: env.InputDir()}
	u.start = func() *process {
		return start(t, env.Dir, comfy, "--state", "local", "--state-db", filepath.Join(dir, "state.sqlite"), "--artifact-dir", filepath.Join(dir, "artifacts"))
	}
	u.process = u.start()
	return u
}

func (u *uploader) prepare() (id, at string) {
	u.t.Helper()
	var slot struct {
		ID string `json:"upload_id"`
		At string `json:"upload_url"`
	}
	u.must("POST", "/uploads/prepare", `{"filename": "a.bin"}`).decode(u.t, &slot)
	return slot.ID, slot.At
}

func (u *uploader) status(id string) string {
	u.t.Helper()
	var got struct{ Status string }
	u.must("GET", "/uploads/"+id+"/status", "").decode(u.t, &got)
	return got.Status
}

func (u *uploader) files() []string {
	u.t.Helper()
	entries, err := os.ReadDir(u.input)
	if err != nil {
		u.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestUploadKilled kills the sidecar in the middle of an upload: the next one
// knows of it, and nothing of the file is left.
func TestUploadKilled(t *testing.T) {
	u := startUploader(t)
	kept, at := u.prepare()
	if a := u.must("PUT", at, "whole"); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	cut, at := u.prepare()
	conn, err := net.Dial("tcp", strings.TrimPrefix(u.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000000\r\n\r\n%s", at, strings.Repeat("z", 1<<20)); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "it is being received", func() bool { return len(u.files()) == 2 })
	u.end(syscall.SIGKILL)
	if got := u.files(); len(got) != 2 {
		t.Fatalf("it was not killed in the middle: %q", got)
	}
	u.process = u.start()
	if got := u.files(); len(got) != 1 || got[0] != kept+"_a.bin" {
		t.Errorf("left: %q", got)
	}
	if k, c := u.status(kept), u.status(cut); k != "ready" || c != "pending" {
		t.Errorf("%s and %s", k, c)
	}
	if a := u.must("PUT", at, "again"); a.status != http.StatusOK {
		t.Errorf("sent again: %d %s", a.status, a.body)
	}
}

var uploadMiB = flag.Int64("upload-mib", 64, "size of each upload of TestUploadMemory in MiB")

const (
	uploadsAtOnce = 4
	// moreMemory is what uploads at once may add, of whatever size.
	moreMemory = 40 << 20
)

// TestUploadMemory: uploads pass through.
func TestUploadMemory(t *testing.T) {
	u := startUploader(t)
	before := u.peak()
	var all sync.WaitGroup
	for range uploadsAtOnce {
		_, at := u.prepare()
		all.Go(func() {
			if err := u.send(t.Context(), at, *uploadMiB<<20); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if more := u.peak() - before; more > moreMemory {
		t.Errorf("%d uploads of %d MiB took %d MiB more", uploadsAtOnce, *uploadMiB, more>>20)
	} else {
		t.Logf("%d uploads of %d MiB took %d MiB more", uploadsAtOnce, *uploadMiB, more>>20)
	}
}

// send uploads zeros.
func (u *uploader) send(ctx context.Context, at string, size int64) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, u.url+at, io.LimitReader(zeros{}, size))
	if err != nil {
		return err
	}
	req.ContentLength = size
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		err = errors.Join(err, fmt.Errorf("%d %s", resp.StatusCode, body))
	}
	return errors.Join(err, resp.Body.Close())
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// peak is the most memory that the process has held so far.
func (u *uploader) peak() int64 {
	u.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", u.cmd.Process.Pid))
	need.That(u.t, !errors.Is(err, os.ErrNotExist), "the memory of a process in /proc")
	if err != nil {
		u.t.Fatal(err)
	}
	for line := range bytes.Lines(status) {
		var kib int64
		if n, err := fmt.Sscanf(string(line), "VmHWM: %d kB", &kib); n == 1 && err == nil {
			return kib << 10
		}
	}
	u.t.Fatalf("no VmHWM in %s", status)
	return 0
}
