// What a person can do with runs and outputs, wherever the button is.

import * as ask from "./api.js";
import { time, wholeSpan } from "./format.js";
import { form } from "./form.js";
import { contractOf, name } from "./item.js";
import { contractKey } from "./run.js";
import { store } from "./store.js";
import { refreshRun } from "./stream.js";
import { toast } from "./studio-toasts.js";
import { t } from "./words.js";

// launch runs the open form so many times, as it is at this moment; it throws what the server refuses.
export async function launch(times) {
  const { contract } = form, bodies = [];
  for (let n = 0; n < times; n++) {
    bodies.push(form.body());
    form.advance();
  }
  for (const body of bodies) await launchOnce(contract, body);
}

async function launchOnce(contract, inputs) {
  store.sending++;
  const { run_id, prompt_id, gallery_items } = await ask.launch(contract, inputs).finally(() => store.sending--);
  const known = store.runs.get(run_id);
  store.putRun({ workflow: contract.workflow, contract: contract.contract, status: "submitted", phase: "queued", prompt_id, createdAt: new Date().toISOString(), ...known, run_id, inputs });
  store.putItems(gallery_items ?? []);
  store.look({ follow: true });
  if (!known) refreshRun(run_id);   // its events may have come before the stream was open
}

// again runs a contract with the inputs of an earlier run, which may be known by its events only.
export async function again({ workflow, contract, run_id: id }) {
  const found = store.contract(`${workflow}/${contract}`);
  if (!found) return toast({ icon: "warn", bad: true, title: t("reuse.other", { name: contract }) });
  try {
    const { inputs } = store.runs.get(id)?.inputs ? store.runs.get(id) : (await ask.run(id)).run;
    await launchOnce(found, inputs);
  } catch (e) {
    failed(e.message, e.hint);
  }
}

export async function cancel(run) {
  store.putRun({ ...run, stopping: true });
  try {
    await ask.cancel(run.run_id);
    store.putRun({ run_id: run.run_id, status: "cancelled", finishedAt: new Date().toISOString() });
    cancelled(run);
  } catch (e) {
    failed(t("cancel.failed", { name: store.nameOf(run), message: e.message }), e.hint);
  }
  store.putRun({ run_id: run.run_id, stopping: false });
  store.change("items", "show");
  refreshRun(run.run_id);
}

function cancelled(run) {
  const started = time(run.startedAt);
  const words = Number.isNaN(started) ? t("cancelled") : t("cancelled.after", { span: wholeSpan(Date.now() - started) });
  toast({ icon: "x", title: words, text: store.nameOf(run), button: t("again"), press: () => again(run) });
}

export const cancelAll = () => Promise.all(store.active.map(cancel));
export const cancelRunning = () => { const [first] = store.active; if (first) cancel(first); };

// reuse fills the form with the inputs of an output or a run.
export function reuse(of) {
  const contract = of.contractWorkflow ? contractOf(of) : store.contract(contractKey(of));
  if (!contract) return failed(t("reuse.other", { name: of.contractName ?? of.contract }), "");
  form.take(contract, of.inputs ?? {});
  store.setView("make");
  toast({ icon: "reuse", title: t("reuse.done"), text: of.contractWorkflow ? name(of) : store.nameOf(of) });
}

export function download(item) {
  const a = document.createElement("a");
  a.href = item.url;
  a.download = item.filename ?? "";
  a.click();
}

// ── delete, with ten seconds to undo ──

const pending = new Map();   // toast → items

export function remove(item) {
  const items = item.status === "error" ? store.faultsOf(item.run_id) : [item];
  conceal(items, true);
  const notice = toast({
    icon: "trash", title: t("delete.done", { n: 1 }), text: name(item), button: t("undo"),
    press: () => { pending.delete(notice); conceal(items, false); },
    gone: () => removeNow(notice),
  });
  pending.set(notice, items);
}

// conceal takes items out of sight, and a failed run off the stage.
function conceal(items, on) {
  for (const item of items) {
    store.hide(item.id, on);
    if (item.status === "error" && store.runs.has(item.run_id)) store.putRun({ run_id: item.run_id, dismissed: on });
  }
}

async function removeNow(notice, last = false) {
  const items = pending.get(notice) ?? [];
  pending.delete(notice);
  for (const item of items) {
    try {
      await ask.remove(item.id, last);
      store.dropItem(String(item.id));
    } catch (e) {
      if (e.status !== 404) failed(t("delete.failed", { message: e.message }), e.hint);
    }
    store.hide(item.id, false);
  }
}

// A page that closes keeps its promise: what was deleted is gone.
addEventListener("pagehide", () => { for (const notice of [...pending.keys()]) removeNow(notice, true); });

export function failed(title, hint) { toast({ icon: "warn", bad: true, title, text: hint }); }

export async function copy(words) {
  try {
    await navigator.clipboard.writeText(words);
    toast({ icon: "copy", title: t("copied") });
  } catch {
    failed(t("copy.failed"), "");
  }
}
