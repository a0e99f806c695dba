// Requests to the server. Everything that is not a 2xx is thrown as an ApiError.

import { api } from "./config.js";
import { load, save } from "./drafts.js";
import { read, write } from "./json.js";
import { t } from "./words.js";

export class ApiError extends Error {
  // status is 0 when no answer came.
  constructor(status, body) {
    super(body.message || t("error.status", { status }));
    this.status = status;
    this.code = body.error ?? body.status ?? "";
    this.hint = body.hint ?? "";
    this.issues = body.issues ?? [];
    this.retryAfter = body.retryAfter;
    this.runID = body.run_id ?? "";
    this.nodeErrors = body.comfyui?.node_errors ?? {};
  }
}

const TIMEOUT = 30_000;
const RETRIES = 5;
const PAUSES = [0.5, 1.5, 4];   // seconds before what was not answered is sent again

// Who comes without a session is given one. Requests sent together would be given one each, and
// the last to be answered would win: so the first goes alone.
let first = null;

function afterFirst(send) {
  if (first) return first.then(send);
  const answer = send();
  first = answer.then(() => {}, () => { first = null; });
  return answer;
}

export const request = (...args) => afterFirst(() => send(...args));

// send asks again while the environment is being changed by somebody else. What changes something
// carries a key: it is sent again when no answer came, and done once.
async function send(method, path, body, options = {}) {
  const key = method === "GET" ? "" : newKey();
  for (let left = RETRIES, silent = 0; ; left--) {
    try {
      return await ask(method, path, body, options, key);
    } catch (e) {
      if (e.status === 401) signIn();
      const wait = e.status === 0 && key ? PAUSES[silent++] : e.code === "environment_busy" && left ? Number(e.retryAfter) || 1 : 0;
      if (!wait) throw e;
      await new Promise((done) => setTimeout(done, 1000 * wait));
    }
  }
}

// newKey is 32 hex digits; randomUUID is not there on a page without https.
const newKey = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");

// signIn loads the page anew: the server shows its form instead. Not twice in a row, should it not.
function signIn() {
  if (Date.now() - load("signin", 0) < 10_000) return;
  save("signin", Date.now());
  location.reload();
}

async function ask(method, path, body, options, key) {
  const headers = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (key) headers["Idempotency-Key"] = key;
  let answer, text;
  try {
    answer = await fetch(api(path), {
      method,
      headers,
      body: body === undefined ? undefined : write(body),
      cache: "no-store",
      signal: AbortSignal.timeout(TIMEOUT),
      ...options,
    });
    text = await answer.text();
  } catch {
    throw new ApiError(0, { error: "unreachable", message: t("error.unreachable"), hint: t("error.unreachable.hint") });
  }
  const value = parsed(text);
  if (answer.ok && value !== undefined) return value;
  throw new ApiError(answer.status, { ...(value && typeof value === "object" ? value : {}), retryAfter: answer.headers.get("Retry-After") });
}

function parsed(text) {
  try { return read(text); } catch { return undefined; }
}

const part = encodeURIComponent;

// these two need no session
export const health = () => send("GET", "health?check_proxy=1");
export const contracts = () => send("GET", "contracts");
export const activeRuns = () => request("GET", "runs?active=true");
export const run = (id) => request("GET", `runs/${part(id)}`);
export const signOut = () => request("DELETE", "studio-session");
export const launch = (c, inputs) => request("POST", `contracts/${part(c.workflow)}/${part(c.contract)}/run`, { inputs, wait: false });
export const cancel = (id) => request("POST", `runs/${part(id)}/cancel`, {});
export const gallery = (limit, cursor) => request("GET", `gallery?limit=${limit}` + (cursor ? `&cursor=${part(cursor)}` : ""));
export const remove = (id, last) => request("DELETE", `gallery/${part(id)}`, undefined, last ? { keepalive: true } : {});
export const prepareUpload = (file) => request("POST", "uploads/prepare", { filename: file.name, mime_type: file.type || "application/octet-stream", size: file.size });

// preview fetches one preview picture as a Blob, or null when it is gone already.
export async function preview(id, v) {
  try {
    const answer = await fetch(api(`runs/${part(id)}/preview?v=${v}`), { signal: AbortSignal.timeout(TIMEOUT) });
    return answer.ok ? await answer.blob() : null;
  } catch { return null; }
}

// upload sends the bytes and tells how many have left; it ends by itself when signal aborts.
export function upload(file, prepared, onProgress, signal) {
  return new Promise((done, fail) => {
    const xhr = new XMLHttpRequest();
    xhr.open("PUT", new URL(prepared.upload_url, api("")).href);
    for (const [name, value] of Object.entries(prepared.headers ?? {})) xhr.setRequestHeader(name, value);
    xhr.upload.onprogress = (e) => onProgress(e.loaded, e.total || file.size);
    xhr.onload = () => xhr.status < 300 ? done(prepared.file_ref) : fail(new ApiError(xhr.status, parsed(xhr.responseText) ?? {}));
    xhr.onerror = () => fail(new ApiError(0, { error: "unreachable", message: t("error.unreachable") }));
    xhr.onabort = () => fail(new DOMException("stopped", "AbortError"));
    signal.addEventListener("abort", () => xhr.abort());
    xhr.send(file);
  });
}
