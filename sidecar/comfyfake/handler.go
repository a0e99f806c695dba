package comfyfake

import (
	"net/http"
	"net/url"
	"strings"
)

// Handler answers all routes, bare and below /api. Runs that it starts belong
// to the server and end with Close.
func (s *Server) Handler() http.Handler {
	return http.HandlerFunc(s.serveHTTP)
}

func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	defer s.requests.Done()
	r.Body = http.MaxBytesReader(w, s.book.request(r, s.opts.Now()), s.opts.MaxUpload)
	if s.foreign(r) {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	s.answer(w, r)
}

func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.requests.Add(1)
	return true
}

// foreign applies the origin rules: a loopback Host wants an Origin of equal
// host and port, as far as both name a port, and the newer generation refuses every cross-site request.
func (s *Server) foreign(r *http.Request) bool {
	if s.opts.Generation >= V0_33_0 && r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		return true
	}
	origin, err := url.Parse(r.Header.Get("Origin"))
	if err != nil || origin.Host == "" || !loopback(r.Host) {
		return false
	}
	host, port := splitHost(r.Host)
	if port == "" || origin.Port() == "" {
		return !strings.EqualFold(host, origin.Hostname())
	}
	return !strings.EqualFold(r.Host, origin.Host)
}

func loopback(hostport string) bool {
	host, _ := splitHost(hostport)
	return host == "localhost" || host == "::1" || strings.HasPrefix(host, "127.")
}

func splitHost(hostport string) (host, port string) {
	u := url.URL{Host: hostport}
	return u.Hostname(), u.Port()
}
