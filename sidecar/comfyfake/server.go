package comfyfake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
)

// Server is one fake ComfyUI. Its methods may be called from any goroutine.
type Server struct {
	opts   Options
	files  folders
	broken error // why there are no folders to work in
	table  []*class
	byName map[string]*class

	book   book
	faults faultList
	gate   gate

	ctx      context.Context
	cancel   context.CancelFunc
	requests sync.WaitGroup

	mu     sync.Mutex
	closed bool
	proc   *process
	https  []*http.Server
	conns  map[net.Conn]struct{}
	change *sync.Cond
}

// New prepares a server. Folders that cannot be made are reported by Serve,
// and every route answers 500.
func New(o Options) *Server {
	s := &Server{opts: o.withDefaults(), conns: map[net.Conn]struct{}{}, byName: map[string]*class{}}
	s.table = classes(s.opts.Generation)
	for _, k := range s.table {
		s.byName[k.name] = k
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.change = sync.NewCond(&s.mu)
	s.files, s.broken = openFolders(o.Dir)
	s.proc = newProcess(s)
	return s
}

// Serve answers on l until Close, and then returns nil.
func (s *Server) Serve(l net.Listener) error {
	if s.broken != nil {
		return fmt.Errorf("serve: %w", s.broken)
	}
	srv := &http.Server{Handler: s.Handler(), ConnState: s.connState, ErrorLog: log.New(io.Discard, "", 0)}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errors.Join(errClosed, l.Close())
	}
	s.https = append(s.https, srv)
	s.mu.Unlock()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

var errClosed = errors.New("the fake is closed")

func (s *Server) connState(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateNew:
		s.conns[c] = struct{}{}
	case http.StateClosed, http.StateHijacked:
		delete(s.conns, c)
		s.change.Broadcast()
	}
}

// Close ends every connection and run at once, waits for all goroutines and
// removes the private folder. A second call does nothing.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	servers, proc := s.https, s.proc
	s.mu.Unlock()

	s.cancel()
	var errs []error
	for _, srv := range servers {
		errs = append(errs, srv.Close())
	}
	proc.stop()
	s.requests.Wait()
	s.mu.Lock()
	for len(s.conns) > 0 {
		s.change.Wait()
	}
	s.mu.Unlock()
	return errors.Join(append(errs, s.files.remove())...)
}

// Restart plays a new process on the same folders: queue, history, counter,
// cache and temp folder are gone, sockets end without a close frame, and open
// HTTP connections break. Faults, records and Hold stay.
func (s *Server) Restart() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errClosed
	}
	old := s.proc
	s.proc = newProcess(s)
	conns := make([]net.Conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	s.mu.Unlock()
	old.stop()
	for _, c := range conns {
		if err := c.Close(); err != nil {
			s.opts.Log.Debug("close connection", "err", err)
		}
	}
	return s.files.emptyTemp()
}

// Forget drops queue and history and ends the running run without a trace, as
// a server that lost its memory; sockets stay open.
func (s *Server) Forget() {
	s.current().forget()
}

func (s *Server) current() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc
}

// Sockets is the number of websockets open now.
func (s *Server) Sockets() int { return s.current().hub.count() }

// Connections is the number of TCP or pipe connections open now, websockets
// included; it knows only connections made through Serve.
func (s *Server) Connections() int {
	s.mu.Lock()
	n := len(s.conns)
	s.mu.Unlock()
	return n + s.Sockets()
}
