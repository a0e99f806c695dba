// The values of the form: one draft per contract, kept over switches and reloads.

import { load, save } from "./drafts.js";
import { contractKey } from "./run.js";
import { store } from "./store.js";
import { fault, held, initial, isEmpty, isSeed, nextSeed, randomSeed, same, sent } from "./value.js";
import { t } from "./words.js";

class Form {
  faults = {};                // of the open contract, by input
  #drafts = new Map();
  #uploads = new Map();       // input → file on its way

  get contract() { return store.contract(); }
  get inputs() { return this.contract?.inputs ?? []; }
  input(name) { return this.inputs.find((i) => i.name === name); }

  draft(contract = this.contract) {
    const key = contractKey(contract);
    if (!this.#drafts.has(key)) this.#drafts.set(key, load("draft:" + key, { values: {}, seeds: {}, last: {} }));
    return this.#drafts.get(key);
  }
  #keep() { save("draft:" + contractKey(this.contract), this.draft()); store.change("form"); }

  value(name) {
    const { values } = this.draft();
    return Object.hasOwn(values, name) ? values[name] : initial(this.input(name));
  }
  // a seed that moves by itself is nobody's change
  changed(name) {
    const input = this.input(name);
    return !(isSeed(input) && this.seedMode(name) !== "fixed") && !same(this.value(name), initial(input));
  }
  get changes() { return this.inputs.filter((i) => this.changed(i.name)).length; }

  set(name, value) {
    this.draft().values[name] = value;
    if (this.faults[name]) {
      const still = fault(this.input(name), value);
      if (still) this.faults[name] = still;
      else delete this.faults[name];
    }
    this.#keep();
  }

  // reset puts every input back and gives a function that undoes it.
  reset() {
    const draft = this.draft(), { values, seeds } = draft;
    const moving = this.inputs.filter((i) => isSeed(i) && isEmpty(initial(i)));
    draft.values = Object.fromEntries(moving.map((i) => [i.name, randomSeed(i)]));
    draft.seeds = {};
    this.faults = {};
    this.#keep();
    return () => { Object.assign(draft, { values, seeds }); this.#keep(); };
  }

  // take fills the form of a contract with the inputs of an earlier run, and opens it.
  take(contract, inputs) {
    const draft = this.draft(contract);
    for (const input of contract.inputs) if (Object.hasOwn(inputs, input.name)) draft.values[input.name] = held(input, inputs[input.name]);
    for (const input of contract.inputs.filter(isSeed)) draft.seeds[input.name] = "fixed";
    this.faults = {};
    store.choose(contractKey(contract));
    this.#keep();
  }

  // ── seeds ──
  seedMode(name) { return this.draft().seeds[name] ?? "random"; }
  setSeedMode(name, mode) { this.draft().seeds[name] = mode; this.#keep(); }
  lastSeed(name) { return this.draft().last[name] ?? ""; }

  // advance moves the seeds on, after a run took them.
  advance() {
    const draft = this.draft();
    for (const input of this.inputs.filter(isSeed)) {
      const text = this.value(input.name), mode = this.seedMode(input.name);
      draft.last[input.name] = text;
      if (mode === "random") draft.values[input.name] = randomSeed(input);
      if (mode === "step") draft.values[input.name] = nextSeed(input, text);
    }
    this.#keep();
  }

  // ── uploads ──
  uploading(name, file) {
    if (file) this.#uploads.set(name, file);
    else this.#uploads.delete(name);
    store.change("form");
  }

  // check finds the faults; it answers whether there is none.
  check() {
    this.faults = {};
    for (const input of this.inputs) {
      const busy = this.#uploads.get(input.name);
      const words = busy ? t("media.uploading", { file: busy.name }) : fault(input, this.value(input.name));
      if (words) this.faults[input.name] = words;
    }
    store.change("form");
    return !this.faulty.length;
  }
  get faulty() { return this.inputs.filter((i) => this.faults[i.name]); }

  // refuse puts what the server or ComfyUI has against the inputs at their fields, and gives what
  // belongs to none.
  refuse({ issues = [], nodeErrors = {} }) {
    const rest = [];
    for (const issue of [...issues, ...fromNodes(this.inputs, nodeErrors)].filter((i) => i.severity !== "warning")) {
      if (this.input(issue.input_name)) this.faults[issue.input_name] = issue.message;
      else rest.push(issue);
    }
    store.change("form");
    return rest;
  }

  body() {
    const body = {};
    for (const input of this.inputs) {
      const value = sent(input, this.value(input.name));
      if (value !== undefined) body[input.name] = value;
    }
    return body;
  }
}

// fromNodes finds the inputs behind what ComfyUI has against those of its nodes.
function fromNodes(inputs, nodes) {
  return Object.entries(nodes).flatMap(([id, node]) => (node.errors ?? []).map((e) => {
    const key = e.extra_info?.input_name ?? "";
    const input = inputs.find((i) => String(i.api_node_id ?? i.node_id) === id && (i.api_field_key ?? i.field_key) === key);
    const words = e.details || e.message || "";
    return { input_name: input?.name, message: words.startsWith(key + " - ") ? words.slice(key.length + 3) : `${node.class_type}: ${words}` };
  }));
}

export const form = new Form();
store.addEventListener("current", () => { form.faults = {}; });
