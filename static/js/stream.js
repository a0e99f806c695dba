// Follows /events and brings what it says into the store. After a gap everything is read again.

import * as ask from "./api.js";
import { api } from "./config.js";
import { form } from "./form.js";
import { read, write } from "./json.js";
import * as previews from "./previews.js";
import { advance, percent, remember } from "./pace.js";
import { errorText, isActive, isHeld, isOver } from "./run.js";
import { say } from "./say.js";
import { store } from "./store.js";
import { toast } from "./studio-toasts.js";
import { t } from "./words.js";

const RUN_EVENTS = ["run_started", "run_progress", "run_output_completed", "run_completed", "run_failed", "run_cancelled", "node_started", "node_finished"];
const PAGE = 60;
const WAITS = [1, 2, 3, 5, 8];   // seconds between attempts

let source, lastID = "", attempt = 0, timer = 0, opens = 0;

export function start() {
  setInterval(() => { if (store.active.length || store.link.state === "lost") store.change("clock"); }, 1000);
  addEventListener("online", tryNow);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) refreshHealth(); });
  refresh().gallery.then(connect);   // with the session that this answer gave
}

// tryNow does not wait for the next attempt.
export function tryNow() {
  if (store.link.state !== "lost") return refreshHealth();
  clearTimeout(timer);
  connect();
}

function connect() {
  source?.close();
  source = new EventSource(api("events" + (lastID ? `?after=${encodeURIComponent(lastID)}` : "")));
  source.onopen = opened;
  source.onerror = lost;
  listen(RUN_EVENTS, applyRun);
  listen(["progress"], applyProgress);
  listen(["preview"], (data) => previews.want(data.run_id, data.v));
  listen(["contracts_changed"], () => refreshContracts(true));
  listen(["health_changed"], refreshHealth);
  listen(["reset", "run_deleted"], refresh);
}

function listen(names, apply) {
  for (const name of names) source.addEventListener(name, (e) => {
    if (e.lastEventId) lastID = e.lastEventId;
    apply(e.data ? read(e.data) : {});
  });
}

function opened() {
  const again = store.link.state === "lost";
  attempt = 0;
  store.link = { state: "open", retryAt: 0 };
  store.change("link");
  // the stream begins when it opens: what happened since the first reading is in no event
  if (again) refresh();
  else if (opens++ === 0) Promise.all([refreshRuns(), refreshGallery()]);
}

function lost() {
  source.close();
  const wait = WAITS[Math.min(attempt++, WAITS.length - 1)] * 1000;
  store.link = { state: "lost", retryAt: Date.now() + wait };
  store.change("link");
  timer = setTimeout(connect, wait);
}

// ── reading again ──

export function refresh() {
  const gallery = refreshGallery();
  refreshContracts(false);
  refreshHealth();
  refreshRuns();
  return { gallery };
}

export async function refreshHealth() {
  try { store.health = await ask.health(); } catch (e) { if (e.status) store.health = { ok: false, comfyui: { available: false, error: e.message } }; }
  store.seen = Date.now();
  store.change("health");
}

async function refreshContracts(tell) {
  const before = store.contracts, open = store.contract();
  try {
    store.contracts = (await ask.contracts()).contracts;
    store.failure = null;
  } catch (e) {
    store.failure = e;
  }
  if (store.contracts?.length && !store.contract()) store.choose(`${store.contracts[0].workflow}/${store.contracts[0].contract}`);
  store.change("contracts", "form");
  if (!tell) return;
  refreshHealth();
  if (before && store.contracts && write(before) !== write(store.contracts)) announceChange(before, open);
}

function announceChange(before, open) {
  const keys = (list) => new Set(list.map((c) => `${c.workflow}/${c.contract}`));
  const was = keys(before), is = keys(store.contracts);
  const added = [...is].filter((k) => !was.has(k)).length, gone = [...was].filter((k) => !is.has(k)).length;
  const vanished = (open?.inputs ?? []).filter((i) => store.contract() && !form.input(i.name)).map((i) => `“${i.display_name || i.name}”`);
  const words = added ? t("changed.new", { n: added }) : gone ? t("changed.gone", { n: gone }) : t("changed");
  toast({ icon: "check", title: words, text: vanished.length && !gone ? t("changed.inputs", { n: vanished.length, names: vanished.join(", ") }) : "",
    button: added ? t("look") : "", press: () => { store.setView("make"); requestAnimationFrame(() => document.querySelector(".picker-btn").click()); } });
}

async function refreshRuns() {
  try {
    const { runs } = await ask.activeRuns();
    const now = new Set(runs.map((r) => r.run_id));
    for (const run of runs) store.putRun(run);
    for (const run of store.active) if (!now.has(run.run_id)) refreshRun(run.run_id);
  } catch { /* the banner says it; the stream tries again */ }
}

export async function refreshGallery() {
  try {
    const page = await ask.gallery(PAGE, "");
    if (!store.galleryRead) { store.cursor = page.next_cursor; store.hasMore = page.has_more === true; }
    store.galleryRead = true;
    store.putItems(page.items);
  } catch (e) {
    store.galleryFailure = e;
    store.change("items");
  }
}

// more loads the next page of older outputs.
export async function more() {
  if (!store.hasMore || store.loadingMore) return;
  store.loadingMore = true;
  try {
    const page = await ask.gallery(PAGE, store.cursor);
    store.cursor = page.next_cursor;
    store.hasMore = page.has_more === true;
    store.moreFailed = false;
    store.putItems(page.items);
  } catch {
    store.moreFailed = true;
    store.change("items");
  }
  store.loadingMore = false;
}

const asking = new Map();   // run → true while asked, "again" when news came meanwhile

// refreshRun reads one run with its outputs; news that come meanwhile lead to one more reading.
export async function refreshRun(id) {
  if (asking.has(id)) { asking.set(id, "again"); return; }
  asking.set(id, true);
  do {
    asking.set(id, true);
    try {
      const { run, gallery_items: items } = await ask.run(id);
      const was = store.runs.get(id);
      settle(was, store.putRun(run));
      store.putItems(items ?? []);
    } catch (e) {
      if (e.status === 404 && store.runs.delete(id)) store.change("runs");
    }
  } while (asking.get(id) === "again");
  asking.delete(id);
}

// ── events ──

function applyRun(data) {
  const { run_id: id, targets = {} } = data, known = store.runs.get(id);
  // another attempt begins anew
  const again = known?.attempt !== undefined && targets.run?.attempt > known.attempt;
  const nodes = again ? {} : { ...known?.nodes };
  let stale = !known?.inputs;
  for (const [target, value] of Object.entries(targets)) {
    const [kind, name] = target.split("/");
    if (kind === "nodes") nodes[name] = { ...nodes[name], ...value };
    if (kind === "items") stale = applyItem(id, name, value) || stale;
  }
  const fresh = again ? { progress: undefined, reached: 0, due: undefined } : {};
  const run = store.putRun({ ...known, ...fresh, ...targets.run, run_id: id, nodes, revision: data.revision });
  settle(known, run);
  // the last output may be told of before the end
  if (run.outcome === "completed" && run.finishedAt && !known?.finishedAt) remember(run);
  if (stale) refreshRun(id);
}

// applyItem answers whether the rest of the item must be asked for.
function applyItem(runID, id, value) {
  if (value === null) { store.dropItem(id); return false; }
  const known = store.items.get(id);
  store.putItems([{ ...known, ...value, id, run_id: runID }]);
  return !known?.createdAt || (value.status === "done" && !known.url);
}

function applyProgress(data) {
  const run = store.runs.get(data.run_id);
  if (!run) return refreshRun(data.run_id);
  if (isOver(run)) return;
  const before = percent(run);
  run.progress = { ...run.progress, ...data };
  advance(run, Date.now());
  store.change("progress");
  milestone(run, before);
}

function milestone(run, before) {
  const now = percent(run);
  for (const mark of [75, 50, 25]) if ((before ?? 0) < mark && now >= mark) return say(t("say.percent", { name: store.nameOf(run), percent: mark }));
}

// settle does what is due when a run has just moved on.
function settle(was, run) {
  if (was?.status === run.status) return;
  const name = store.nameOf(run);
  if (run.status === "running") say(t("say.started", { name }));
  if (isHeld(run)) say(t("say.held", { name }));
  if (!isOver(run)) return;
  previews.forget(run.run_id);
  if (was && isActive(was) && !store.isRefused(run)) ended(run, name);
  store.change("show");
}

function ended(run, name) {
  if (run.status !== "cancelled" && store.view === "make") store.news = run.run_id;
  if (run.status === "completed") refreshRun(run.run_id).then(() => say(t("say.done", { name, n: store.outputsOf(run.run_id).length })));
  if (run.status === "error") { refreshRun(run.run_id); say(t("say.failed", { name, message: errorText(run.error) })); }
  if (run.status === "cancelled") say(t("say.cancelled", { name }));
}
