import { h, icon, attr } from "./dom.js";
import { Field, choices, typed } from "./field.js";
import { form } from "./form.js";
import { randomSeed } from "./value.js";
import { t } from "./words.js";

const MODES = ["random", "fixed", "step"];

class FieldSeed extends Field {
  parts() {
    const { name } = this.input;
    this.control = h("input", { id: this.controlID, class: "num", type: "text", inputmode: "numeric", autocomplete: "off", oninput: () => { this.value = this.control.value; form.setSeedMode(name, "fixed"); } });
    this.last = h("button", { type: "button", class: "ib is-small", onclick: () => { this.value = form.lastSeed(name); form.setSeedMode(name, "fixed"); } }, icon("history"));
    const fresh = h("button", { type: "button", class: "ib is-small", "aria-label": t("seed.new"), title: t("seed.new"), onclick: () => { this.value = randomSeed(this.input); } }, icon("dice"));
    const modes = [["random", "dice"], ["fixed", "lock"], ["step", "step"]].map(([mode, i]) => ({ label: t("seed." + mode), title: t("seed." + mode), icon: i }));
    this.modes = choices(modes, { "aria-label": t("seed.after") }, (at) => form.setSeedMode(name, MODES[at]), "is-icons");
    return [this.label(), h("div", { class: "seed" }, h("div", { class: "in is-group" }, this.control, this.last, fresh), this.modes)];
  }
  show(value) {
    typed(this.control, value);
    const last = form.lastSeed(this.input.name);
    this.last.hidden = last === "";
    attr(this.last, "aria-label", t("seed.last", { seed: last }));
    attr(this.last, "title", t("seed.last", { seed: last }));
    this.modes.choose(MODES.indexOf(form.seedMode(this.input.name)));
  }
}

customElements.define("field-seed", FieldSeed);
