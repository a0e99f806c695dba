package main

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

// pressButton clicks the button that says so.
func (p *tab) pressButton(words string) {
	p.t.Helper()
	button := fmt.Sprintf(`[...document.querySelectorAll("button")].find(b => b.innerText.trim() === %q && !b.disabled)`, words)
	p.until("the button "+words, button+"?.checkVisibility()")
	p.run(button + ".click()")
}

// pressLabelled clicks what is labelled so.
func (p *tab) pressLabelled(words string) {
	p.t.Helper()
	what := fmt.Sprintf(`document.querySelector('[aria-label=%q]')`, words)
	p.until(words, what+"?.checkVisibility()")
	p.run(what + ".click()")
}

func (p *tab) pictures(n int) {
	p.t.Helper()
	p.until(fmt.Sprintf("%d pictures", n), fmt.Sprintf(`[...document.images].filter(i => i.naturalWidth > 0).length === %d`, n))
}

// TestReferencePanel: the panel of comfygit-studio works against this server.
func TestReferencePanel(t *testing.T) {
	_, dir := referencePackage(t)
	browser := startBrowser(t)
	theirs := func(f *serveFlags) { f.StaticDir = filepath.Join(dir, "static") }
	t.Run("lists_runs_cancels_and_deletes", func(t *testing.T) {
		s := startStage(t, theirs)
		p := openTab(t, browser, s.url, "/", 1200, 900)
		p.until("three contracts", `document.body.innerText.includes("3 available") && document.body.innerText.includes("ComfyUI online")`)
		s.fake.Hold()
		p.pressButton("Generate")
		eventually(t, patience, "ComfyUI runs it", func() bool { return !idle(t, context.Background(), s.api) })
		p.pressButton("Cancel generation")
		p.pressButton("Paint a picture")
		p.pressLabelled("Colour cards")
		s.fake.Release()
		eventually(t, patience, "ComfyUI let go of it", func() bool { return idle(t, context.Background(), s.api) })
		p.pressButton("Generate")
		p.pictures(4)
		p.run(`document.images[0].click()`)
		p.pressLabelled("Delete output")
		p.pictures(3)
		p.do(chromedp.Navigate(s.url))
		p.pictures(3)
	})
	t.Run("uploads", func(t *testing.T) {
		s := startStage(t, theirs)
		path := filepath.Join(t.TempDir(), "picture.png")
		if err := writeExample(path); err != nil {
			t.Fatal(err)
		}
		p := openTab(t, browser, s.url, "/", 1200, 900)
		p.pressButton("Paint a picture")
		p.pressLabelled("Make a negative")
		p.until("a field for a file", `document.querySelector("input[type=file]")`)
		p.do(chromedp.SetUploadFiles(chromedp.CSS("input[type=file]"), []string{path}))
		p.pressButton("Generate")
		p.until("the negative", `[...document.images].some(i => i.src.includes("/outputs/view") && i.naturalWidth === 384)`)
	})
	t.Run("signs_in", func(t *testing.T) {
		const token = "a token of some length"
		s := startStage(t, theirs, func(f *serveFlags) { f.Token = token })
		p := openTab(t, browser, s.url, "/", 1200, 900, "/studio-session")
		p.until("the question for the token", `document.querySelector("input[type=password]")`)
		for _, try := range []string{"wrong", token} {
			p.run(`document.querySelector("input[type=password]").focus(); document.querySelector("input[type=password]").select()`)
			p.press(try + "\r")
			if try != token {
				p.until("the refusal", `document.body.innerText.includes("This is not the token") && !document.querySelector("input[type=password]").disabled`)
			}
		}
		p.until("three contracts", `document.body.innerText.includes("3 available") && !document.querySelector("input[type=password]")`)
	})
	t.Run("under_a_prefix", func(t *testing.T) {
		s := startStage(t, theirs, func(f *serveFlags) { f.PublicPrefix, f.PublicUIPrefix = "/x/y", "/x/ui" })
		d := openDoor(t, s.url, false)
		p := openTab(t, browser, d.URL, "/x/ui/", 1200, 900)
		p.until("three contracts", `document.body.innerText.includes("3 available")`)
		p.pressButton("Paint a picture")
		p.pressLabelled("Colour cards")
		p.pressButton("Generate")
		p.pictures(4)
		d.mu.Lock()
		defer d.mu.Unlock()
		if len(d.outside) > 0 {
			t.Errorf("asked for outside of the prefix: %v", d.outside)
		}
	})
}
