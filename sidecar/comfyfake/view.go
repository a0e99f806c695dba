package comfyfake

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// located is the file a /view or upload names.
type located struct {
	path, name string
}

// locate resolves the query of /view; status is 200 if the file may be read.
func (s *Server) locate(q url.Values) (located, int) {
	if !q.Has("filename") {
		return located{}, http.StatusNotFound
	}
	if s.opts.Generation >= V0_33_0 && strings.HasPrefix(q.Get("filename"), "blake3:") {
		return located{}, http.StatusNotFound // an asset, and there are none
	}
	name, kind := annotated(q.Get("filename"))
	if name == "" || strings.HasPrefix(name, "/") || strings.Contains(name, "..") {
		return located{}, http.StatusBadRequest
	}
	if kind == "" {
		kind = "output"
		if q.Has("type") {
			kind = q.Get("type")
		}
	}
	base := s.files.dir(kind)
	if base == "" {
		return located{}, http.StatusBadRequest
	}
	folder := filepath.Join(base, q.Get("subfolder"))
	if filepath.IsAbs(q.Get("subfolder")) {
		folder = filepath.Clean(q.Get("subfolder"))
	}
	if !inside(base, folder) {
		return located{}, http.StatusForbidden
	}
	name = path.Base(name)
	return located{path: filepath.Join(folder, name), name: name}, http.StatusOK
}

// queryOf reads a query in which a semicolon is a letter like any other.
func queryOf(r *http.Request) url.Values {
	q, err := url.ParseQuery(strings.ReplaceAll(r.URL.RawQuery, ";", "%3B"))
	if err != nil {
		return r.URL.Query()
	}
	return q
}

func (p *process) handleView(w http.ResponseWriter, r *http.Request, _ string) {
	q := queryOf(r)
	at, status := p.s.locate(q)
	if status != http.StatusOK {
		w.WriteHeader(status)
		return
	}
	f, err := os.Open(at.path)
	if err != nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	switch channel := q.Get("channel"); {
	case q.Has("preview"):
		writePreview(w, f, at.name, q.Get("preview"))
	case channel == "rgb" || channel == "a":
		writeChannel(w, f, at.name, channel)
	default:
		p.s.fileHeaders(w, r, at.name)
		sendFile(w, r, f, st)
	}
}

// fileHeaders sets type and disposition; the newer generation keeps browsers
// from running what it serves.
func (s *Server) fileHeaders(w http.ResponseWriter, r *http.Request, name string) {
	h := w.Header()
	kind := mediaType(name)
	shown := `filename="` + name + `"`
	if s.opts.Generation < V0_33_0 {
		if htmlLike(kind) {
			kind = "application/octet-stream"
		}
		h.Set("Content-Type", kind)
		h.Set("Content-Disposition", shown)
		return
	}
	h.Set("X-Content-Type-Options", "nosniff")
	shown = `filename="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"`
	if active(name) {
		h.Set("Vary", "Sec-Fetch-Dest")
		h.Set("Cache-Control", "no-store")
		if kind != "image/svg+xml" || r.Header.Get("Sec-Fetch-Dest") != "image" {
			kind, shown = "application/octet-stream", "attachment; "+shown
		}
	}
	h.Set("Content-Type", kind)
	h.Set("Content-Disposition", shown)
}

// etagOf is aiohttp's tag: time in ns and size, both hexadecimal.
func etagOf(st os.FileInfo) string {
	return `"` + strconv.FormatInt(st.ModTime().UnixNano(), 16) + "-" + strconv.FormatInt(st.Size(), 16) + `"`
}

// sendFile answers as aiohttp's FileResponse: one range only, and If-Range
// honours dates alone.
func sendFile(w http.ResponseWriter, r *http.Request, f *os.File, st os.FileInfo) {
	h := w.Header()
	etag, modified := etagOf(st), aged(st.ModTime()).UTC().Format(http.TimeFormat)
	if match := r.Header.Get("If-Match"); match != "" && match != "*" && !listed(match, etag) {
		w.WriteHeader(http.StatusPreconditionFailed)
		return
	}
	h.Set("Etag", etag)
	h.Set("Last-Modified", modified)
	if notModified(r, etag, st.ModTime()) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	from, n, err := rangeOf(r, st)
	if err != nil {
		h.Del("Etag")
		h.Del("Last-Modified")
		h.Set("Content-Range", "bytes */"+strconv.FormatInt(st.Size(), 10))
		w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		return
	}
	h.Set("Accept-Ranges", "bytes")
	h.Set("Content-Length", strconv.FormatInt(n, 10))
	status := http.StatusOK
	if n < st.Size() || ranged(r, st) {
		status = http.StatusPartialContent
		h.Set("Content-Range", "bytes "+strconv.FormatInt(from, 10)+"-"+strconv.FormatInt(from+n-1, 10)+"/"+strconv.FormatInt(st.Size(), 10))
	}
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		io.Copy(w, io.NewSectionReader(f, from, n)) // the client is gone
	}
}

// aged rounds up to the second, as aiohttp tells it.
func aged(t time.Time) time.Time {
	return t.Add(time.Second - 1).Truncate(time.Second)
}

func listed(header, etag string) bool {
	for part := range strings.SplitSeq(header, ",") {
		if part = strings.TrimSpace(part); part == "*" || strings.TrimPrefix(part, "W/") == etag {
			return true
		}
	}
	return false
}

func notModified(r *http.Request, etag string, at time.Time) bool {
	if match := r.Header.Get("If-None-Match"); match != "" {
		return listed(match, etag)
	}
	since, err := http.ParseTime(r.Header.Get("If-Modified-Since"))
	return err == nil && !aged(at).After(since)
}

// ranged says whether the Range header counts.
func ranged(r *http.Request, st os.FileInfo) bool {
	if r.Header.Get("Range") == "" {
		return false
	}
	since, err := http.ParseTime(r.Header.Get("If-Range"))
	return err != nil || !aged(st.ModTime()).After(since)
}

var errRange = errors.New("range not satisfiable")

// rangeOf reads "bytes=a-b"; every other form is not satisfiable.
func rangeOf(r *http.Request, st os.FileInfo) (from, n int64, err error) {
	size := st.Size()
	if !ranged(r, st) {
		return 0, size, nil
	}
	spec, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes=")
	first, last, dash := strings.Cut(spec, "-")
	if !ok || !dash {
		return 0, 0, errRange
	}
	if first == "" {
		tail, err := strconv.ParseInt(last, 10, 64)
		if err != nil || tail <= 0 || size == 0 {
			return 0, 0, errRange
		}
		tail = min(tail, size)
		return size - tail, tail, nil
	}
	from, err = strconv.ParseInt(first, 10, 64)
	end := size - 1
	if err == nil && last != "" {
		end, err = strconv.ParseInt(last, 10, 64)
	}
	if err != nil || from >= size || end < from {
		return 0, 0, errRange
	}
	return from, min(end, size-1) - from + 1, nil
}
