package comfyfake

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

func writeJSON(w http.ResponseWriter, status int, v any) {
	body := appendJSON(nil, v)
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write(body) // the client is gone, and nobody is left to tell
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	io.WriteString(w, text) // as in writeJSON
}

// writeTrouble is how the real server reports an exception in a handler.
func writeTrouble(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	writeText(w, http.StatusInternalServerError, "500 Internal Server Error\n\nServer got itself in trouble")
}

func writeTooLarge(w http.ResponseWriter, limit int64) {
	writeText(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("Maximum request body size %d exceeded.", limit))
}

// parseBody reads the JSON body, gzip or plain.
func parseBody(r *http.Request) (any, error) {
	from := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			return nil, fmt.Errorf("read body: %w", err)
		}
		from = z
	}
	data, err := io.ReadAll(from)
	if err != nil {
		return nil, fmt.Errorf("read body: %w", err)
	}
	return parseJSON(data)
}

func readObject(r *http.Request) (*object, bool) {
	v, err := parseBody(r)
	o, ok := v.(*object)
	return o, err == nil && ok
}

// tooLarge says whether reading failed for the body's size.
func tooLarge(err error) bool {
	_, ok := errors.AsType[*http.MaxBytesError](err)
	return ok
}
