// One message in the place of the panes.

import { copy } from "./actions.js";
import { environment } from "./config.js";
import { h, icon } from "./dom.js";
import { refresh } from "./stream.js";
import { faultCard, manifestFaults } from "./studio-sheet.js";
import { t } from "./words.js";

const EXAMPLE = `[tool.comfygit.workflows.landscape.execution_contract]
version = 1
default_contract = "default"
api_prompt_file = "workflow_api/landscape.api.json"

[tool.comfygit.workflows.landscape.execution_contract.contracts.default]
display_name = "Landscape from text"
inputs = [
  { name = "prompt", type = "string", node_id = "6", required = true, api_node_id = "6", api_field_key = "text" },
]
outputs = [ { name = "image", type = "image", node_id = "9" } ]`;

export function noContracts() {
  const faults = manifestFaults();
  return faults.length ? allBroken(faults) : solo(t("none.title"), t("none.text"), ways(), source());
}

function allBroken(faults) {
  return solo(t("none.broken"), t("none.broken.text"), h("div", { class: "waysgrid" }, faults.map(faultCard)));
}

function ways() {
  return h("div", { class: "waysgrid" }, h("article", { class: "way" }, icon("text"), h("h2", null, t("none.hand")),
    h("p", null, environment ? t("none.hand.text", { environment }) : t("none.hand.text.bare")),
    h("button", { type: "button", class: "btn is-main", onclick: () => copy(EXAMPLE + "\n") }, t("none.copy"))));
}

function source() {
  const lines = EXAMPLE.split("\n").map((line, i) => h("div", null, h("span", { class: "ln" }, String(i + 1)), h("span", null, line)));
  return h("div", { class: "src", tabindex: "0", role: "region", "aria-label": t("none.example") }, lines);
}

// notRead says why the server gave no contracts.
export function notRead(error) {
  return solo(t("failed.title"), [error.message, error.hint].filter(Boolean).join(" "), h("div", { class: "row" }, h("button", { type: "button", class: "btn is-main", onclick: refresh }, t("try"))));
}

const solo = (title, words, ...rest) => h("div", { class: "solo" }, h("header", null, h("h1", null, title), h("p", null, words)), rest);
