package comfyfake

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

type handler func(p *process, w http.ResponseWriter, r *http.Request, arg string)

// route is one path. A pattern that ends in "/" takes one more segment, which
// the handler gets as arg; tail is what follows that segment.
type route struct {
	pattern, tail string
	apiOnly       bool
	since         Generation
	methods       map[string]handler
}

func get(h handler) map[string]handler { return map[string]handler{"GET": h} }

func routes() []route {
	return []route{
		{pattern: "/ws", methods: get((*process).handleSocket)},
		{pattern: "/prompt", methods: map[string]handler{"GET": (*process).handleExecInfo, "POST": (*process).handlePrompt}},
		{pattern: "/queue", methods: map[string]handler{"GET": (*process).handleQueue, "POST": (*process).handleChangeQueue}},
		{pattern: "/interrupt", methods: map[string]handler{"POST": (*process).handleInterrupt}},
		{pattern: "/history", methods: map[string]handler{"GET": (*process).handleHistory, "POST": (*process).handleChangeHistory}},
		{pattern: "/history/", methods: get((*process).handleHistoryEntry)},
		{pattern: "/view", methods: get((*process).handleView)},
		{pattern: "/upload/image", methods: map[string]handler{"POST": (*process).handleUpload}},
		{pattern: "/object_info", methods: get((*process).handleAllClasses)},
		{pattern: "/object_info/", methods: get((*process).handleClass)},
		{pattern: "/system_stats", methods: get((*process).handleStats)},
		{pattern: "/features", methods: get((*process).handleFeatures)},
		{pattern: "/free", methods: map[string]handler{"POST": (*process).handleFree}},
		{pattern: "/jobs", apiOnly: true, since: V0_33_0, methods: get((*process).handleJobs)},
		{pattern: "/jobs/cancel", apiOnly: true, since: V0_33_0, methods: map[string]handler{"GET": (*process).handleCancelNamed, "POST": (*process).handleCancelJobs}},
		{pattern: "/jobs/", apiOnly: true, since: V0_33_0, methods: get((*process).handleJob)},
		{pattern: "/jobs/", tail: "/cancel", apiOnly: true, since: V0_33_0, methods: map[string]handler{"POST": (*process).handleCancelJob}},
	}
}

// match says whether the route answers path, and with which argument.
func (rt route) match(path string, api bool, g Generation) (string, bool) {
	if g < rt.since || (rt.apiOnly && !api) {
		return "", false
	}
	if !strings.HasSuffix(rt.pattern, "/") {
		return "", rt.pattern == path
	}
	arg, ok := strings.CutPrefix(path, rt.pattern)
	if !ok || !strings.HasSuffix(arg, rt.tail) {
		return "", false
	}
	arg = strings.TrimSuffix(arg, rt.tail)
	if arg == "" || strings.Contains(arg, "/") {
		return "", false
	}
	plain, err := url.PathUnescape(arg)
	return plain, err == nil
}

// find looks up the route of an escaped path, bare or below /api.
func (s *Server) find(path string) (route, string, bool) {
	bare, api := strings.CutPrefix(path, "/api/")
	if api {
		path = "/" + bare
	}
	for _, rt := range routes() {
		if arg, ok := rt.match(path, api, s.opts.Generation); ok {
			return rt, arg, true
		}
	}
	return route{}, "", false
}

// dispatch answers with the route's handler, or as aiohttp answers where there
// is none.
func (s *Server) dispatch(w http.ResponseWriter, r *http.Request) {
	if s.broken != nil {
		writeTrouble(w)
		return
	}
	rt, arg, ok := s.find(r.URL.EscapedPath())
	if !ok {
		writeMissing(w, r)
		return
	}
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	switch h := rt.methods[method]; {
	case h != nil:
		h(s.current(), w, r, arg)
	case method == http.MethodOptions:
		w.WriteHeader(http.StatusOK)
	default:
		writeNotAllowed(w, rt)
	}
}

// writeMissing answers as the static files of the web page do, which take
// every path that no route has.
func writeMissing(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("Allow", "GET,HEAD")
	writeText(w, http.StatusMethodNotAllowed, "405: Method Not Allowed")
}

func writeNotAllowed(w http.ResponseWriter, rt route) {
	allow := slices.Collect(maps.Keys(rt.methods))
	if rt.methods["GET"] != nil {
		allow = append(allow, "HEAD")
	}
	slices.Sort(allow)
	w.Header().Set("Allow", strings.Join(allow, ","))
	writeText(w, http.StatusMethodNotAllowed, "405: Method Not Allowed")
}
