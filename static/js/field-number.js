import { attr, h, part } from "./dom.js";
import { Field, typed } from "./field.js";
import { has } from "./value.js";
import { t } from "./words.js";

const WIDEST = 100_000;   // a slider over more than this cannot be aimed

class FieldNumber extends Field {
  parts() {
    this.min = has(this.input.min) ? Number(this.input.min) : null;
    this.max = has(this.input.max) ? Number(this.input.max) : null;
    const bounded = this.min !== null && this.max !== null && this.max > this.min && this.max - this.min <= WIDEST;
    this.unit = has(this.input.step) ? Number(this.input.step) : this.input.type === "integer" ? 1 : bounded ? (this.max - this.min) / 100 : 0.1;
    this.control = h("input", {
      id: this.controlID, type: "text", inputmode: this.input.type === "integer" ? "numeric" : "decimal", autocomplete: "off", role: "spinbutton",
      "aria-valuemin": this.input.min, "aria-valuemax": this.input.max, required: this.input.required,
      oninput: () => { this.value = this.control.value; }, onkeydown: (e) => this.key(e),
    });
    if (!bounded) return this.wide();
    this.classList.add("numf");
    this.range = h("input", { class: "range", type: "range", min: this.min, max: this.max, step: this.unit, tabindex: "-1", "aria-label": t("field.slider", { name: this.name }), oninput: () => this.put(Number(this.range.value)) });
    const tag = this.classList.contains("is-half") ? "" : `${this.input.min}–${this.input.max}`;
    return [h("div", { class: "head" }, this.label(false, tag), h("span", { class: "numbox" }, this.control)), this.range];
  }
  wide() {
    this.control.className = "in num";
    return [this.label(), this.control];
  }

  show(value) {
    typed(this.control, value);
    const n = Number(value);
    attr(this.control, "aria-valuenow", value !== "" && Number.isFinite(n) ? value : null);
    if (!this.range) return;
    const at = value !== "" && Number.isFinite(n) ? n : this.min;
    this.range.value = at;
    part(this.range, (Math.min(this.max, Math.max(this.min, at)) - this.min) / (this.max - this.min));
  }

  key(e) {
    const by = { ArrowUp: 1, ArrowDown: -1 }[e.key];
    if (by) { e.preventDefault(); return this.move(by * (e.shiftKey ? 10 : 1)); }
    const to = { Home: this.min, End: this.max }[e.key];
    if (to !== null && to !== undefined && (e.ctrlKey || this.range)) { e.preventDefault(); this.put(to); }
  }

  // move goes by whole steps; integers by BigInt, so that large ones keep their digits.
  move(steps) {
    const { value } = this;
    if (this.input.type !== "integer" || !/^-?\d+$/.test(value)) return this.put((Number(value) || 0) + steps * this.unit);
    let to = BigInt(value) + BigInt(steps) * BigInt(Math.max(1, Math.round(this.unit)));
    if (has(this.input.max) && to > this.input.max) to = BigInt(String(this.input.max));
    if (has(this.input.min) && to < this.input.min) to = BigInt(String(this.input.min));
    this.value = String(to);
  }
  put(n) {
    const bound = Math.min(this.max ?? n, Math.max(this.min ?? n, n));
    const places = (String(this.unit).split(".")[1] ?? "").length;
    this.value = String(this.input.type === "integer" ? Math.round(bound) : Number(bound.toFixed(Math.max(places, 2))));
  }
}

customElements.define("field-number", FieldNumber);
