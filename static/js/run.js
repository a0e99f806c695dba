// Reading a run: how far it is, how long it may take, and the words for both.

import { load, save } from "./drafts.js";
import { time, wholeSpan } from "./format.js";
import { t } from "./words.js";

const OVER = new Set(["completed", "error", "cancelled"]);
export const isOver = (run) => OVER.has(run.status);
export const isActive = (run) => !isOver(run);
export const isRunning = (run) => isActive(run) && (run.status === "running" || run.phase === "executing" || run.phase === "collecting");
export const isStopping = (run) => run.phase === "cancelling" || run.stopping === true;
export const isHeld = (run) => isActive(run) && run.phase === "held";
export const contractKey = (run) => `${run.workflow}/${run.contract}`;

// share is how much is done, 0 to 1, or null while nothing is known.
export function share(run) {
  if (run.phase === "collecting") return 1;
  const p = run.progress;
  if (!p) return null;
  const step = Number(p.max) > 0 ? Number(p.value) / Number(p.max) : 0;
  if (Number(p.total) > 0) return Math.min(1, (Number(p.done) + Math.min(1, step)) / Number(p.total));
  return Number(p.max) > 0 ? step : null;
}

export const percent = (run) => { const s = share(run); return s === null ? null : Math.floor(s * 100); };

// since is when the run began to run, or was asked for.
export const since = (run) => { const s = time(run.startedAt); return Number.isNaN(s) ? time(run.createdAt) : s; };
export const took = (run) => time(run.finishedAt ?? run.updatedAt) - since(run);

// The last five durations of each contract are kept; their median is what the next one may take.
export function remember(run) {
  const ms = took(run);
  if (!(ms > 0)) return;
  const key = "pace:" + contractKey(run);
  save(key, [...load(key, []), Math.round(ms)].slice(-5));
}

// usual gives that median, or null before the first run is known.
export function usual(key) {
  const list = [...load("pace:" + key, [])].sort((a, b) => a - b);
  return list.length ? list[list.length >> 1] : null;
}

// left says how long a running one still takes: never counted up, "" when unknown.
export function left(run, now) {
  const whole = usual(contractKey(run));
  if (whole === null) return "";
  const rest = whole - (now - since(run));
  return rest > 700 ? t("state.left", { span: wholeSpan(rest) }) : t("state.moment");
}

export const elapsed = (run, now) => t("state.for", { span: wholeSpan(Math.max(0, now - since(run))) });

export function nodeName(run) {
  if (run.phase === "collecting") return t("state.collecting");
  const n = run.progress?.node;
  return n ? n.title || n.class_type || n.id : t("state.starting");
}

// facts are step, node and time left, as far as they are known.
export function facts(run, now) {
  const p = run.progress ?? {}, list = [];
  if (Number(p.max) > 1) list.push(t("state.step", { value: p.value, max: p.max }));
  if (Number(p.total) > 0) list.push(t("state.node", { done: Math.min(Number(p.done) + 1, Number(p.total)), total: p.total }));
  const rest = left(run, now);
  list.push(rest || elapsed(run, now));
  return list;
}

// seedOf finds the seed among the inputs of a run.
export function seedOf(inputs) {
  const name = Object.keys(inputs ?? {}).find((k) => /(^|_)seed$/i.test(k));
  return name === undefined ? "" : String(inputs[name]);
}

// errorText is the sentence of an error, whatever shape the server keeps it in.
export function errorText(error) {
  if (!error) return "";
  return typeof error === "string" ? error : String(error.message ?? error.exception_message ?? error.error ?? "");
}

// fault explains a failed run: a title, a sentence, the node and the details.
export function fault(run, item) {
  const error = run?.error ?? item?.error ?? null;
  const message = errorText(error) || errorText(item?.error);
  const node = failedNode(run, error);
  const first = message.split("\n")[0].trim();
  const details = [message, error?.traceback, error?.details].flat().filter((x) => typeof x === "string" && x).join("\n");
  const base = { node, details, hint: error?.hint ?? "" };
  if (run?.outcome === "lost") return { ...base, title: t("fault.lost"), text: t("fault.lost.text") };
  if (run?.outcome === "timed_out") return { ...base, title: t("fault.timeout"), text: t("fault.timeout.text") };
  if (/out ?of ?memory/i.test(message)) return { ...base, title: t("fault.memory"), text: t("fault.memory.text") };
  return { ...base, title: node ? t("fault.node", { node }) : t("fault.run"), text: first || t("fault.text") };
}

function failedNode(run, error) {
  const failed = Object.values(run?.nodes ?? {}).find((n) => n.error);
  return failed?.title || failed?.class_type || error?.node_title || error?.class_type || error?.node_type || "";
}
