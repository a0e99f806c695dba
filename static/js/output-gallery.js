import { download, remove, reuse } from "./actions.js";
import { attr, h, icon, iconButton, keyed, text } from "./dom.js";
import { StudioElement } from "./element.js";
import { count, dayKey, dayName, time } from "./format.js";
import { kind, matches } from "./item.js";
import "./output-tile.js";
import { store } from "./store.js";
import { more } from "./stream.js";
import { t } from "./words.js";

const CHIPS = ["all", "image", "video", "audio", "other", "failed"];
const GHOSTS = [1, 2, 3, 4, 5, 6];   // places shown until the first outputs are read

class OutputGallery extends StudioElement {
  static topics = ["items", "runs", "contracts", "view"];
  search = "";
  chip = "all";

  build() {
    this.find = h("input", { type: "search", oninput: () => { this.search = this.find.value.trim(); this.render(); } });
    this.chips = CHIPS.map((c) => h("button", { type: "button", class: "chip", "aria-pressed": "false", onclick: () => this.filter(c) }, t("gallery." + c)));
    this.chipRow = h("div", { class: "chips", role: "group", "aria-label": t("gallery.filters") }, this.chips);
    const wide = iconButton("wide", t("gallery.wide"), () => { store.wide = !store.wide; store.change("view"); }, "opt");
    this.wide = wide;
    this.grid = h("div", { class: "grid", role: "list", "aria-label": t("gallery.list"), onkeydown: (e) => this.key(e), onfocusin: (e) => this.hold(e.target.closest(".open")) });
    this.foot = h("div", { class: "more", hidden: true });
    this.empty = h("div", { class: "empty", hidden: true });
    this.scroll = h("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": t("gallery.list") }, this.grid, this.empty, this.foot);
    this.replaceChildren(h("div", { class: "gal-head" }, h("div", { class: "row" }, h("label", { class: "in is-group" }, icon("search"), h("span", { class: "sr" }, t("gallery.search.label")), this.find), wide),
      this.chipRow), this.scroll);
    if (!store.galleryRead) this.grid.replaceChildren(...GHOSTS.map(() => h("i", { class: "ghost tile", "aria-hidden": "true" })));
    store.addEventListener("progress", () => this.renderRuns());
    new IntersectionObserver(([e]) => e.isIntersecting && more(), { root: this.scroll, rootMargin: "800px" }).observe(this.foot);
  }
  filter(chip) {
    this.chip = this.chip === chip ? "all" : chip;
    this.render();
  }
  get filtered() { return this.search !== "" || this.chip !== "all"; }

  fits(item) {
    if (this.search && !matches(item, this.search)) return false;
    return this.chip === "all" || this.chip === chipOf(item);
  }

  // entries are the rows of the grid: runs on their way, then days and outputs.
  entries() {
    const runs = this.filtered ? [] : store.active.map((run) => ({ key: "run " + run.run_id, run }));
    const items = store.shown.filter((i) => this.fits(i)), perDay = new Map();
    for (const i of items) { const d = dayKey(time(i.createdAt)); perDay.set(d, (perDay.get(d) ?? 0) + 1); }
    const list = [], seen = new Set();
    if (runs.length) { const d = dayKey(Date.now()); seen.add(d); list.push({ key: "day " + d, day: d, n: perDay.get(d) ?? 0 }, ...runs); }
    for (const item of items) {
      const d = dayKey(time(item.createdAt));
      if (!seen.has(d)) { seen.add(d); list.push({ key: "day " + d, day: d, n: perDay.get(d) }); }
      list.push({ key: "item " + item.id, item });
    }
    return list;
  }

  render() {
    const list = this.entries(), n = store.shown.length;
    if (list.length || store.galleryRead) keyed(this.grid, list, (e) => e.key, make, update);
    attr(this.find, "placeholder", n ? t("gallery.search", { n: count(n) + (store.hasMore ? "+" : "") }) : t("gallery.search.label"));
    this.renderChips();
    attr(this.wide, "aria-pressed", String(store.wide));
    this.foot.hidden = !store.hasMore;
    if (store.moreFailed) this.foot.replaceChildren(h("button", { type: "button", class: "btn is-small", onclick: more }, t("gallery.more.failed") + " " + t("try")));
    else text(this.foot, t("gallery.more"));
    this.renderEmpty(list.length === 0);
    this.hold(this.held?.isConnected ? this.held : this.grid.querySelector(".open"));
  }
  // renderChips offers the kinds that are there; one kind alone needs no filter.
  renderChips() {
    const there = new Set(store.shown.map(chipOf));
    this.chipRow.hidden = there.size < 2 && this.chip === "all";
    this.chips.forEach((el, i) => {
      const chip = CHIPS[i], on = chip === this.chip;
      el.hidden = chip !== "all" && !on && !there.has(chip) && !store.hasMore;
      el.classList.toggle("is-on", on && chip !== "all");
      attr(el, "aria-pressed", String(on));
    });
  }
  // renderRuns brings only the running tiles up to date, many times a second.
  renderRuns() {
    for (const run of store.active) this.grid.querySelector(`[data-key="${CSS.escape("run " + run.run_id)}"]`)?.of({ run });
  }
  renderEmpty(isEmpty) {
    const key = !isEmpty || !store.galleryRead ? "" : this.filtered ? "filter " + this.search : "none";
    this.empty.hidden = key === "";
    if (this.empty.dataset.key === key) return;
    this.empty.dataset.key = key;
    if (key === "none") this.empty.replaceChildren(icon("grid"), h("h2", null, t("gallery.empty")), h("p", null, t("gallery.empty.text")));
    else if (key) this.empty.replaceChildren(icon("search"), h("h2", null, this.search ? t("gallery.nomatch.text", { text: this.search }) : t("gallery.nomatch")),
      h("div", { class: "row" }, h("button", { type: "button", class: "btn is-small", onclick: () => this.clear() }, t("gallery.clear"))));
  }
  clear() {
    this.search = this.find.value = "";
    this.chip = "all";
    this.render();
    this.find.focus();
  }

  // ── keys: one tab stop, arrows move it ──
  hold(button) {
    if (!button || button === this.held) return;
    attr(this.held ?? button, "tabindex", "-1");
    attr(button, "tabindex", "0");
    this.held = button;
  }
  key(e) {
    if (!e.target.matches(".open") || e.ctrlKey || e.metaKey || e.altKey) return;
    const all = [...this.grid.querySelectorAll(".open")], at = all.indexOf(e.target);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: all.length - 1 }[e.key] ?? this.row(all, at, { ArrowDown: 1, ArrowUp: -1 }[e.key]);
    if (to !== undefined) {
      e.preventDefault();
      all[Math.max(0, Math.min(all.length - 1, to))].focus();
      return;
    }
    this.act(e, all[at + 1] ?? all[at - 1]);
  }
  // row finds the tile above or below: the nearest in the next row.
  row(all, at, way) {
    if (!way) return undefined;
    const place = (el) => el.parentElement.getBoundingClientRect(), here = place(all[at]);
    const next = all.findIndex((el, i) => (i - at) * way > 0 && (place(el).top - here.top) * way > 1);
    if (next < 0) return at;
    const top = way > 0 ? place(all[next]).top : Math.max(...all.slice(0, at).map((el) => place(el).top).filter((y) => y < here.top - 1));
    return all.reduce((best, el, i) => (Math.abs(place(el).top - top) < 1 && (best < 0 || Math.abs(place(el).left - here.left) < Math.abs(place(all[best]).left - here.left)) ? i : best), -1);
  }
  act(e, next) {
    const [what, id] = e.target.parentElement.dataset.key.split(/ (.*)/);
    const item = what === "item" && store.items.get(id);
    if (!item) return;
    const deed = { Delete: remove, Backspace: remove, r: reuse, R: reuse, d: item.url && download, D: item.url && download }[e.key];
    if (!deed) return;
    e.preventDefault();
    e.stopPropagation();
    deed(item);
    if (deed === remove) next?.focus();
  }
}

// chipOf is the filter that an output belongs to.
function chipOf(item) {
  if (item.status === "error") return "failed";
  const k = kind(item);
  return ["image", "video", "audio"].includes(k) ? k : "other";
}

function make(entry) {
  return entry.day === undefined ? document.createElement("output-tile") : h("div", { class: "day", role: "presentation" }, h("b"), h("span"));
}

function update(el, entry) {
  if (entry.day === undefined) return el.of(entry);
  text(el.firstElementChild, dayName(entry.day || NaN));
  text(el.lastElementChild, entry.n ? count(entry.n) : "");
}

customElements.define("output-gallery", OutputGallery);
