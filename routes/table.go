package routes

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gorilla/mux"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// Route is one line of the table: a GET answers HEAD too.
type Route struct {
	Method string
	Path   string // below the prefix, variables in braces
	Name   string
	// Summary is one line that says what the route does. The description of
	// the API and the README show it.
	Summary string
	// Alias marks a second spelling of a route, which is not documented.
	Alias bool

	handle handler
	open   bool // asks for no token
	panel  bool // part of the panel, which has its own way to sign in
	terse  bool // reads no body, or a short one
	stream bool // ends when its client sends no more
}

// Table lists all routes, in the order in which paths are matched.
func Table() []Route { return table() }

func table() []Route {
	return []Route{
		{Method: "GET", Path: "/runs", Name: "list_runs", Summary: "List run records", handle: (*call).listRuns},
		{Method: "GET", Path: "/gallery", Name: "list_gallery", Summary: "List gallery items for the current Studio session", handle: (*call).listGallery},
		{Method: "GET", Path: "/health", Name: "health", Summary: "Return Studio runtime and executor health", handle: (*call).health},
		{Method: "GET", Path: "/contracts", Name: "list_contracts", Summary: "List available workflow contracts", handle: (*call).listContracts},
		{Method: "GET", Path: "/events", Name: "events", Summary: "Stream what happens in the session as server-sent events", stream: true, handle: (*call).scopeEvents},
		{Method: "GET", Path: "/commands", Name: "list_commands", Summary: "List what was asked for under an Idempotency-Key", handle: (*call).listCommands},
		{Method: "GET", Path: "/outputs/view", Name: "view_output", Summary: "Fetch a generated output artifact", handle: (*call).viewOutput},
		{Method: "GET", Path: "/runs/{run_id}", Name: "show_run", Summary: "Return one run record, output slots, and gallery items", handle: (*call).showRun},
		{Method: "PATCH", Path: "/runs/{run_id}", Name: "edit_run", Summary: "Write a title on a run, or pin it", terse: true, handle: (*call).editRun},
		{Method: "DELETE", Path: "/runs/{run_id}", Name: "delete_run", Summary: "Delete a finished run with its outputs in the gallery", terse: true, handle: (*call).deleteRun},
		{Method: "GET", Path: "/runs/{run_id}/events", Name: "run_events", Summary: "Stream what happens to one run as server-sent events", stream: true, handle: (*call).runEvents},
		{Method: "GET", Path: "/runs/{run_id}/view", Name: "view_run", Summary: "Return all that is known of one run, as of one revision", handle: (*call).viewRun},
		{Method: "GET", Path: "/runs/{run_id}/deltas", Name: "run_deltas", Summary: "Return how one run moved on from a revision, as JSON Patch", handle: (*call).runDeltas},
		{Method: "GET", Path: "/runs/{run_id}/pages/{kind}", Name: "page_run", Summary: "Return a window of one run's events, nodes or slots", handle: (*call).pageRun},
		{Method: "GET", Path: "/runs/{run_id}/preview", Name: "run_preview", Summary: "Show the newest picture of a run in the making", handle: (*call).preview},
		{Method: "POST", Path: "/runs/{run_id}/cancel", Name: "cancel_run", Summary: "Cancel a running contract run", terse: true, handle: (*call).cancelRun},
		{Method: "POST", Path: "/runs/{run_id}/approve", Name: "approve_run", Summary: "Let a run go that waits for approval", terse: true, handle: (*call).approveRun},
		{Method: "POST", Path: "/runs/{run_id}/reject", Name: "reject_run", Summary: "End a run that waits for approval", terse: true, handle: (*call).rejectRun},
		{Method: "POST", Path: "/runs/{run_id}/front", Name: "front_run", Summary: "Make a waiting run the next one", terse: true, handle: (*call).frontRun},
		{Method: "GET", Path: "/runs/{run_id}/children", Name: "list_children", Summary: "List the runs that came from a run", handle: (*call).listChildren},
		{Method: "GET", Path: "/queue", Name: "show_queue", Summary: "Show what is in flight, waits for its turn, or is held", handle: (*call).showQueue},
		{Method: "POST", Path: "/queue/pause", Name: "pause_queue", Summary: "Hand over no more runs", terse: true, handle: (*call).pauseQueue},
		{Method: "POST", Path: "/queue/resume", Name: "resume_queue", Summary: "Hand runs over again", terse: true, handle: (*call).resumeQueue},
		{Method: "DELETE", Path: "/gallery/{item_id}", Name: "delete_item", Summary: "Delete one gallery item from the current session", terse: true, handle: (*call).deleteItem},
		{Method: "POST", Path: "/contracts/{workflow}/{contract}/run", Name: "run_contract", Summary: "Start a workflow contract run", handle: (*call).runContract},
		{Method: "GET", Path: "/contracts/{workflow}/{contract}", Name: "show_contract", Summary: "Return one workflow contract", handle: (*call).showContract},
		{Method: "POST", Path: "/contracts/{path:.+}/run", Name: "run_contract_by_path", Alias: true, handle: (*call).runContract},
		{Method: "GET", Path: "/contracts/{path:.+/.+}", Name: "show_contract_by_path", Alias: true, handle: (*call).showContract},
		{Method: "POST", Path: "/uploads/prepare", Name: "prepare_upload", Summary: "Prepare a media upload slot", handle: (*call).prepareUpload},
		{Method: "PUT", Path: "/uploads/{upload_id}", Name: "receive_upload", Summary: "Upload bytes to a prepared slot", handle: (*call).receiveUpload},
		{Method: "GET", Path: "/uploads/{upload_id}/status", Name: "upload_status", Summary: "Return upload status and file reference", handle: (*call).uploadStatus},
		{Method: "GET", Path: "/openapi.json", Name: "openapi", Summary: "Return the Studio contract API OpenAPI document", handle: (*call).openAPI},
		{Method: "GET", Path: "/studio-session", Name: "show_sign_in", Summary: "Tell whether the caller is signed in", open: true, handle: (*call).showSignIn},
		{Method: "POST", Path: "/studio-session", Name: "sign_in", Summary: "Sign in with the server's token", open: true, handle: (*call).signIn},
		{Method: "DELETE", Path: "/studio-session", Name: "sign_out", Summary: "Sign out", open: true, handle: (*call).signOut},
		{Method: "GET", Path: "/livez", Name: "livez", Summary: "Tell that the process answers", open: true, handle: (*call).livez},
		{Method: "GET", Path: "/readyz", Name: "readyz", Summary: "Tell whether runs are accepted", open: true, handle: (*call).readyz},
		{Method: "GET", Path: "/favicon.ico", Name: "favicon", Summary: "Tell browsers that there is no icon", panel: true, handle: (*call).favicon},
		{Method: "GET", Path: "/assets", Name: "assets", Alias: true, panel: true, handle: (*call).asset},
		{Method: "GET", Path: "/assets/{file:.*}", Name: "asset", Summary: "Fetch a file of the panel", panel: true, handle: (*call).asset},
		{Method: "GET", Path: "/", Name: "page", Summary: "Show the panel", panel: true, handle: (*call).page},
	}
}

// fallback answers a path that no route has, as the reference's catch-all
// does: it counts as a GET route for other methods.
func fallback() Route {
	return Route{Method: "GET", Path: "/{rest:.*}", Name: "fallback", Alias: true, panel: true, handle: (*call).fallback}
}

// endpoint is a path with what it does by method.
type endpoint struct {
	methods map[string]Route
	allow   string
}

// mount builds the router. It matches paths alone: a method that a path lacks
// is answered here, with the methods that it has.
func (s *Server) mount(routes []Route) {
	if s.mounted == "" && s.opts.Role != RoleProxy {
		routes = append(routes, fallback())
	}
	s.router = mux.NewRouter().UseEncodedPath().SkipClean(true)
	s.endpoints, s.words = map[string]*endpoint{}, map[string]bool{}
	for _, r := range routes {
		e := s.endpoints[r.Path]
		if e == nil {
			e = &endpoint{methods: map[string]Route{}}
			s.endpoints[r.Path] = e
			s.router.Path(r.Path).Name(r.Path)
		}
		e.methods[r.Method] = r
		if r.Method == http.MethodGet {
			e.methods[http.MethodHead] = r
		}
		if word := firstSegment(r.Path); word != "" && !strings.HasPrefix(word, "{") {
			s.words[word] = true
		}
	}
	for _, e := range s.endpoints {
		e.allow = e.list()
	}
}

func (e *endpoint) list() string {
	var names []string
	for name := range e.methods {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

func firstSegment(path string) string {
	word, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return word
}

// route finds what answers the call and lets it.
func (c *call) route() error {
	if !c.strip() {
		return c.unknown()
	}
	var match mux.RouteMatch
	if !c.router.Match(c.r, &match) {
		return c.unknown()
	}
	e := c.endpoints[match.Route.GetName()]
	r, ok := e.methods[c.r.Method]
	if !ok {
		c.w.Header().Set("Allow", e.allow)
		return &fault{
			code: codeMethod, message: "This path does not take the method " + c.r.Method + ".",
			hint: "It takes " + e.allow + ".",
		}
	}
	c.vars = match.Vars
	return c.enter(r)
}

// strip takes the prefix off the path, which comes with the public one or
// without; false when the path lies outside of what is mounted.
func (c *call) strip() bool {
	path := c.r.URL.EscapedPath()
	for _, prefix := range []string{c.mounted, c.urls.prefix, c.uiPrefix} {
		if prefix == "" {
			continue
		}
		if rest, ok := below(path, prefix); ok {
			return c.become(rest)
		}
	}
	return c.mounted == ""
}

// become changes the call's path, given escaped.
func (c *call) become(escaped string) bool {
	plain, err := url.PathUnescape(escaped)
	if err != nil {
		return false
	}
	r, u := *c.r, *c.r.URL
	u.Path, u.RawPath = plain, escaped
	r.URL = &u
	c.r = &r
	return true
}

func (c *call) unknown() error {
	return &fault{
		code: sidecar.CodeNotFound, message: "Nothing is served under this path.",
		hint: "Look at the address; paths are case-sensitive and end without a slash.",
	}
}

// fallback shows the panel to a browser that asks for a path which is none of
// the API's.
func (c *call) fallback() error {
	if c.words[firstSegment(c.r.URL.Path)] || !strings.Contains(c.r.Header.Get("Accept"), "text/html") {
		return c.unknown()
	}
	return c.page()
}
