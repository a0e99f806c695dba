// Reading a run: what it is doing, and what went wrong.

import { time, wholeSpan } from "./format.js";
import { t } from "./words.js";

const OVER = new Set(["completed", "error", "cancelled"]);
export const isOver = (run) => OVER.has(run.status);
export const isActive = (run) => !isOver(run);
// The status "running" begins when ComfyUI has taken the run; the phase says when its turn has come.
export const isRunning = (run) => isActive(run) && (run.phase ? run.phase === "executing" || run.phase === "collecting" : run.status === "running");
export const isStopping = (run) => run.phase === "cancelling" || run.stopping === true;
export const isHeld = (run) => isActive(run) && run.phase === "held";
export const contractKey = (run) => `${run.workflow}/${run.contract}`;

// since is when the run began to run, or was asked for.
export const since = (run) => { const s = time(run.startedAt); return Number.isNaN(s) ? time(run.createdAt) : s; };
export const took = (run) => time(run.finishedAt ?? run.updatedAt) - since(run);

export const elapsed = (run, now) => t("state.for", { span: wholeSpan(Math.max(0, now - since(run))) });

export function nodeName(run) {
  if (run.phase === "collecting") return t("state.collecting");
  const n = run.progress?.node;
  return n ? n.title || n.class_type || n.id : t("state.starting");
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

// fault explains a failed run: a title, a sentence, the shortest form of both, the node, the details.
export function fault(run, item) {
  const told = executionError(run?.raw_result ?? item?.rawResult);
  const failed = Object.values(run?.nodes ?? {}).find((n) => n.error) ?? (told && (run?.nodes?.[told.node_id] ?? { class_type: told.node_type }));
  const node = failed?.title || failed?.class_type || "";
  const message = (failed?.error || told?.exception_message || errorText(run?.error) || errorText(item?.error)).trim();
  const known = run?.outcome === "lost" ? "lost" : run?.outcome === "timed_out" ? "timeout" : /out ?of ?memory/i.test(message) ? "memory" : "";
  const first = message.split("\n")[0].trim() || t("fault.text");
  const details = [told?.exception_type, message, told?.traceback].flat().filter(Boolean).map((x) => String(x).trimEnd()).join("\n");
  const title = known ? t("fault." + known) : node ? t("fault.node", { node }) : t("fault.run");
  return { title, text: known ? t("fault.text." + known) : first, brief: known ? title : first, node, details, hint: known ? "" : (run?.raw_result ?? item?.rawResult)?.hint ?? "" };
}

// executionError is what ComfyUI said when a node stopped, where the result has it.
const executionError = (raw) => raw?.comfyui?.status?.messages?.find?.(([kind]) => kind === "execution_error")?.[1];
