package routes_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/routes"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

// idle is a backend that is asked nothing.
type idle struct{ sidecar.Executor }

// pipes is a listener whose connections hold nothing: a write waits for its
// reader.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.done)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (p *pipes) dial() net.Conn {
	near, far := net.Pipe()
	p.conns <- far
	return near
}

// quiet is a server in a bubble, where nothing runs and time is the test's.
type quiet struct {
	store *sqlite.Store
	env   string
	dial  func() net.Conn
}

func startQuiet(t *testing.T) *quiet {
	t.Helper()
	store, err := sqlite.Open(t.Context(), sqlite.Options{Ephemeral: true})
	must(t, err)
	dir := environment(t, "demo")
	env, err := manifest.Locate(dir)
	must(t, err)
	h, err := routes.New(routes.Options{Studio: sidecar.New(sidecar.Options{Catalog: manifest.Open(env), Store: store, Executor: idle{}})})
	must(t, err)
	srv := routes.HTTPServer(h, nil)
	l := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	t.Cleanup(func() {
		must(t, srv.Shutdown(context.Background()))
		if err := <-done; err != http.ErrServerClosed {
			t.Error(err)
		}
		must(t, store.Close())
	})
	return &quiet{store, dir, l.dial}
}

func (q *quiet) open(t *testing.T, path string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn := q.dial()
	_, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
	must(t, err)
	return conn, bufio.NewReader(conn)
}

func TestSilentStreamBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := startQuiet(t)
		conn, in := q.open(t, "/events")
		defer func() { must(t, conn.Close()) }()
		began, beats := time.Now(), 0
		for beats < 3 {
			line, err := in.ReadString('\n')
			must(t, err)
			if line == ":\n" {
				beats++
			}
		}
		if took := time.Since(began); took != 45*time.Second {
			t.Errorf("three beats took %v", took)
		}
	})
}

func TestReaderThatIsStuckIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := startQuiet(t)
		conn, in := q.open(t, "/events")
		defer func() { must(t, conn.Close()) }()
		for line := ""; !strings.HasPrefix(line, "id: "); {
			var err error
			line, err = in.ReadString('\n')
			must(t, err)
		}
		// From here on nothing is read: the next beat cannot be delivered.
		<-time.After(15*time.Second + 30*time.Second + time.Second)
		if err := conn.SetReadDeadline(time.Now().Add(time.Second)); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("the connection is still open: %v", err)
		}
	})
}

func TestAnswersAreGivenTheirTime(t *testing.T) {
	long := strings.Replace(pyproject, "Solid colour", strings.Repeat("x", 3<<20), 1)
	contracts := func(t *testing.T) (net.Conn, *http.Response) {
		q := startQuiet(t)
		must(t, os.WriteFile(filepath.Join(q.env, ".cec", "pyproject.toml"), []byte(long), 0o644))
		conn, in := q.open(t, "/contracts")
		resp, err := http.ReadResponse(in, nil)
		must(t, err)
		return conn, resp
	}
	bubble(t, "who_reads_slowly_gets_it_all", func(t *testing.T) {
		conn, resp := contracts(t)
		defer func() { must(t, conn.Close()) }()
		began, size := time.Now(), int64(0)
		for {
			n, err := io.CopyN(io.Discard, resp.Body, 256<<10)
			size += n
			if errors.Is(err, io.EOF) {
				break
			}
			must(t, err)
			<-time.After(10 * time.Second)
		}
		if size != resp.ContentLength || time.Since(began) < 2*time.Minute {
			t.Errorf("%d of %d bytes in %v", size, resp.ContentLength, time.Since(began))
		}
	})
	bubble(t, "who_stops_reading_is_given_up", func(t *testing.T) {
		conn, resp := contracts(t)
		defer func() { must(t, conn.Close()) }()
		<-time.After(time.Minute + time.Second)
		if n, err := io.Copy(io.Discard, resp.Body); err == nil {
			t.Errorf("all %d bytes came", n)
		}
	})
}

func bubble(t *testing.T, name string, test func(*testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

func TestReadinessAsksNoBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := startQuiet(t)
		began := time.Now()
		conn, in := q.open(t, "/readyz")
		defer func() { must(t, conn.Close()) }()
		line, err := in.ReadString('\n')
		if took := time.Since(began); err != nil || line != "HTTP/1.1 200 OK\r\n" || took != 0 {
			t.Errorf("%q %v after %v", line, err, took)
		}
	})
}

func TestBodyThatStopsComing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := startQuiet(t)
		conn := q.dial()
		defer func() { must(t, conn.Close()) }()
		began := time.Now()
		_, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n{\"wa", runPath)
		must(t, err)
		line, err := bufio.NewReader(conn).ReadString('\n')
		if took := time.Since(began); err != nil || line != "HTTP/1.1 400 Bad Request\r\n" || took != 30*time.Second {
			t.Errorf("%q %v after %v", line, err, took)
		}
	})
}
