import { h } from "./dom.js";
import { Field, typed } from "./field.js";

const SHORT = 40;   // a default as short as this asks for one line that grows

class FieldText extends Field {
  parts() {
    const one = this.input.ui_control === "input";
    const props = { class: "in", id: this.controlID, required: this.input.required, oninput: () => { this.value = this.control.value; } };
    const isShort = this.input.ui_control !== "textarea" && !this.input.required && String(this.input.default ?? "").length < SHORT;
    this.control = one ? h("input", { ...props, type: "text" }) : h("textarea", { ...props, class: isShort ? "in is-one" : "in", rows: isShort ? 1 : 2 });
    return [this.label(), this.control];
  }
  show(value) { typed(this.control, String(value)); }
}

customElements.define("field-text", FieldText);
