package comfyfake_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

// pair is the two ends of one connection.
func pair(t *testing.T) (net.Conn, net.Conn, net.Listener) {
	t.Helper()
	l, dial := comfyfake.Pipe()
	got := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
		}
		got <- c
	}()
	a, err := dial(t.Context(), "tcp", "anything:1")
	if err != nil {
		t.Fatal(err)
	}
	return a, <-got, l
}

func TestPipe(t *testing.T) {
	t.Run("buffers_until_full_and_blocks_then", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a, b, _ := pair(t)
			defer a.Close()
			defer b.Close()
			data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
			wrote := make(chan error, 1)
			go func() {
				_, err := a.Write(data)
				wrote <- err
			}()
			synctest.Wait()
			select {
			case err := <-wrote:
				t.Fatalf("wrote 1 MiB unread: %v", err)
			default:
			}
			got := make([]byte, len(data))
			if _, err := io.ReadFull(b, got); err != nil || !bytes.Equal(got, data) {
				t.Errorf("read: %v", err)
			}
			if err := <-wrote; err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("deadline_ends_a_read_and_may_be_lifted", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a, b, _ := pair(t)
			defer a.Close()
			defer b.Close()
			if err := b.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
				t.Fatal(err)
			}
			if _, err := b.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("read: %v", err)
			}
			if err := b.SetReadDeadline(time.Time{}); err != nil {
				t.Fatal(err)
			}
			a.Write([]byte("x")) // read below
			if n, err := b.Read(make([]byte, 1)); n != 1 || err != nil {
				t.Errorf("read: %d %v", n, err)
			}
		})
	})
	t.Run("close_lets_the_far_end_read_what_was_written", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a, b, _ := pair(t)
			a.Write([]byte("last")) // read below
			a.Close()               // never fails
			if got, err := io.ReadAll(b); string(got) != "last" || err != nil {
				t.Errorf("read: %q %v", got, err)
			}
			if _, err := b.Write([]byte("x")); err == nil {
				t.Error("wrote to a closed connection")
			}
			if _, err := a.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
				t.Errorf("read of a closed end: %v", err)
			}
		})
	})
	t.Run("closed_listener_refuses", func(t *testing.T) {
		l, dial := comfyfake.Pipe()
		l.Close() // never fails
		if _, err := dial(t.Context(), "tcp", "x"); !errors.Is(err, net.ErrClosed) {
			t.Errorf("dial: %v", err)
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("accept: %v", err)
		}
	})
}
