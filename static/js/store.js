// What the panel knows. Elements listen to topics and render from here; nothing else keeps state
// that another part needs. Topics: contracts, current, form, health, link, runs, progress, clock,
// items, show, view.

import { load, save } from "./drafts.js";
import { time } from "./format.js";
import { contractKey, isActive, isHeld, isRunning } from "./run.js";

const KEPT_RUNS = 50;
const INVALID = "invalid_request";   // what the server calls a run whose inputs do not fit

class Store extends EventTarget {
  contracts = null;             // null until the first answer
  failure = null;               // the error of that answer
  current = load("current", "");
  health = null;
  link = { state: "connecting", retryAt: 0 };
  runs = new Map();
  items = new Map();
  galleryRead = false;
  cursor = null;
  hasMore = false;
  hidden = new Set();           // items whose deletion may still be undone
  refused = new Set();          // runs whose inputs were refused: the form shows why
  sending = 0;                  // runs that the server has not answered yet
  news = "";                    // the run that ended and was not looked at yet
  show = { follow: true, run: null, item: null };
  view = "make";
  wide = false;

  #due = new Set();
  #order = null;

  // change tells listeners of the topics, once a frame.
  change(...topics) {
    if (topics.includes("items")) this.#order = null;
    if (!this.#due.size) requestAnimationFrame(() => this.#tell());
    for (const t of topics) this.#due.add(t);
  }
  #tell() {
    const due = [...this.#due];
    this.#due.clear();
    for (const t of due) this.dispatchEvent(new Event(t));
  }

  contract(key = this.current) { return this.contracts?.find((c) => contractKey(c) === key); }
  nameOf(run) { return this.contract(contractKey(run))?.display_name || run.contract || run.workflow; }
  choose(key) {
    if (key === this.current) return;
    this.current = key;
    save("current", key);
    this.change("current", "form");
  }
  get away() { return this.health !== null && this.health.comfyui?.available === false; }
  isHeld(run) { return isHeld(run) || (this.away && isActive(run) && !isRunning(run)); }

  // ── runs ──
  // putRun takes news of a run; an answer that an event has overtaken only adds what is missing.
  putRun(fresh) {
    const old = this.runs.get(fresh.run_id);
    const run = Number(fresh.revision) < Number(old?.revision) ? { ...fresh, ...old } : { ...old, ...fresh };
    this.runs.set(run.run_id, run);
    if (!old) this.#forgetRuns();
    this.change("runs");
    return run;
  }
  #forgetRuns() {
    const over = [...this.runs.values()].filter((r) => !isActive(r));
    for (const r of over.slice(0, Math.max(0, over.length - KEPT_RUNS))) this.runs.delete(r.run_id);
  }
  // active gives the runs that are not over: running first, held last, in the order they were asked for.
  get active() {
    const rank = (r) => (isRunning(r) ? 0 : this.isHeld(r) ? 2 : 1);
    return [...this.runs.values()].filter(isActive).sort((a, b) => rank(a) - rank(b) || time(a.createdAt) - time(b.createdAt));
  }

  // ── gallery ──
  putItems(list) {
    for (const item of list) this.items.set(String(item.id), { ...this.items.get(String(item.id)), ...item });
    this.change("items");
  }
  dropItem(id) { if (this.items.delete(id)) this.change("items"); }

  // refuse forgets what a refused run would have shown.
  refuse(runID) { this.refused.add(runID); this.change("items", "show"); }
  // isRefused holds for an item or a run. The event of a refusal may be faster than the answer.
  isRefused({ run_id: id, rawResult }) {
    const run = this.runs.get(id);
    return this.refused.has(id) || rawResult?.status === INVALID || run?.code === INVALID || (this.sending > 0 && run?.outcome === "rejected");
  }

  // shown gives finished and failed items, newest first; of a failed run one item speaks for all.
  get shown() {
    if (this.#order) return this.#order;
    const failed = new Set();
    const once = (i) => i.status !== "error" || (!failed.has(i.run_id) && failed.add(i.run_id));
    this.#order = [...this.items.values()]
      .filter((i) => (i.status === "done" || (i.status === "error" && !this.isRefused(i))) && !this.hidden.has(String(i.id)))
      .sort((a, b) => time(b.createdAt) - time(a.createdAt))
      .filter((i) => once(i) && this.runs.get(i.run_id)?.status !== "cancelled");
    return this.#order;
  }
  outputsOf(runID) { return [...this.items.values()].filter((i) => i.run_id === runID && i.status === "done" && !this.hidden.has(String(i.id))); }
  faultsOf(runID) { return [...this.items.values()].filter((i) => i.run_id === runID && i.status === "error"); }
  hide(id, on) { this.hidden[on ? "add" : "delete"](String(id)); this.change("items", "show"); }

  // ── what the stage shows ──
  look(show) { this.show = { follow: false, run: null, item: null, ...show }; this.change("show"); }
  setView(view) {
    this.view = view;
    if (view !== "make") this.news = "";
    this.change("view");
  }

  // onStage gives {run} or {item}: what was chosen, else the run whose turn it is, else the newest result.
  get onStage() {
    const chosen = this.items.get(this.show.item);
    if (chosen && !this.hidden.has(this.show.item)) return { item: chosen };
    const run = this.runs.get(this.show.run);
    if (run && run.status !== "cancelled") return this.#result(run);
    const live = this.active.find(isRunning) ?? this.active.find((r) => !this.isHeld(r));
    if (live) return { run: live };
    const last = [...this.runs.values()].filter((r) => (r.status === "error" && !this.isRefused(r)) || (r.status === "completed" && this.outputsOf(r.run_id).length)).at(-1);
    if (last && !last.dismissed) return this.#result(last);
    const newest = this.shown.find((i) => i.status === "done");
    return newest ? { item: newest } : {};
  }
  #result(run) {
    const output = run.status === "completed" && this.outputsOf(run.run_id)[0];
    return output ? { item: output } : { run };
  }
}

export const store = new Store();
