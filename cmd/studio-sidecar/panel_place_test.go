package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
)

// hostPage is a page that shows the panel in a narrow frame, as a sidebar.
const hostPage = `<!doctype html><title>Host</title><link rel="icon" href="data:,"><body><iframe src="/x/ui/" width="312" height="700"></iframe>`

// door is a proxy that shows a sidecar under /x/: the API at /x/y, the panel at
// /x/ui. It passes on nothing else.
type door struct {
	*httptest.Server

	mu      sync.Mutex
	outside []string
	held    []string // ends of paths that wait for shut
	shut    chan struct{}
}

func openDoor(t *testing.T, to string, strip bool) *door {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1
	d := &door{}
	d.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, isAPI := strings.CutPrefix(r.URL.Path, "/x/y")
		if !isAPI {
			path, isAPI = strings.CutPrefix(r.URL.Path, "/x/ui")
		}
		switch {
		case r.URL.Path == "/x/host":
			w.Header().Set("Content-Type", "text/html")
			_, _ = fmt.Fprint(w, hostPage)
			return
		case !isAPI:
			d.mu.Lock()
			d.outside = append(d.outside, r.URL.Path)
			d.mu.Unlock()
			http.NotFound(w, r)
			return
		case strip:
			r.URL.Path, r.URL.RawPath = "/"+strings.TrimPrefix(path, "/"), ""
		}
		d.wait(r)
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(d.Close)
	return d
}

// hold lets requests to such paths wait until open is called.
func (d *door) hold(ends ...string) (open func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held, d.shut = ends, make(chan struct{})
	return sync.OnceFunc(func() { close(d.shut) })
}

func (d *door) wait(r *http.Request) {
	d.mu.Lock()
	held, shut := d.held, d.shut
	d.mu.Unlock()
	if !slices.ContainsFunc(held, func(end string) bool { return strings.HasSuffix(r.URL.Path, end) }) {
		return
	}
	select {
	case <-shut:
	case <-r.Context().Done():
	}
}

func prefixed(f *serveFlags) { f.PublicPrefix, f.PublicUIPrefix = "/x/y", "/x/ui" }

func underPrefix(t *testing.T, browser context.Context) {
	for name, strip := range map[string]bool{"stripped": true, "as_it_is": false} {
		t.Run(name, func(t *testing.T) {
			s := startStage(t, prefixed)
			d := openDoor(t, s.url, strip)
			p := openTab(t, browser, d.URL+"/x/", "ui/", 1400, 900)
			p.ready()
			p.runSmall()
			p.finished()
			p.until("the picture came through the door", `new URL(document.querySelector(".stage .zoomable img").src).pathname.startsWith("/x/y/outputs/")`)
			p.run(`document.querySelector(".tile .open").focus()`)
			p.press("\r")
			p.until("what loads late is found", `document.querySelector("dialog.viewer[open] .pan img")?.naturalWidth === 96`)
			d.mu.Lock()
			defer d.mu.Unlock()
			if len(d.outside) > 0 {
				t.Errorf("asked for outside of the prefix: %v", d.outside)
			}
		})
	}
}

func signInAndOut(t *testing.T, browser context.Context) {
	s := startStage(t, func(f *serveFlags) { f.Token = "open sesame" })
	p := openTab(t, browser, s.url, "/", 1000, 800, s.url) // 401 is an answer here
	p.until("the token is asked for", `document.activeElement.id === "passcode"`)
	p.press("open sesame\r")
	p.ready()
	p.runSmall()
	p.finished()
	p.click(`.bar [data-act="menu"]:not(.only-narrow)`)
	p.run(`[...document.querySelectorAll("studio-menu .item")].find((e) => e.textContent === "Sign out").click()`)
	p.until("it is asked for again", `document.querySelector("#passcode")`)

	// A page that was signed out elsewhere asks for the token by itself.
	p.run(`document.querySelector("#passcode").focus()`)
	p.press("open sesame\r")
	p.ready()
	p.text(`fetch("/studio-session", { method: "DELETE" }).then((a) => a.status)`)
	p.press("\r", ctrl)
	p.until("the next request leads to the form", `document.querySelector("#passcode")`)
}

func inFrame(t *testing.T, browser context.Context) {
	s := startStage(t, prefixed)
	d := openDoor(t, s.url, true)
	p := openTab(t, browser, d.URL+"/x/", "host", 1000, 760)
	p.until("the form is there", `frames[0]?.document.querySelector("run-form .field")`)
	p.until("it knows that it is a sidebar", `frames[0].document.querySelector("studio-app").dataset.frame === "sidebar"`)
	p.until("its tabs are on top", `frames[0].document.querySelector(".tabs").getBoundingClientRect().bottom < frames[0].document.querySelector(".panes").getBoundingClientRect().top + 2`)
	p.run(`const f = frames[0];
		for (const [name, value] of [["width", "96"], ["height", "64"], ["steps", "4"]]) {
			const el = f.document.querySelector('[data-input="' + name + '"] input');
			el.value = value;
			el.dispatchEvent(new Event("input"));
		}
		f.document.querySelector("run-bar .is-main").click();`)
	p.until("the last line tells that it is done", `frames[0].document.querySelector(".peek:not([hidden]) b")?.textContent === "Done"`)
	p.run(`frames[0].document.querySelector(".peek").click()`)
	p.until("and leads to the picture", `frames[0].document.querySelector(".stage .zoomable img")?.checkVisibility()`)

	// The host's palette is worn; what does not come from the host is not heard.
	p.run(`const other = document.body.appendChild(document.createElement("iframe"));
		other.contentWindow.eval('parent.frames[0].postMessage({ type: "studio:theme", dark: true, vars: { "--fg-color": "#654321" } }, "*")');
		frames[0].postMessage({ type: "studio:theme", dark: false, vars: { "--base-background": "#123456" } }, "*");`)
	p.until("the palette is worn", `frames[0].document.documentElement.dataset.theme === "host" && frames[0].document.documentElement.dataset.host === "light"`)
	if got := p.text(`["--base-background", "--fg-color"].map((n) => frames[0].document.documentElement.style.getPropertyValue(n))`); got != "#123456," {
		t.Errorf("the palette is %q", got)
	}
}

// firstPaint holds the first answers back: what is seen then is no empty page.
func firstPaint(t *testing.T, browser context.Context) {
	s := startStage(t, prefixed)
	d := openDoor(t, s.url, true)
	open := d.hold("/contracts", "/gallery")
	defer open()
	p := openTab(t, browser, d.URL+"/x/", "ui/", 1400, 900)
	p.until("the form has places", `document.querySelectorAll("run-form .ghost").length > 2 && document.querySelector(".picker .name").textContent === "Reading the contracts…"`)
	p.until("so have stage and gallery", `document.querySelector("run-stage .ghost") && document.querySelectorAll("output-gallery .ghost").length > 2`)
	p.until("Run is there, and waits", `document.querySelector("run-bar .is-main").disabled`)
	before := p.text(`document.querySelector("run-bar .is-main").getBoundingClientRect().top`)
	open()
	p.ready()
	p.until("the places are taken", `!document.querySelector(".ghost") && document.querySelector(".place") && document.querySelector("output-gallery .empty:not([hidden])")`)
	if after := p.text(`document.querySelector("run-bar .is-main").getBoundingClientRect().top`); after != before {
		t.Errorf("Run moved from %s to %s", before, after)
	}
}

// beforeStream runs while the stream of events is still on its way: none of
// them reaches the page.
func beforeStream(t *testing.T, browser context.Context) {
	s := startStage(t, prefixed)
	d := openDoor(t, s.url, true)
	open := d.hold("/events")
	defer open()
	p := openTab(t, browser, d.URL+"/x/", "ui/", 1400, 900)
	p.ready()
	p.runSmall()
	eventually(t, patience, "the run is done", func() bool {
		return p.text(`fetch("/x/y/runs").then((a) => a.json()).then((a) => a.runs[0]?.status)`) == "completed"
	})
	p.until("the page has not heard of it", `document.querySelector(".job")`)
	open()
	p.finished()
}

// widths looks at all sizes, tabs and both themes with a run, a picture and a
// long queue.
func widths(t *testing.T, browser context.Context) {
	s := startStage(t)
	p := openTab(t, browser, s.url, "/", 1400, 900)
	p.ready()
	p.runSmall()
	p.finished()
	s.fake.Hold()
	for range 6 {
		p.press("\r", ctrl)
	}
	p.until("they are in the queue", `document.querySelectorAll(".job").length === 6`)
	papers := map[string]string{}
	for _, theme := range []string{"dark", "light"} {
		p.prefer(theme)
		papers[theme] = p.text(`getComputedStyle(document.body).backgroundColor`)
		for _, width := range []int64{150, 230, 320, 768, 1400, 2560} {
			p.resize(width, 720)
			for _, view := range []string{"make", "live", "gallery"} {
				p.run(fmt.Sprintf(`document.querySelector("#t-%s").click()`, view))
				p.until("the pane is open", fmt.Sprintf(`document.querySelector("#%s").checkVisibility() && document.querySelector(".shell").dataset.view === %q`, view, view))
				if over := p.text(overflow); over != "" {
					t.Errorf("%s, %d px, %s: too wide: %s", theme, width, view, over)
				}
			}
		}
	}
	if papers["dark"] == papers["light"] {
		t.Errorf("both themes are %s", papers["dark"])
	}
	p.resize(1400, 720)
	p.click(`.bar [data-act="menu"]:not(.only-narrow)`)
	p.click(`studio-menu .seg button:last-child`)
	p.until("a chosen theme wins over the system's", fmt.Sprintf(`getComputedStyle(document.body).backgroundColor === %q`, papers["dark"]))
}

// overflow names what sticks out of the page sideways, if anything. What
// scrolls by itself may be wider than its place.
const overflow = `(() => {
	const scrolls = (el) => { for (; el; el = el.parentElement) if (/auto|scroll|hidden|clip/.test(getComputedStyle(el).overflowX)) return true; return false; };
	const wide = [...document.querySelectorAll("studio-app *")].filter((el) => el.checkVisibility() && el.getBoundingClientRect().right > innerWidth + 1 && !scrolls(el.parentElement));
	return document.documentElement.scrollWidth > innerWidth ? "the page" : wide.map((el) => el.tagName + "." + el.className).join(" ");
})()`
