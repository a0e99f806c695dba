package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

// rawCommand is the first argument that makes this program a raw copy.
const rawCommand = "raw"

// newRaw makes a contender of this very program: a bare server that sends the
// bytes that bodies has for a target. It is the floor that no server with the
// same answers can get below.
func newRaw(path string, bodies map[string]string) (*contender, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the raw copy's program: %w", err)
	}
	data, err := json.Marshal(bodies)
	if err != nil {
		return nil, fmt.Errorf("encode raw bodies: %w", err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		return nil, fmt.Errorf("write raw bodies: %w", err)
	}
	return &contender{role: rawRole, command: func(p place) []string { return []string{self, rawCommand, p.addr, path} }}, nil
}

// serveRaw is the raw copy's main: it serves at addr until life ends.
func serveRaw(addr, path string, life io.Reader) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read raw bodies: %w", err)
	}
	var bodies map[string]string
	if err := json.Unmarshal(data, &bodies); err != nil {
		return fmt.Errorf("read raw bodies: %w", err)
	}
	return listen(addr, rawHandler(bodies), life)
}

// listen answers at addr until life ends.
func listen(addr string, h http.Handler, life io.Reader) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	var serving sync.WaitGroup
	var served error
	serving.Go(func() { served = srv.Serve(l) })
	_, err = io.Copy(io.Discard, life)
	err = errors.Join(err, srv.Close())
	serving.Wait()
	if !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// rawHandler answers each request target with its bytes.
func rawHandler(bodies map[string]string) http.Handler {
	// A text would reach the connection in small pieces.
	whole := map[string][]byte{}
	for target, body := range bodies {
		whole[target] = []byte(body)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := whole[r.URL.RequestURI()]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.Write(body) //nolint:errcheck // the client is gone
	})
}
