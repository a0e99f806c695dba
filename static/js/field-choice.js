import { attr, h, icon } from "./dom.js";
import { Field, choices } from "./field.js";
import { openMenu } from "./studio-menu.js";
import { isEmpty, same } from "./value.js";
import { t } from "./words.js";

const FEW = 4, FEW_LETTERS = 26, SOME = 12;

// Up to four short ones in a row, up to twelve in a select, more with a search.
class FieldChoice extends Field {
  parts() {
    this.list = this.input.enum_values ?? [];
    this.labels = this.list.map(String);
    if (this.list.length <= FEW && this.labels.join("").length <= FEW_LETTERS) return this.row();
    return this.list.length <= SOME ? this.select() : this.search();
  }
  index(value) { return this.list.findIndex((v) => same(v, value)); }
  get target() { return this.control; }
  look() { (this.control.querySelector?.('[tabindex="0"]') ?? this.control).focus(); }

  row() {
    this.control = choices(this.labels.map((label) => ({ label })), { "aria-labelledby": this.controlID + "-l" }, (at) => { this.value = this.list[at]; });
    this.show = (value) => this.control.choose(this.index(value));
    return [this.label(true), this.control];
  }

  select() {
    const none = !this.input.required || isEmpty(this.value);
    const options = this.labels.map((l, i) => h("option", { value: i }, l));
    this.control = h("select", { class: "in", id: this.controlID, required: this.input.required, onchange: () => { const at = this.control.value; this.value = at === "" ? "" : this.list[at]; } },
      none ? h("option", { value: "" }, t("field.none")) : null, options);
    this.show = (value) => this.showOption(value);
    return [this.label(), h("span", { class: "pick" }, this.control, icon("down"))];
  }
  showOption(value) {
    const at = this.index(value), gone = at < 0 && !isEmpty(value);
    // a value that is no longer offered is still shown; the fault beside it says so
    this.lost?.remove();
    this.lost = gone ? h("option", { value: "gone", disabled: true }, String(value)) : null;
    if (gone) this.control.append(this.lost);
    this.control.value = gone ? "gone" : at < 0 ? "" : String(at);
  }

  search() {
    this.control = h("input", {
      id: this.controlID, type: "text", role: "combobox", "aria-expanded": "false", "aria-autocomplete": "list", autocomplete: "off", required: this.input.required,
      oninput: () => this.offer(this.control.value), onkeydown: (e) => this.key(e), onblur: () => this.show(this.value), onclick: () => this.offer(""),
    });
    this.box = h("div", { class: "in is-group" }, icon("search"), this.control,
      h("button", { type: "button", class: "ib is-small", tabindex: "-1", "aria-label": t("field.show", { n: this.list.length }), title: t("field.show", { n: this.list.length }), onclick: () => { this.control.focus(); this.offer(""); } }, icon("down")));
    this.show = (value) => { if (!this.menu?.isOpen) this.control.value = String(value); };
    return [this.label(), this.box];
  }
  offer(words) {
    const fit = this.list.filter((v) => String(v).toLocaleLowerCase().includes(words.toLocaleLowerCase()));
    const head = h("div", { class: "h", role: "status" }, !words ? t("field.show", { n: fit.length }).replace(/^\S+ /, "") : fit.length ? t("field.fits", { n: fit.length, total: this.list.length, text: words }) : t("field.fits.none", { text: words }));
    const items = fit.map((v) => h("button", { type: "button", class: "item", role: "option", tabindex: "-1", "aria-selected": String(same(v, this.value)), onpointerdown: (e) => e.preventDefault(), onclick: () => this.take(v) },
      markIcon(), h("span", { class: "cut" }, String(v))));
    this.menu = openMenu(this.box, this.name, [head, h("div", { role: "listbox", "aria-label": this.name }, items)], { keepFocus: true, wide: true, closed: () => { attr(this.control, "aria-expanded", "false"); this.show(this.value); } });
    attr(this.control, "aria-expanded", "true");
    this.items = items;
    this.at = Math.max(0, fit.findIndex((v) => same(v, this.value)));
    this.mark();
  }
  mark() {
    this.items.forEach((el, i) => el.classList.toggle("is-active", i === this.at));
    const el = this.items[this.at];
    el?.scrollIntoView({ block: "nearest" });
    if (el) { el.id ||= `${this.controlID}-o${this.at}`; attr(this.control, "aria-activedescendant", el.id); }
  }
  key(e) {
    if (e.key === "Enter") { e.preventDefault(); if (this.menu?.isOpen) this.items[this.at]?.click(); else this.offer(""); return; }
    const by = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    if (!by) return;
    e.preventDefault();
    if (!this.menu?.isOpen) return this.offer("");
    this.at = (this.at + by + this.items.length) % this.items.length;
    this.mark();
  }
  take(v) { this.menu.close(); this.value = v; this.control.value = String(v); }
}

function markIcon() {
  const i = icon("check");
  i.classList.add("mark");
  return i;
}

customElements.define("field-choice", FieldChoice);
