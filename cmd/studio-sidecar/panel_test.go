package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

// TestPanel uses the panel as people do, in a real browser, against the whole
// sidecar.
func TestPanel(t *testing.T) {
	browser := startBrowser(t)
	stories := []struct {
		name string
		tell func(*testing.T, context.Context)
	}{
		{"keyboard_alone_paints_a_picture", paintByKeyboard},
		{"contracts_are_listed_and_found", findContract},
		{"gallery_and_draft_survive_a_reload", reload},
		{"run_under_way_survives_a_reload", reloadInRun},
		{"second_run_waits_and_both_can_be_cancelled", queueAndCancel},
		{"delete_can_be_undone_and_then_is_real", deleteAndUndo},
		{"faults_of_inputs_stand_at_their_fields", inputFaults},
		{"failed_run_says_where_and_why", failedRun},
		{"comfyui_away_is_told_and_recovers", comfyAway},
		{"contracts_changed_on_disk_appear", changedOnDisk},
		{"largest_seed_reaches_comfyui_as_typed", largestSeed},
		{"what_is_not_answered_is_sent_again_and_done_once", repeatsUnanswered},
		{"token_is_asked_for_and_given_up", signInAndOut},
		{"works_under_a_prefix", underPrefix},
		{"is_a_sidebar_in_a_frame", inFrame},
		{"first_paint_keeps_places", firstPaint},
		{"nothing_is_lost_before_the_stream_opens", beforeStream},
		{"no_width_overflows_in_either_theme", widths},
	}
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) { s.tell(t, browser) })
	}
}

// paintByKeyboard never touches the mouse, from the picker to the viewer.
func paintByKeyboard(t *testing.T, browser context.Context) {
	s := startStage(t)
	p := openTab(t, browser, s.url, "/", 1400, 900)
	p.ready()
	p.until("the stage keeps a place", `document.querySelector(".place h2").textContent === "Your first picture appears here"`)
	s.fake.Hold()

	focused := func(selector string) func() bool {
		return func() bool { return p.text(fmt.Sprintf(`document.activeElement.matches(%q)`, selector)) == "true" }
	}
	tabTo := func(selector string) {
		t.Helper()
		for n := 0; !focused(selector)(); n++ {
			if n > 40 {
				t.Fatalf("the tab key does not reach %s", selector)
			}
			p.press(kb.Tab)
		}
	}
	tabTo(`[data-input="prompt"] textarea`)
	p.press("a", ctrl)
	p.press("a sea at noon")
	for _, v := range [][2]string{{"steps", "8"}, {"width", "96"}, {"height", "64"}} {
		tabTo(fmt.Sprintf(`[data-input=%q] input`, v[0]))
		p.press("a", ctrl)
		p.press(v[1])
	}
	p.press("\r", ctrl)

	p.until("the stage shows the run", `document.querySelector(".is-live .what b")?.textContent === "Demo Painter"`)
	s.pause()
	p.until("it is nearly done", `document.querySelector(".is-live .what b")?.textContent === "Save Image" && parseInt(document.querySelector(".meter .big").textContent) > 50`)
	p.until("the preview is on the stage", `document.querySelector(".is-live > img:not([hidden])")?.naturalWidth > 0`)
	p.until("the preview is in the gallery", `document.querySelector(".tile.is-pending .pic:not([hidden])")?.naturalWidth > 0`)
	p.until("readers hear how far it is", `document.querySelector('.job [role="progressbar"]').ariaValueNow > 50`)
	p.until("it has taken long enough to be worth a forecast", `performance.now() - (window.since ??= performance.now()) > 600`)
	p.until("the title says how far it is", `/^\d+ % – demo/.test(document.title)`)
	s.fake.Release()

	p.finished()
	p.until("it is what was asked for", `document.querySelector(".stage .zoomable img").naturalWidth === 96 && document.querySelector(".under .title").textContent === "a sea at noon"`)
	p.until("the title is quiet again", `document.title === "demo – Studio"`)
	p.until("the next one has a forecast", `/^1 picture · about /.test(document.querySelector(".picker .what").textContent)`)
	tabTo(".tile .open")
	p.press("\r")
	p.until("the viewer opens", `document.querySelector("dialog.viewer[open] .pan img")?.naturalWidth === 96`)
	p.press(kb.Escape)
	p.until("the viewer closes and gives the focus back", `!document.querySelector("dialog[open]") && document.activeElement.matches(".tile .open")`)
}

func findContract(t *testing.T, browser context.Context) {
	s := startStage(t)
	p := openTab(t, browser, s.url, "/", 1000, 800)
	p.ready()
	p.press("/")
	p.until("all contracts are listed", `[...document.querySelectorAll("studio-menu .opt-row b")].map((b) => b.textContent).join() === "Paint a picture,Make a negative,Colour cards"`)
	p.press("card")
	p.until("one fits", `document.querySelectorAll("studio-menu .opt-row").length === 1`)
	p.press("\r")
	p.until("its form opens", `document.querySelector('[data-input="count"] input')?.value === "4"`)
	p.press("\r", ctrl)
	p.until("four cards and a note are there", `document.querySelectorAll(".tile img.pic").length === 4 && document.querySelector(".tile .quote")?.textContent === "4"`)
	p.until("the stage shows all of the run", `document.querySelectorAll(".outs button").length === 5`)
}

func reload(t *testing.T, browser context.Context) {
	s := startStage(t)
	p := openTab(t, browser, s.url, "/", 1400, 900)
	p.ready()
	p.fill("prompt", "silk in the wind")
	p.runSmall()
	p.finished()
	p.fill("prompt", "not run yet")
	p.do(chromedp.Reload())
	p.ready()
	p.until("the gallery keeps it", `document.querySelectorAll(".tile img.pic").length === 1`)
	p.until("the stage shows it", `document.querySelector(".under .title")?.textContent === "silk in the wind"`)
	p.until("what was typed is kept", `document.querySelector('[data-input="prompt"] textarea').value === "not run yet" && document.querySelector('[data-input="width"] input').value === "96"`)

	// R takes the inputs of the output back into the form, its seed included.
	p.run(`document.querySelector(".tile .open").focus()`)
	p.press("r")
	p.until("the inputs are taken over", `document.querySelector('[data-input="prompt"] textarea').value === "silk in the wind" && document.querySelector('[data-input="seed"] input').value === "7"`)
}

// reloadInRun comes back to a run that is nearly done, of a contract of which
// the page has learned nothing yet.
func reloadInRun(t *testing.T, browser context.Context) {
	s := startStage(t)
	p := openTab(t, browser, s.url, "/", 1400, 900)
	p.ready()
	s.fake.Hold()
	p.runSmall()
	p.until("the stage shows the run", `document.querySelector(".is-live .what b")?.textContent === "Demo Painter"`)
	s.pause()
	const nearly = `document.querySelector(".is-live .what b")?.textContent === "Save Image" && parseInt(document.querySelector(".meter .big").textContent) > 50`
	p.until("it is nearly done", nearly)
	p.do(chromedp.Reload())
	p.ready()
	p.until("it is nearly done still", nearly+` && document.querySelectorAll(".job.is-running").length === 1`)
	p.run(`localStorage.clear()`) // as on another device
	p.do(chromedp.Reload())
	p.ready()
	p.until("it is nearly done for who sees it first now", nearly)
	s.fake.Release()
	p.finished()
}

func queueAndCancel(t *testing.T, browser context.Context) {
	s := startStage(t)
	// Cancelled before it is answered, a run answers no.
	p := openTab(t, browser, s.url, "/", 1400, 900, "/run")
	p.ready()
	s.fake.Hold()
	p.runSmall()
	p.until("the first runs", `document.querySelectorAll(".job.is-running").length === 1`)
	p.press("\r", ctrl)
	p.until("the second waits", `document.querySelectorAll(".job").length === 2 && document.querySelectorAll(".job.is-running").length === 1`)
	p.until("the counts say so", `document.querySelector("run-queue header .faint").textContent === "1 running, 1 waiting"`)
	p.until("both have a tile", `document.querySelectorAll(".tile.is-pending").length === 1 && document.querySelectorAll(".tile.is-wait").length === 1`)

	p.click(".job:not(.is-running) .tools button")
	p.until("the second is gone", `document.querySelectorAll(".job").length === 1 && document.querySelector(".job.is-running")`)
	p.press(".", ctrl)
	p.until("the first is gone", `!document.querySelector(".job") && document.querySelectorAll(".toast").length === 2`)
	p.until("nothing is left to see", `!document.querySelector(".tile") && document.querySelector(".place")`)
	eventually(t, patience, "ComfyUI is free", func() bool {
		return p.text(`fetch("/runs?active=true").then((a) => a.json()).then((a) => a.runs.length)`) == "0" && idle(t, t.Context(), s.api)
	})
	s.fake.Release()

	p.click(".toast .btn")
	p.finished()
	p.until("it ran with its own inputs", `document.querySelector(".stage .zoomable img").naturalWidth === 96 && document.querySelector(".note.is-bad").hidden`)
}

func deleteAndUndo(t *testing.T, browser context.Context) {
	s := startStage(t)
	p := openTab(t, browser, s.url, "/", 1400, 900)
	p.ready()
	p.runSmall()
	p.finished()
	left := func() string {
		return p.text(`fetch("/gallery").then((a) => a.json()).then((a) => a.items.length)`)
	}
	p.run(`document.querySelector(".tile .open").focus()`)
	p.press(kb.Delete)
	p.until("it is out of sight", `!document.querySelector(".tile") && document.querySelector(".place")`)
	p.click(".toast .btn")
	p.until("it is back", `document.querySelector(".tile img.pic") && document.querySelector(".stage .zoomable")`)
	if n := left(); n != "1" {
		t.Fatalf("%s outputs after undo", n)
	}
	p.run(`document.querySelector(".tile .open").focus()`)
	p.press(kb.Delete)
	p.until("it is out of sight again", `!document.querySelector(".tile")`)
	p.click(`.toast [aria-label="Close"]`)
	eventually(t, patience, "the server has let it go", func() bool { return left() == "0" })
	p.do(chromedp.Reload())
	p.ready()
	p.until("it stays away", `!document.querySelector(".tile:not(.ghost)") && document.querySelector(".place")`)
}

func inputFaults(t *testing.T, browser context.Context) {
	s := startStage(t)
	p := openTab(t, browser, s.url, "/", 1400, 900, "/run")
	p.ready()
	p.fill("steps", "99")
	p.press("\r", ctrl)
	said := func(input, words string) string {
		return fmt.Sprintf(`[...document.querySelectorAll('[data-input=%q] .err:not([hidden])')].some((e) => e.textContent === %q)`, input, words)
	}
	p.until("the page finds it by itself", said("steps", "60 at most."))
	p.until("readers hear it", `document.activeElement.ariaInvalid === "true" && document.querySelector(".note.is-bad").textContent === "One input needs a look: “Steps”."`)
	p.fill("steps", "9")
	p.until("it goes when mended", `!document.querySelector(".err:not([hidden])") && document.querySelector(".note.is-bad").hidden`)

	// A file that only ComfyUI can miss.
	p.press(kb.Escape)
	p.run(`document.activeElement.blur()`)
	p.press("/")
	p.until("the picker is open", `document.querySelector("studio-menu .opt-row")`)
	p.press("negative")
	p.press("\r")
	p.until("the form opens", `document.querySelector('[data-input="picture"] .media:not([hidden])')`)
	p.click(`[data-input="picture"] .media .ib:last-child`)
	p.run(`[...document.querySelectorAll('[data-input="picture"] .btn')].at(-1).click()`)
	p.press("nowhere.png\t")
	p.press("\r", ctrl)
	p.until("ComfyUI's word stands at the field", said("picture", "Invalid image file: nowhere.png"))
	p.until("a refused run is nothing to see, nor to hear", `!document.querySelector(".tile, .fault") && !document.querySelector("#said").textContent`)
	if n := len(s.prompts()); n != 1 {
		t.Errorf("ComfyUI was asked %d times, want once", n)
	}
}

// addTrial adds a workflow whose second node raises an error.
func addTrial(t *testing.T, s *stage) {
	t.Helper()
	graph := `{
		"1": {"class_type": "EmptyImage", "inputs": {"width": 64, "height": 64, "batch_size": 1, "color": 0}},
		"2": {"class_type": "TrialError", "_meta": {"title": "Upscaler"}, "inputs": {"message": "", "image": ["1", 0]}},
		"3": {"class_type": "SaveImage", "inputs": {"filename_prefix": "trial", "images": ["2", 0]}}}`
	if err := os.WriteFile(filepath.Join(s.env.Dir, "workflow_api", "trial.api.json"), []byte(graph), 0o644); err != nil {
		t.Fatal(err)
	}
	edit(t, s, func(text string) string {
		return text + `
[tool.comfygit.workflows.trial.execution_contract]
version = 1
default_contract = "default"
api_prompt_file = "workflow_api/trial.api.json"

[tool.comfygit.workflows.trial.execution_contract.contracts.default]
display_name = "Upscale"
inputs = [{ name = "message", type = "string", node_id = "2", field_key = "message", required = true, default = "weights do not fit" }]
outputs = [{ name = "image", type = "image", node_id = "3" }]
`
	})
}

// edit saves the environment's pyproject.toml anew.
func edit(t *testing.T, s *stage, change func(string) string) {
	t.Helper()
	path := filepath.Join(s.env.Dir, "pyproject.toml")
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, []byte(change(string(text))), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func failedRun(t *testing.T, browser context.Context) {
	s := startStage(t)
	addTrial(t, s)
	p := openTab(t, browser, s.url, "/", 1400, 900)
	p.ready()
	p.until("the picker knows it", `document.querySelector(".picker-btn").click() || [...document.querySelectorAll("studio-menu .opt-row")].some((e) => e.textContent.includes("Upscale"))`)
	p.press("upscale")
	p.press("\r")
	p.until("its form opens", `document.querySelector('[data-input="message"]')`)
	p.press("\r", ctrl)
	p.until("the stage says where", `document.querySelector(".fault h2")?.textContent === "“Upscaler” stopped"`)
	p.until("and why", `document.querySelector(".fault header p").textContent === "weights do not fit"`)
	p.until("the gallery says so too", `document.querySelector(".tile.is-fault .quote")?.textContent === "weights do not fit"`)
	p.until("details are one click away", `document.querySelector(".fault details:not([open]) pre")?.textContent.includes("RuntimeError")`)
	p.click(".fault .is-main")
	p.until("run again runs again", `document.querySelectorAll(".tile.is-fault").length === 2`)
}

func comfyAway(t *testing.T, browser context.Context) {
	s := startStage(t)
	p := openTab(t, browser, s.url, "/", 1400, 900)
	p.ready()
	// Whether ComfyUI went is only noticed by one that was heard before.
	s.fake.Hold()
	p.runSmall()
	p.until("ComfyUI is heard", `document.querySelector(".is-live .what b")?.textContent === "Demo Painter"`)
	s.fake.Release()
	p.finished()
	back := s.fake.Fault(comfyfake.Fault{Kind: comfyfake.Refuse})
	defer back()
	s.fake.DropSockets()
	p.until("the page says so", `document.querySelector(".banner b")?.textContent === "ComfyUI does not answer." && document.querySelector(".pill").ariaLabel === "ComfyUI is away"`)
	p.press("\r", ctrl)
	p.until("running says so and keeps the inputs", `document.querySelector(".note.is-bad").textContent === "ComfyUI still does not answer. Your inputs are kept."`)
	p.until("nothing failed", `!document.querySelector(".tile.is-fault, .fault")`)
	back()
	p.run(`document.querySelector(".banner .btn")?.click()`) // it may be gone by itself
	p.until("the banner goes", `!document.querySelector(".banner") && document.querySelector(".pill").ariaLabel === "ComfyUI ready"`)
	p.press("\r", ctrl)
	p.until("it runs again", `document.querySelectorAll(".tile img.pic").length === 2`)
}

func changedOnDisk(t *testing.T, browser context.Context) {
	s := startStage(t)
	p := openTab(t, browser, s.url, "/", 1400, 900)
	p.ready()
	p.fill("prompt", "half a thought")
	addTrial(t, s)
	p.until("the new contract is told of", `[...document.querySelectorAll(".toast")].some((e) => e.textContent.includes("1 new"))`)
	p.until("what was typed stays", `document.querySelector('[data-input="prompt"] textarea').value === "half a thought"`)
	p.click(".toast .btn")
	p.until("it is in the list", `document.querySelectorAll("studio-menu .opt-row").length === 4`)
	p.press(kb.Escape)

	whole := ""
	edit(t, s, func(text string) string {
		whole = text
		return strings.Replace(text, `version = "0"`, `version = = "0"`, 1)
	})
	p.until("an error is told with its line", `document.querySelector(".banner b")?.textContent === "pyproject.toml has an error in line 3."`)
	p.click(".banner .btn")
	p.until("all about it is one click away", `document.querySelector("dialog.sheet .way")?.textContent.includes("not valid TOML")`)
	p.press(kb.Escape)
	edit(t, s, func(string) string { return whole })
	p.until("the banner goes when it is mended", `!document.querySelector(".banner")`)
	p.until("what was typed is still there", `document.querySelector('[data-input="prompt"] textarea').value === "half a thought"`)
}

func largestSeed(t *testing.T, browser context.Context) {
	const largest = "18446744073709551615"
	s := startStage(t)
	p := openTab(t, browser, s.url, "/", 1400, 900)
	p.ready()
	p.fill("seed", largest)
	p.runSmall()
	p.finished()
	if sent := s.prompts(); len(sent) != 1 || !strings.Contains(strings.ReplaceAll(sent[0], " ", ""), `"seed":`+largest) {
		t.Errorf("ComfyUI got %v", sent)
	}
	p.until("the stage tells it", `document.querySelector(".under .sub").textContent.includes("seed `+largest+`")`)
	p.until("a typed seed is kept for the next run", `document.querySelector('[data-input="seed"] input').value === "`+largest+`"`)
	p.run(`document.querySelector(".tile .open").focus()`)
	p.press("\r")
	p.until("the viewer tells it", `[...document.querySelectorAll("dialog.viewer[open] dd")].some((e) => e.textContent === "`+largest+`")`)
}
