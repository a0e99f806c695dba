import { copy, download, remove, reuse } from "./actions.js";
import { attr, h, icon, iconButton, text } from "./dom.js";
import { atSeconds, count, dayName, time } from "./format.js";
import { contractName, contractOf, extension, kind, name, textOf } from "./item.js";
import { write } from "./json.js";
import { outputElement } from "./output-show.js";
import { store } from "./store.js";
import { more } from "./stream.js";
import { title } from "./value.js";
import { t } from "./words.js";

const ZOOMS = [0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 6];
const STRIP = 4;   // neighbours to each side
const LARGEST_FIT = 2;   // small pictures are enlarged, yet not into mush

// One output over the whole page, with what made it.
class OutputViewer extends HTMLElement {
  get item() { return store.items.get(this.itemID); }
  get list() { return store.shown.filter((i) => i.status === "done"); }

  connectedCallback() {
    this.top = h("header", { class: "vtop" });
    this.view = h("div", { class: "view" });
    this.strip = h("div", { class: "strip" });
    this.side = h("aside", { class: "vside", "aria-label": t("details") });
    this.dialog = h("dialog", { class: "viewer", tabindex: "-1", onclose: () => this.closed(), onkeydown: (e) => this.key(e) }, h("div", { class: "vgrid" }, this.top, this.view, this.strip, this.side));
    this.append(this.dialog);
    new ResizeObserver(() => this.fitted()).observe(this.view);
    this.view.addEventListener("pointerdown", (e) => this.drag(e));
    this.view.addEventListener("wheel", (e) => { if (e.ctrlKey) { e.preventDefault(); this.step(e.deltaY < 0 ? 1 : -1); } }, { passive: false });
  }
  open(id, opener) {
    this.opener = opener;
    this.show(id);
    if (!this.dialog.open) this.dialog.showModal();
    this.dialog.focus();   // on itself, not on its first button
  }
  closed() {
    this.view.replaceChildren();
    if (this.opener?.isConnected) this.opener.focus();
  }

  show(id) {
    this.itemID = id;
    const { item, list } = this, at = list.findIndex((i) => String(i.id) === id);
    if (!item) return this.dialog.close();
    this.zoom = 0;
    attr(this.dialog, "aria-label", name(item));
    this.buildTop(item, at, list);
    this.buildView(item, at, list);
    this.buildStrip(at, list);
    this.buildSide(item);
    store.look({ item: id });
    if (at > list.length - 8) more();
  }
  go(by) {
    const { list } = this, at = list.findIndex((i) => String(i.id) === this.itemID);
    const next = list[at + by];
    if (next) this.show(String(next.id));
  }
  remove() {
    const { list, item } = this, at = list.indexOf(item), next = list[at + 1] ?? list[at - 1];
    remove(item);
    if (next) this.show(String(next.id));
    else this.dialog.close();
  }

  buildTop(item, at, list) {
    this.top.replaceChildren(...[
      iconButton("x", t("close.esc"), () => this.dialog.close()),
      h("span", { class: "name cut" }, name(item)), h("span", { class: "faint num opt" }, t("viewer.of", { n: count(at + 1), total: count(list.length) + (store.hasMore ? "+" : "") })), h("span", { class: "grow" }),
      textOf(item) !== null ? iconButton("copy", t("copy"), () => copy(textOf(item))) : null,
      item.url ? iconButton("dl", t("download.key"), () => download(item)) : null,
      iconButton("trash", t("delete.key"), () => this.remove(), "is-bad"),
      iconButton("side", t("viewer.panel"), () => this.panel()),
    ].filter(Boolean));
  }
  panel() { this.dialog.classList.toggle("is-bare"); }

  // ── the picture ──
  buildView(item, at, list) {
    this.shown = outputElement(item);
    this.isPicture = kind(item) === "image";
    this.pane = h("div", { class: this.isPicture ? "pan" : "pan is-plain" }, this.shown);
    const arrow = (cls, i, words, by, on) => h("button", { type: "button", class: "arrow " + cls, "aria-label": words, onclick: () => this.go(by), hidden: !on }, icon(i));
    this.view.replaceChildren(...[this.pane,
      arrow("is-prev", "left", t("viewer.newer"), -1, at > 0), arrow("is-next", "right", t("viewer.older"), 1, at >= 0 && at < list.length - 1),
      this.isPicture ? this.zoomBar() : null].filter(Boolean));
    if (!this.isPicture) return;
    this.shown.addEventListener("load", () => this.fitted());
    this.shown.addEventListener("dblclick", () => this.set(this.zoom ? 0 : 1));
  }
  zoomBar() {
    this.percent = h("output", { "aria-live": "off" });
    return h("div", { class: "zoom" }, iconButton("minus", t("viewer.out"), () => this.step(-1)), this.percent, iconButton("plus", t("viewer.in"), () => this.step(1)),
      h("span", { class: "sep" }), h("button", { type: "button", class: "btn is-small is-quiet", onclick: () => this.set(0) }, t("viewer.fit")), h("button", { type: "button", class: "btn is-small is-quiet", onclick: () => this.set(1) }, t("viewer.full")));
  }
  // fit is the scale at which the whole picture is seen, in picture dots per screen dot.
  get fit() {
    const { naturalWidth: w, naturalHeight: high } = this.shown, dots = devicePixelRatio;
    return w ? Math.min(LARGEST_FIT, (this.view.clientWidth - 24) * dots / w, (this.view.clientHeight - 24) * dots / high) : 1;
  }
  fitted() { if (this.isPicture && this.shown.naturalWidth && this.view.clientWidth) this.set(this.zoom); }
  // set shows the picture at a scale; 0 fits it into the view. The middle of what is seen stays.
  set(zoom) {
    const { pane, shown } = this, before = [pane.scrollLeft + pane.clientWidth / 2, pane.scrollTop + pane.clientHeight / 2], wide = shown.clientWidth || 1;
    this.zoom = zoom;
    const scale = zoom || this.fit;
    shown.style.width = `${shown.naturalWidth * scale / devicePixelRatio}px`;
    pane.classList.toggle("is-in", zoom > this.fit);
    const grown = shown.clientWidth / wide;
    pane.scrollTo(before[0] * grown - pane.clientWidth / 2, before[1] * grown - pane.clientHeight / 2);
    text(this.percent, `${Math.round(scale * 100)} %`);
  }
  step(way) {
    if (!this.isPicture) return;
    const now = this.zoom || this.fit;
    const next = way > 0 ? ZOOMS.find((z) => z > now * 1.01) : ZOOMS.findLast((z) => z < now / 1.01);
    if (next) this.set(way < 0 && next < this.fit ? 0 : next);
  }
  drag(e) {
    if (!this.pane.classList.contains("is-in") || e.pointerType === "touch" || e.target.closest("button")) return;
    const { pane } = this, from = { x: e.clientX + pane.scrollLeft, y: e.clientY + pane.scrollTop }, stop = new AbortController();
    e.preventDefault();
    addEventListener("pointermove", (m) => pane.scrollTo(from.x - m.clientX, from.y - m.clientY), { signal: stop.signal });
    addEventListener("pointerup", () => stop.abort(), { signal: stop.signal });
  }

  buildStrip(at, list) {
    const from = Math.max(0, Math.min(at - STRIP, list.length - 2 * STRIP - 1));
    this.strip.replaceChildren(...list.slice(from, from + 2 * STRIP + 1).map((i) => h("button", { type: "button", "aria-current": String(i.id) === this.itemID ? "true" : null, "aria-label": name(i), onclick: () => this.show(String(i.id)) },
      small(i))));
  }

  // ── what made it ──
  buildSide(item) {
    const contract = contractOf(item), inputs = Object.entries(item.inputs ?? {}).filter(([, v]) => v !== "" && v !== null);
    const named = (key) => { const i = contract?.inputs.find((x) => x.name === key); return i ? title(i) : key; };
    const shown = (v) => (typeof v === "string" ? v : typeof v === "boolean" ? t(v ? "yes" : "no") : v?.filename ?? write(v));
    const made = time(item.createdAt);
    const facts = [["name", item.filename], ["kind", extension(item).toUpperCase() || t("viewer.kind." + kind(item))], ["size", item.width ? `${item.width} × ${item.height}` : ""],
      ["made", Number.isNaN(made) ? "" : `${dayName(made)} ${atSeconds(made)}`], ["contract", contractName(item)], ["output", item.outputName]].filter(([, v]) => v);
    const kv = (rows) => h("dl", { class: "kv" }, rows.map(([k, v]) => [h("dt", null, k), h("dd", { class: "num" }, v)]));
    this.side.replaceChildren(h("span", { class: "grab" }),
      h("section", null, h("div", { class: "vacts" }, h("button", { type: "button", class: "btn is-main", onclick: () => this.reuse() }, icon("reuse"), t("reuse")), item.url ? h("button", { type: "button", class: "btn", onclick: () => download(item) }, icon("dl"), t("download")) : null)),
      h("section", null, h("h3", null, t("viewer.inputs"), inputs.length ? h("button", { type: "button", class: "btn is-small is-quiet", onclick: () => copy(write(item.inputs, 2)) }, icon("copy"), t("copy")) : null),
        inputs.length ? kv(inputs.map(([k, v]) => [named(k), shown(v)])) : h("p", { class: "faint" }, t("viewer.noinputs"))),
      h("section", null, h("h3", null, t("viewer.file")), kv(facts.map(([k, v]) => [t("viewer." + k), v]))));
  }
  reuse() { const { item } = this; this.dialog.close(); reuse(item); }

  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey || e.target.matches("video, audio, input, pre")) return;
    const panned = this.pane.classList.contains("is-in");
    const deed = {
      ArrowLeft: () => (panned ? this.pane.scrollBy(-80, 0) : this.go(-1)), ArrowRight: () => (panned ? this.pane.scrollBy(80, 0) : this.go(1)),
      ArrowUp: () => panned && this.pane.scrollBy(0, -80), ArrowDown: () => panned && this.pane.scrollBy(0, 80), PageUp: () => this.go(-1), PageDown: () => this.go(1),
      "+": () => this.step(1), "=": () => this.step(1), "-": () => this.step(-1), 0: () => this.isPicture && this.set(0), 1: () => this.isPicture && this.set(1),
      i: () => this.panel(), r: () => this.reuse(), d: () => this.item.url && download(this.item), Delete: () => this.remove(),
    }[e.key.length === 1 ? e.key.toLowerCase() : e.key];
    if (!deed) return;
    e.preventDefault();
    e.stopPropagation();
    deed();
  }
}

// small is the picture of an output, or the sign of its kind when it has none.
function small(i) {
  const sign = () => h("span", { class: "ph" }, icon(kind(i)));
  if (kind(i) !== "image") return sign();
  const img = h("img", { src: i.url, alt: "", decoding: "async" });
  img.addEventListener("error", () => img.replaceWith(sign()));
  return img;
}

customElements.define("output-viewer", OutputViewer);
