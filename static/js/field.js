// What every field has: a name, a mark when changed, help, and its fault, tied to the control.

import { h, icon, text, attr, unique } from "./dom.js";
import { StudioElement } from "./element.js";
import { form } from "./form.js";
import { title } from "./value.js";
import { t } from "./words.js";

export class Field extends StudioElement {
  static topics = ["form"];
  controlID = unique("field");

  // A field is made for one input of a contract.
  for(input) { this.input = input; return this; }

  get name() { return title(this.input); }
  get value() { return form.value(this.input.name); }
  set value(v) { form.set(this.input.name, v); }

  build() {
    this.classList.add("field");
    this.dot = h("span", { class: "changed", role: "img", "aria-label": t("field.changed") });
    this.help = this.input.description ? h("p", { class: "help", id: this.controlID + "-h" }, this.input.description) : null;
    this.words = h("span");
    this.error = h("p", { class: "err", id: this.controlID + "-e", hidden: true }, icon("warn"), this.words);
    this.append(...this.parts().filter(Boolean), ...[this.error, this.help].filter(Boolean));
  }

  // label is the line over a control; a group of controls is named instead of labelled.
  label(group = false, tag = this.input.required ? t("field.required") : "") {
    const named = group ? h("span", { class: "name", id: this.controlID + "-l" }, this.name) : h("label", { for: this.controlID }, this.name);
    return h("div", { class: "label" }, this.dot, named, tag && h("span", { class: "tag" }, tag));
  }

  // parts builds the label and the control; target is what faults and help are tied to.
  parts() { return []; }
  show() {}
  get target() { return this.querySelector("#" + this.controlID); }

  render() {
    if (!form.contract || !form.input(this.input.name)) return;
    const fault = form.faults[this.input.name] ?? "";
    this.dot.hidden = !form.changed(this.input.name);
    this.classList.toggle("is-invalid", fault !== "");
    this.error.hidden = !fault;
    text(this.words, fault);
    attr(this.target, "aria-invalid", fault ? "true" : null);
    attr(this.target, "aria-describedby", [fault && this.error.id, this.help?.id].filter(Boolean).join(" ") || null);
    this.show(this.value);
  }
  look() { this.target.focus(); }
}

// typed sets the text of a control unless it already shows it, so that the caret stays.
export function typed(control, value) {
  if (control.value !== value) control.value = value;
}

// choices makes a row of radio buttons with arrow keys: one tab stop, the chosen one.
export function choices(list, labelled, choose, cls = "") {
  const buttons = list.map((c, at) => h("button", { type: "button", role: "radio", title: c.title, onclick: () => choose(at) }, c.icon ? icon(c.icon) : null, h("span", { class: "lbl" }, c.label)));
  const move = (e) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key];
    if (!step) return;
    e.preventDefault();
    const to = (buttons.indexOf(document.activeElement) + step + buttons.length) % buttons.length;
    choose(to);
    buttons[to].focus();
  };
  const row = h("div", { class: ("seg " + cls).trim(), role: "radiogroup", onkeydown: move, ...labelled }, buttons);
  row.choose = (at) => buttons.forEach((b, i) => {
    attr(b, "aria-checked", String(i === at));
    attr(b, "tabindex", i === Math.max(0, at) ? "0" : "-1");
  });
  return row;
}
