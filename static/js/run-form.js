import { h, icon } from "./dom.js";
import { StudioElement } from "./element.js";
import "./field-choice.js";
import "./field-media.js";
import "./field-number.js";
import "./field-seed.js";
import "./field-switch.js";
import "./field-text.js";
import { form } from "./form.js";
import { contractKey } from "./run.js";
import { store } from "./store.js";
import { isEmpty, isMedia, isNumeric, isSeed, randomSeed, title } from "./value.js";
import { write } from "./json.js";
import { t } from "./words.js";

// The fields of the open contract, in its order.
class RunForm extends StudioElement {
  static topics = ["current", "contracts"];
  build() { this.addEventListener("studio-look", () => this.lookAtFault()); }

  render() {
    const contract = store.contract();
    if (!contract && !store.contracts) return;   // what stands in their place stays until they are read
    // the same contract, read again, keeps its fields and what is typed in them
    const shape = contract ? contractKey(contract) + write(contract.inputs) : "";
    if (shape === this.shape) return;
    this.shape = shape;
    this.replaceChildren(...(contract ? [this.fields(contract)] : []));
  }

  fields(contract) {
    const { inputs } = contract;
    for (const input of inputs.filter(isSeed)) if (isEmpty(form.value(input.name))) form.set(input.name, randomSeed(input));
    const box = h("form", { class: "form", novalidate: true, "aria-label": t("form.of", { name: contract.display_name || contract.contract }), onsubmit: (e) => e.preventDefault() });
    box.append(...inputs.map((input, at) => this.field(input, halved(inputs, at))));
    if (!inputs.length) box.append(h("div", { class: "empty" }, icon("make"), h("h2", null, t("form.none")), h("p", null, t("form.none.text"))));
    return box;
  }
  field(input, half) {
    const el = document.createElement(tagFor(input)).for(input);
    if (half) el.classList.add("is-half");
    el.dataset.input = input.name;
    return el;
  }
  lookAtFault() {
    const [first] = form.faulty;
    if (first) this.querySelector(`[data-input="${CSS.escape(first.name)}"]`).look();
  }
}

function tagFor(input) {
  if (isSeed(input)) return "field-seed";
  if (isNumeric(input)) return "field-number";
  if (input.type === "enum" || input.enum_values?.length) return "field-choice";
  if (input.type === "boolean") return "field-switch";
  return isMedia(input) ? "field-media" : "field-text";
}

// Width and height stand side by side when one follows the other.
function halved(inputs, at) {
  const isSide = (i) => i && isNumeric(i) && /width|height/i.test(i.name) && !i.description && title(i).length < 12;
  return isSide(inputs[at]) && (isSide(inputs[at - 1]) || isSide(inputs[at + 1]));
}

customElements.define("run-form", RunForm);
