package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/comfygit-ai/studio-sidecar/internal/need"
	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

// patience is how long a page may take for what takes it milliseconds: the
// machine may be busy with something else.
const patience = 40 * time.Second

const ctrl = chromedp.ModifierCtrl

// startBrowser starts one Chromium for a test and its subtests.
func startBrowser(t *testing.T) context.Context {
	t.Helper()
	path := need.Command(t, "chromium", "chromium-browser", "google-chrome", "chrome")
	options := slices.Concat(chromedp.DefaultExecAllocatorOptions[:], []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WSURLReadTimeout(patience),
		chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
	})
	ctx, free := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(free)
	ctx, stop := chromedp.NewContext(ctx)
	t.Cleanup(stop)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start %s: %v", path, err)
	}
	return ctx
}

// stage is a sidecar that runs inside the test, beside a small ComfyUI.
type stage struct {
	t    *testing.T
	fake *comfyfake.Server
	env  manifest.Environment
	url  string
	api  string // ComfyUI's address
}

// startStage serves the demo's contracts until the test ends.
func startStage(t *testing.T, change ...func(*serveFlags)) *stage {
	t.Helper()
	env, err := layDemo(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	fake, comfy := startFake(t, comfyfake.Options{Previews: true, StepDelay: time.Millisecond})
	t.Cleanup(fake.Release)
	flags := demoFlags(listenFlags{Host: "127.0.0.1"})
	flags.ComfyURL = comfy
	for _, f := range change {
		f(&flags)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	a, err := newApp(ctx, appConfig{serveFlags: flags, env: env, log: slog.New(slog.DiscardHandler)})
	if err != nil {
		stop()
		t.Fatal(errors.Join(err, l.Close()))
	}
	ended := make(chan error, 1)
	go func() { ended <- a.run(ctx, l) }()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("ComfyUI is idle: %v", idle(t, context.Background(), comfy))
		}
		stop()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("the sidecar ended: %v", err)
		}
	})
	return &stage{t, fake, env, "http://" + l.Addr().String(), comfy}
}

// pause lets the running run finish what it does and holds it before its next
// node.
func (s *stage) pause() {
	s.fake.Release()
	s.fake.Hold()
}

// idle tells whether a ComfyUI has nothing to do.
func idle(t *testing.T, ctx context.Context, comfy string) bool {
	t.Helper()
	body, err := call(ctx, http.MethodGet, comfy+"/queue", "")
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	var queue struct {
		Running []any `json:"queue_running"`
		Pending []any `json:"queue_pending"`
	}
	if err := json.NewDecoder(body).Decode(&queue); err != nil {
		t.Fatal(err)
	}
	return len(queue.Running)+len(queue.Pending) == 0
}

// prompts are the graphs that ComfyUI was given, as they came.
func (s *stage) prompts() []string {
	var out []string
	for _, r := range s.fake.Requests() {
		if r.Method == "POST" && strings.HasSuffix(r.Path, "/prompt") {
			out = append(out, string(r.Body))
		}
	}
	return out
}

// tab is one page of the browser with a profile of its own.
type tab struct {
	t    *testing.T
	ctx  context.Context
	home string // every request begins with it

	mu     sync.Mutex
	faults []string
	asked  []string // requests, for those who look for a fault
	grace  []string // parts of addresses that may fail
}

// openTab opens a page and holds it, until the test ends, to this: no error on
// its console, no violation of its policy, no request to anywhere but home.
// Answers that say no are excused at addresses with one of the given parts.
func openTab(t *testing.T, browser context.Context, home, path string, width, height int64, grace ...string) *tab {
	t.Helper()
	p := &tab{t: t, home: home, grace: append(grace, "/preview?")}
	ctx, stop := chromedp.NewContext(browser, chromedp.WithNewBrowserContext(), chromedp.WithListener(p.hear))
	p.ctx = ctx
	t.Cleanup(func() {
		p.judge()
		stop()
	})
	// The page lives as long as the context of its first action.
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("open a page: %v", err)
	}
	p.do(chromedp.EmulateViewport(width, height))
	p.do(chromedp.Navigate(home + path))
	return p
}

// hear is called for each event of the page; it must not ask the page.
func (p *tab) hear(event any) {
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		p.note("exception: %s %+v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			p.note("console.%s: %s", e.Type, spoken(e.Args))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Source == log.EntrySourceSecurity {
			p.noteAt(e.Entry.URL, "%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		address := e.Request.URL
		p.remember(e.Request.Method + " " + address)
		if !strings.HasPrefix(address, p.home) && !strings.HasPrefix(address, "blob:") && !strings.HasPrefix(address, "data:") {
			p.note("a request to %s", address)
		}
	}
}

func spoken(args []*runtime.RemoteObject) string {
	var words []string
	for _, a := range args {
		words = append(words, string(a.Value)+a.Description)
	}
	return strings.Join(words, " ")
}

func (p *tab) note(format string, args ...any) { p.noteAt("", format, args...) }

func (p *tab) noteAt(address, format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if address == "" || !slices.ContainsFunc(p.grace, func(part string) bool { return strings.Contains(address, part) }) {
		p.faults = append(p.faults, fmt.Sprintf(format, args...))
	}
}

func (p *tab) remember(request string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, request)
}

func (p *tab) judge() {
	p.mu.Lock()
	faults, asked := slices.Clone(p.faults), slices.Clone(p.asked)
	p.mu.Unlock()
	for _, f := range faults {
		p.t.Error(f)
	}
	if p.t.Failed() {
		ctx, stop := context.WithTimeout(p.ctx, 5*time.Second)
		defer stop()
		words, err := chromedp.Run(ctx, chromedp.Evaluate[string](diagnosis, chromedp.EvalAwaitPromise))
		p.t.Logf("the page says (%v):\n%s\nit asked for:\n%s", err, words, strings.Join(asked, "\n"))
	}
}

// diagnosis is what the page shows, and what its server says meanwhile.
const diagnosis = `(async () => {
	const { apiBase } = JSON.parse(document.querySelector('meta[name="studio-config"]')?.content ?? '{"apiBase":""}');
	return document.body.innerText + "\n" + await (await fetch(apiBase + "/runs")).text();
})()`

func (p *tab) do(action chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, stop := context.WithTimeout(p.ctx, patience)
	defer stop()
	if err := chromedp.Do(ctx, action); err != nil {
		p.t.Fatal(err)
	}
}

// until waits for a JavaScript expression to be true.
func (p *tab) until(what, expression string) {
	p.t.Helper()
	eventually(p.t, patience, what, func() bool {
		ctx, stop := context.WithTimeout(p.ctx, patience)
		defer stop()
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		return err == nil && ok // between two pages there is nobody to ask
	})
}

// text gives the value of a JavaScript expression, which may be a promise.
func (p *tab) text(expression string) string {
	p.t.Helper()
	ctx, stop := context.WithTimeout(p.ctx, patience)
	defer stop()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[string]("(async () => String(await ("+expression+")))()", chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// run executes JavaScript for what it does.
func (p *tab) run(code string) {
	p.t.Helper()
	p.text("(() => { " + code + " })()")
}

// press strikes keys as a keyboard does: a page that takes a key for itself
// keeps its letter out of the field.
func (p *tab) press(keys string, modifiers ...chromedp.Modifier) {
	p.t.Helper()
	for _, key := range keys {
		text := ""
		for _, event := range slices.Backward(kb.Encode(key)) {
			if event.Type == input.DispatchKeyEventTypeChar {
				text = event.Text
			}
		}
		for _, event := range kb.Encode(key) {
			switch event.Type {
			case input.DispatchKeyEventTypeChar:
				continue
			case input.DispatchKeyEventTypeKeyDown, input.DispatchKeyEventTypeRawKeyDown:
				event.Type = input.DispatchKeyEventTypeKeyDown
				if len(modifiers) == 0 {
					event.Text = text
				}
			}
			for _, m := range modifiers {
				event.Modifiers |= int64(m)
			}
			p.send(*event)
		}
	}
}

func (p *tab) send(event input.DispatchKeyEventParams) {
	p.t.Helper()
	ctx, stop := context.WithTimeout(p.ctx, patience)
	defer stop()
	if _, err := chromedp.Call(ctx, input.DispatchKeyEvent, event); err != nil {
		p.t.Fatal(err)
	}
}

// click clicks with the mouse at the middle of an element.
func (p *tab) click(selector string) {
	p.t.Helper()
	p.until(selector+" can be clicked", fmt.Sprintf(`document.querySelector(%q)?.checkVisibility()`, selector))
	p.do(chromedp.Click(chromedp.CSS(selector)))
}

// fill puts words into a field as if they were typed in place of what is there.
func (p *tab) fill(field, words string) {
	p.t.Helper()
	p.run(fmt.Sprintf(`const el = document.querySelector('[data-input=%q]').querySelector("textarea, input"); el.focus(); el.select()`, field))
	p.press(words)
}

func (p *tab) prefer(scheme string) {
	p.t.Helper()
	_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

// ready waits for the form.
func (p *tab) ready() {
	p.t.Helper()
	p.until("the form is there", `document.querySelector("run-form .field") && document.querySelector(".dot")?.className === "dot"`)
}

// runSmall runs the open contract with a picture small enough to be painted at
// once.
func (p *tab) runSmall() {
	p.t.Helper()
	for _, v := range [][2]string{{"width", "96"}, {"height", "64"}, {"steps", "4"}} {
		p.fill(v[0], v[1])
	}
	p.press("\r", ctrl)
}

// finished waits for the picture on the stage.
func (p *tab) finished() {
	p.t.Helper()
	p.until("the picture is on the stage", `document.querySelector(".stage .zoomable img:not(.before)")?.naturalWidth > 0 && !document.querySelector(".stage .before, .job")`)
}

// resize changes the width of the page as turning a phone or dragging a border
// does.
func (p *tab) resize(width, height int64) {
	p.t.Helper()
	p.do(chromedp.EmulateViewport(width, height))
	p.until("the page has its new width", fmt.Sprintf("innerWidth === %d", width))
}
