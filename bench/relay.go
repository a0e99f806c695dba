package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
)

// relayCommand is the first argument that makes this program a bare relay.
const relayCommand = "relay"

// relayChunk is how much a relay copies at once.
const relayChunk = 1 << 20

// newRelay makes a contender of this very program: a loop that copies what
// ComfyUI sends, and does nothing else. It is the ceiling of any proxy that has
// to read the bytes and write them.
func newRelay() (*contender, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the relay's program: %w", err)
	}
	return &contender{role: rawRole, command: func(p place) []string { return []string{self, relayCommand, p.addr, p.comfyURL} }}, nil
}

// relayHandler answers each GET with what comfyURL answers, and is healthy.
func relayHandler(comfyURL string) http.Handler {
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" {
			return
		}
		if err := relay(client, w, r, comfyURL); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
		}
	})
}

func relay(client *http.Client, w http.ResponseWriter, r *http.Request, comfyURL string) (err error) {
	req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, comfyURL+r.URL.RequestURI(), nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	w.Header().Set("Content-Length", resp.Header.Get("Content-Length"))
	w.WriteHeader(resp.StatusCode)
	// Without its other methods the writer takes pieces of our size.
	_, err = io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{resp.Body}, make([]byte, relayChunk))
	return err
}
