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
	fake  *comfyfake.Server
	input string
	start func() *process
}

func startUploader(t *testing.T) *uploader {
	t.Helper()
	fake, comfy := startFake(t, comfyfake.Options{})
	dir := t.TempDir()
	env, err := layDemo(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(env.InputDir(), 0o755); err != nil {
		t.Fatal(err)
	}
	u := &uploader{fake: fake, input: env.InputDir()}
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

var (
	uploadMiB   = flag.Int64("upload-mib", 64, "size of each upload of TestTransferMemory in MiB")
	downloadMiB = flag.Int64("download-mib", 256, "size of each download of TestTransferMemory in MiB")
)

const (
	transfersAtOnce = 4 // up, and as many down
	// moreMemory is what they may add, of whatever size.
	moreMemory = 40 << 20
)

// TestTransferMemory: uploads and downloads pass through.
func TestTransferMemory(t *testing.T) {
	u := startUploader(t)
	f, err := os.Create(filepath.Join(u.fake.Dir("output"), "big.bin"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(*downloadMiB<<20), f.Close()); err != nil { // no blocks on disk
		t.Fatal(err)
	}
	before := u.peak()
	var all sync.WaitGroup
	for range transfersAtOnce {
		_, at := u.prepare()
		all.Go(func() {
			if err := u.send(t.Context(), at, *uploadMiB<<20); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() {
			if n, err := u.receive(t.Context(), "/outputs/view?filename=big.bin"); err != nil || n != *downloadMiB<<20 {
				t.Errorf("%d bytes, %v", n, err)
			}
		})
	}
	all.Wait()
	more := u.peak() - before
	t.Logf("%d uploads of %d MiB and as many downloads of %d MiB took %d MiB more", transfersAtOnce, *uploadMiB, *downloadMiB, more>>20)
	if more > moreMemory {
		t.Error("that is more than what passes through takes")
	}
}

// receive downloads and counts.
func (u *uploader) receive(ctx context.Context, path string) (n int64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.url+path, nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	n, err = io.Copy(io.Discard, resp.Body)
	return n, errors.Join(err, resp.Body.Close())
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
