import { copy } from "./actions.js";
import { h, icon, iconButton, attr, text } from "./dom.js";
import { StudioElement } from "./element.js";
import { form } from "./form.js";
import { span } from "./format.js";
import { kind } from "./item.js";
import { usual } from "./pace.js";
import { contractKey } from "./run.js";
import { store } from "./store.js";
import { openMenu } from "./studio-menu.js";
import { faultsSheet, manifestFaults } from "./studio-sheet.js";
import { toast } from "./studio-toasts.js";
import { t } from "./words.js";

const OUTPUT_ICONS = { image: "image", video: "video", audio: "audio", text: "text", string: "text", json: "json" };
const KINDS = { string: "text", text: "text", image: "image", video: "video", audio: "audio", json: "json" };

class ContractPicker extends StudioElement {
  static topics = ["contracts", "current", "form", "items"];

  build() {
    this.thumb = h("span", { class: "thumb" });
    this.heading = h("span", { class: "name cut" });
    this.what = h("span", { class: "what cut" });
    this.button = h("button", { type: "button", class: "picker-btn", "aria-haspopup": "dialog", "aria-expanded": "false", onclick: () => this.open() },
      this.thumb, h("span", { class: "cut stack" }, this.heading, this.what), icon("down"));
    this.desc = h("p", { class: "desc grow" });
    this.reset = iconButton("reset", t("reset"), () => this.backToDefaults());
    this.tools = h("div", { class: "tools" }, this.desc, this.reset);
    this.replaceChildren(this.button, this.tools);
  }
  render() {
    const contract = store.contract();
    text(this.heading, contract ? nameOf(contract) : t(store.contracts ? "picker.choose" : "picker.loading"));
    text(this.what, contract ? about(contract) : "");
    const changes = contract ? form.changes : 0;
    text(this.desc, contract?.description || (changes ? t("picker.changes", { n: changes }) : ""));
    this.reset.hidden = !changes;
    this.tools.hidden = !changes && !contract?.description;
    this.picture(contract);
  }
  picture(contract) {
    const key = contract ? contractKey(contract) + (lastPicture(contract) ?? "") : "";
    if (key === this.pictured) return;
    this.pictured = key;
    const fresh = contract ? thumb(contract) : h("span");
    fresh.classList.add("thumb");
    this.thumb.replaceWith(fresh);
    this.thumb = fresh;
  }
  backToDefaults() {
    const back = form.reset();
    toast({ icon: "reset", title: t("reset.done"), button: t("undo"), press: back, gone: () => {} });
  }

  open() {
    if (!store.contracts) return;
    this.list = h("div", { role: "listbox", "aria-label": t("picker.list"), id: "contracts-list" });
    const find = h("input", { role: "combobox", "aria-expanded": "true", "aria-controls": "contracts-list", placeholder: t("picker.find"), autocomplete: "off", oninput: () => this.fill(find.value), onkeydown: (e) => this.key(e) });
    this.find = find;
    const head = h("div", { class: "find" }, h("label", { class: "in is-group" }, icon("search"), h("span", { class: "sr" }, t("picker.find")), find));
    this.fill("");
    this.menu = openMenu(this.button, t("picker.list"), [head, this.list], { wide: true });
  }
  fill(words) {
    const fits = (s) => s.toLocaleLowerCase().includes(words.toLocaleLowerCase());
    const good = store.contracts.filter((c) => fits(`${nameOf(c)} ${c.workflow} ${c.contract}`));
    const bad = manifestFaults().filter((f) => f.workflow && fits(f.workflow) && !store.contract(`${f.workflow}/${f.contract}`));
    this.list.replaceChildren(...good.map((c) => this.option(c)), ...bad.map((f) => this.broken(f)));
    if (!good.length && !bad.length) this.list.append(h("div", { class: "h" }, t("picker.none", { text: words })));
    this.at = Math.max(0, good.findIndex((c) => contractKey(c) === store.current));
    this.mark();
  }
  option(c) {
    const mark = icon("check");
    mark.classList.add("mark");
    return h("button", { type: "button", class: "item opt-row", role: "option", "aria-selected": String(contractKey(c) === store.current), onclick: () => { this.menu.close(); store.choose(contractKey(c)); } },
      thumb(c), h("b", { class: "cut" }, nameOf(c)), mark, h("small", { class: "cut" }, about(c)));
  }
  broken(f) {
    return h("button", { type: "button", class: "item opt-row is-broken", role: "option", "aria-selected": "false", onclick: () => { this.menu.close(); faultsSheet([f], copy); } },
      h("span", { class: "ph" }, icon("warn")), h("b", { class: "cut" }, f.contract && f.contract !== "default" ? `${f.workflow} / ${f.contract}` : f.workflow), h("span"), h("small", { class: "cut" }, t("picker.unreadable")));
  }
  mark() {
    const items = [...this.list.querySelectorAll(".item")];
    items.forEach((el, i) => { el.classList.toggle("is-active", i === this.at); el.id ||= `contracts-${i}`; });
    items[this.at]?.scrollIntoView({ block: "nearest" });
    attr(this.find, "aria-activedescendant", items[this.at]?.id ?? null);
  }
  key(e) {
    const items = this.list.querySelectorAll(".item");
    if (e.key === "Enter") { e.preventDefault(); items[this.at]?.click(); return; }
    const by = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    if (!by || !items.length) return;
    e.preventDefault();
    this.at = (this.at + by + items.length) % items.length;
    this.mark();
  }
}

const nameOf = (c) => c.display_name || (c.contract === "default" ? c.workflow : c.contract);

// about says what comes out and how long it may take: "1 video, 1 text · about 2 min".
function about(c) {
  const counts = new Map();
  for (const o of c.outputs ?? []) { const k = KINDS[o.type] ?? "file"; counts.set(k, (counts.get(k) ?? 0) + 1); }
  const what = [...counts].map(([k, n]) => t("kind." + k, { n })).join(", ");
  const ms = usual(contractKey(c));
  return [what, ms === null ? "" : t("picker.about", { span: span(ms) })].filter(Boolean).join(" · ");
}

const lastPicture = (c) => store.shown.find((i) => i.status === "done" && i.contractWorkflow === c.workflow && i.contractName === c.contract && kind(i) === "image")?.url;

function thumb(c) {
  const url = lastPicture(c);
  return url ? h("img", { src: url, alt: "", decoding: "async" }) : h("span", { class: "ph" }, icon(OUTPUT_ICONS[c.outputs?.[0]?.type] ?? "file"));
}

customElements.define("contract-picker", ContractPicker);
