import { download, reuse } from "./actions.js";
import { attr, h, icon, iconButton, part, text } from "./dom.js";
import { at, time } from "./format.js";
import { contractName, extension, kind, name, textOf } from "./item.js";
import { openViewer } from "./open-viewer.js";
import { pretty } from "./output-show.js";
import { developed, previewOf } from "./previews.js";
import { percent, share } from "./pace.js";
import { fault, isRunning } from "./run.js";
import { store } from "./store.js";
import { t } from "./words.js";

const LETTERS = 400;   // more of a text does not fit into a tile

// One output or one run that is still on its way. A tile has one button; its actions are siblings.
class OutputTile extends HTMLElement {
  // of shows a run or an item; it is called again with news of the same one.
  of({ run, item }) {
    this.setAttribute("role", "listitem");
    if (run) return this.#run(run);
    const state = `${item.status} ${item.url} ${item.artifact !== undefined} ${contractName(item)}`;
    if (state === this.state) return;
    this.state = state;
    if (item.status === "error") this.#fault(item);
    else if (kind(item) === "image") this.#picture(item, developed(item.run_id, h("img", { class: "pic", src: item.url, alt: "", loading: "lazy", decoding: "async" })));
    else if (kind(item) === "video") this.#video(item);
    else this.#card(item);
  }
  get button() { return this.querySelector(".open"); }

  // A tile of words is named by them; one of a picture by its label.
  #open(label, press, ...content) {
    // the one tab stop of the list moves; a tile built again keeps it
    const stop = this.button?.tabIndex ?? -1;
    return h("button", { type: "button", class: "open", "aria-label": label, tabindex: String(stop), onclick: press }, content);
  }

  // ── runs ──
  #run(run) {
    const running = isRunning(run), state = running ? "running" : store.isHeld(run) ? "held" : "waiting";
    if (state !== this.state) {
      this.state = state;
      if (running) this.#running(run);
      else this.#waiting(run, state);
    }
    if (running) this.#progress(run);
    else text(this.querySelector(".foot span"), t("state.line", { n: store.active.indexOf(run) + 1 }));
  }
  #running(run) {
    this.className = "tile is-pending";
    this.replaceChildren(this.#open("", () => { store.look({ run: run.run_id }); store.setView("live"); }, h("img", { class: "pic", alt: "", hidden: true })),
      h("span", { class: "badge" }, t("state.running")), h("span", { class: "pctb" }), h("div", { class: "thread" }));
  }
  #progress(run) {
    const done = percent(run), url = previewOf(run.run_id), label = store.nameOf(run);
    const pic = this.querySelector(".pic"), thread = this.querySelector(".thread"), big = this.querySelector(".pctb");
    pic.hidden = !url;
    if (url) attr(pic, "src", url);
    if (big.dataset.n !== String(done)) { big.dataset.n = done; big.replaceChildren(...(done === null ? [] : [String(done), h("small", null, "%")])); }
    thread.classList.toggle("is-wait", done === null);
    part(thread, share(run));
    attr(this.button, "aria-label", t("tile.running", { name: label, percent: done ?? 0 }));
  }
  #waiting(run, state) {
    this.className = "tile is-card is-wait";
    this.replaceChildren(this.#open(null, () => store.setView("live"),
      h("span", { class: "sr" }, store.nameOf(run)), h("span", { class: "body" }, h("span", { class: "glyph" }, icon(state === "held" ? "hold" : "clock")), h("span", { class: "foot" }, h("b", { class: "cut" }, t("state." + state)), h("span")))));
  }

  // ── outputs ──
  #picture(item, content) {
    this.className = "tile";
    this.replaceChildren(this.#open(t("tile.open", { name: name(item) }), () => openViewer(item.id), content),
      h("span", { class: "cap cut" }, name(item)), this.#tools(item));
    const pic = this.querySelector("img.pic");
    pic?.addEventListener("error", () => this.#card(item));
  }
  #tools(item) {
    return h("span", { class: "hov" }, iconButton("reuse", t("reuse"), () => reuse(item)), item.url ? iconButton("dl", t("download"), () => download(item)) : null);
  }
  #video(item) {
    const video = h("video", { class: "pic", src: item.url + "#t=0.1", muted: true, playsinline: true, preload: "metadata", tabindex: "-1" });
    video.muted = true;
    this.#picture(item, video);
    const badge = h("span", { class: "badge num" }, icon("play"));
    this.append(badge);
    video.addEventListener("loadedmetadata", () => badge.replaceChildren(icon("play"), minutes(video.duration)));
    video.addEventListener("error", () => this.#card(item));
  }
  #card(item) {
    const k = kind(item);
    this.className = "tile is-card";
    const words = textOf(item), file = item.filename || item.outputName || contractName(item);
    const body = words !== null && (k === "text" || k === "json")
      ? h("span", { class: k === "json" ? "quote mono" : "quote" }, pretty(item, words).slice(0, LETTERS))
      : h("span", { class: "glyph" }, icon(glyph(item, k)));
    const end = words === null ? at(time(item.createdAt)) : t("tile.words", { n: words.split(/\s+/).length });
    this.replaceChildren(this.#open(null, () => openViewer(item.id),
      h("span", { class: "sr" }, t("viewer.kind." + k)), h("span", { class: "body" }, body, h("span", { class: "foot" }, h("b", { class: "cut" }, file), h("span", { class: "num" }, k === "json" ? at(time(item.createdAt)) : end)))),
      h("span", { class: "badge" }, k === "file" ? extension(item).toUpperCase() || icon("file") : icon(k)), this.#tools(item));
  }
  #fault(item) {
    this.className = "tile is-fault";
    const words = fault(store.runs.get(item.run_id), item).brief;
    this.replaceChildren(this.#open(null, () => { store.look({ item: String(item.id) }); store.wide = false; store.setView("live"); },
      h("span", { class: "sr" }, name(item)), h("span", { class: "body" }, h("span", { class: "quote" }, words), h("span", { class: "foot" }, icon("warn"), h("b", { class: "cut" }, t("state.failed")), h("span", { class: "num" }, at(time(item.createdAt)))))));
  }
}

const glyph = (item, k) => (k !== "file" ? k : /^(glb|gltf|obj|ply|stl|fbx|usdz)$/.test(extension(item)) ? "cube" : /^(zip|tar|gz|7z)$/.test(extension(item)) ? "zip" : "file");
const minutes = (s) => (Number.isFinite(s) ? `${Math.floor(s / 60)}:${String(Math.floor(s % 60)).padStart(2, "0")}` : "");

customElements.define("output-tile", OutputTile);
