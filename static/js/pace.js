// What this browser has learned of each contract: how long its runs and nodes take.

import { load, save } from "./drafts.js";
import { wholeSpan } from "./format.js";
import { shareOf, timesOf } from "./progress.js";
import { contractKey, elapsed, since, took } from "./run.js";
import { t } from "./words.js";

const SHORT = 500;   // a run of fewer milliseconds tells nothing: it was cached, or needs no forecast
const SURE = 0.1;    // from this share on, a run tells best by itself how long it takes

const timesFor = (run) => load("nodes:" + contractKey(run), {});

// share is how much is done, 0 to 1 and never less than before, or null while nothing is known.
export function share(run) {
  const now = shareOf(run, timesFor(run));
  return now === null ? null : Math.max(now, run.reached ?? reachedBefore(run));
}

// reachedBefore is how far a run was when the page was left.
const reachedBefore = (run) => Number(load("reached", {})[run.run_id] ?? 0);

export const percent = (run) => { const s = share(run); return s === null ? null : Math.floor(s * 100); };

// remember keeps the last five durations of a contract; their median is what the next one may take.
export function remember(run) {
  const ms = took(run), key = contractKey(run);
  if (!(ms > SHORT)) return;
  save("pace:" + key, [...load("pace:" + key, []), Math.round(ms)].slice(-5));
  save("nodes:" + key, timesOf(run, timesFor(run)));
}

// usual gives that median, or null before the first run is known.
export function usual(key) {
  const list = [...load("pace:" + key, [])].sort((a, b) => a - b);
  return list.length ? list[list.length >> 1] : null;
}

// advance notes what a run has reached, so that neither its share goes back nor its end away.
export function advance(run, now) {
  const before = run.reached;
  run.reached = share(run) ?? 0;
  if (Math.floor(run.reached * 100) !== Math.floor(before * 100)) save("reached", { [run.run_id]: run.reached });
  if (usual(contractKey(run)) === null || run.reached < SURE) return;
  const began = since(run);
  run.due = Math.min(run.due ?? Infinity, began + (now - began) / run.reached);
}

// rest is how many milliseconds a run may still take, null when unknown.
export function rest(run, now) {
  const whole = usual(contractKey(run));
  return whole === null ? null : (run.due ?? since(run) + whole) - now;
}

// left says how long a running one still takes, "" when unknown.
export function left(run, now) {
  const ms = rest(run, now);
  if (ms === null) return "";
  return ms > 700 ? t("state.left", { span: wholeSpan(ms) }) : t("state.moment");
}

// facts are step, node and time left, as far as they are known.
export function facts(run, now) {
  const p = run.progress ?? {}, list = [];
  if (Number(p.max) > 1) list.push(t("state.step", { value: p.value, max: p.max }));
  if (Number(p.total) > 1) list.push(t("state.node", { done: Math.min(Number(p.done) + 1, Number(p.total)), total: p.total }));
  list.push(left(run, now) || elapsed(run, now));
  return list;
}
