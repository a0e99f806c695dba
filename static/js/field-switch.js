import { h } from "./dom.js";
import { Field } from "./field.js";

class FieldSwitch extends Field {
  parts() {
    this.control = h("input", { type: "checkbox", role: "switch", id: this.controlID, onchange: () => { this.value = this.control.checked; } });
    return [h("div", { class: "switch" }, h("span", { class: "label" }, this.dot, h("label", { for: this.controlID }, this.name)), this.control)];
  }
  show(value) { this.control.checked = value === true; }
}

customElements.define("field-switch", FieldSwitch);
