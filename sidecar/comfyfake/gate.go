package comfyfake

import "sync"

// gate keeps runs from going on while it is shut.
type gate struct {
	mu   sync.Mutex
	shut chan struct{} // nil: open
}

// Hold keeps every run executing: a node that has been announced waits there
// until Release, an interrupt or the end of the server. A fully cached run
// waits before it reports success.
func (s *Server) Hold() {
	s.gate.mu.Lock()
	defer s.gate.mu.Unlock()
	if s.gate.shut == nil {
		s.gate.shut = make(chan struct{})
	}
}

// Release lets held runs go on, and later ones run freely.
func (s *Server) Release() {
	s.gate.mu.Lock()
	defer s.gate.mu.Unlock()
	if s.gate.shut != nil {
		close(s.gate.shut)
		s.gate.shut = nil
	}
}

// Step lets the nodes go on that wait just now; those that come later wait.
func (s *Server) Step() {
	s.gate.mu.Lock()
	defer s.gate.mu.Unlock()
	if s.gate.shut != nil {
		close(s.gate.shut)
		s.gate.shut = make(chan struct{})
	}
}

// wait returns what to wait for, or nil.
func (g *gate) wait() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shut
}
