// What a field holds and what is sent. A numeric field holds text exactly as typed, a choice holds
// the contract's own value, a media field a file name or a reference to an upload.

import { NumberText, exactNumber, write } from "./json.js";
import { t } from "./words.js";

const WHOLE = /^[+-]?\d+$/;
const DECIMAL = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/;

export const isNumeric = (input) => input.type === "integer" || input.type === "number";
export const isMedia = (input) => ["image", "video", "audio", "file"].includes(input.type);
export const isSeed = (input) => input.type === "integer" && (input.ui_control === "seed" || /(^|_)seed$/i.test(input.name));
export const title = (of) => of.display_name || of.name;

// held turns a value of the server (a default, the inputs of an earlier run) into what the field holds.
export function held(input, value) {
  if (value === null || value === undefined) return input.type === "boolean" ? false : "";
  if (isNumeric(input)) return String(value);
  if (input.type === "boolean") return value === true || value === "true";
  if (input.type === "string") return typeof value === "string" ? value : write(value);
  return value;
}

export const initial = (input) => held(input, input.default);
export const same = (a, b) => write(a) === write(b);
export const isEmpty = (value) => value === "" || value === null || value === undefined;

// sent gives the JSON value of a valid field, undefined when it is left out.
export function sent(input, value) {
  if (isNumeric(input)) return isEmpty(value.trim()) ? undefined : jsonNumber(value.trim());
  if (isEmpty(value)) return input.type === "string" && !input.required ? "" : undefined;
  return value;
}

// A typed number may be written as JSON would not ("+5", "007", ".5"); its digits stay.
export function jsonNumber(text) {
  const [, sign, whole, rest] = /^([+-]?)(\d*)(.*)$/.exec(text);
  const proper = (sign === "-" ? "-" : "") + (whole.replace(/^0+(?=\d)/, "") || "0") + rest.replace(/\.(?=$|[eE])/, "");
  return exactNumber(proper);
}

// fault says in words why the value cannot be sent, "" when it can.
export function fault(input, value) {
  const empty = isEmpty(typeof value === "string" ? value.trim() : value);
  if (empty) return input.required && input.type !== "boolean" ? t("field.needed") : "";
  if (isNumeric(input)) return numberFault(input, value.trim());
  if (input.type === "enum" && !(input.enum_values ?? []).some((v) => same(v, value))) return t("field.gone", { value: String(value) });
  return "";
}

function numberFault(input, text) {
  if (input.type === "integer" && !WHOLE.test(text)) return t("field.integer");
  if (!DECIMAL.test(text)) return t("field.number");
  const n = jsonNumber(text);
  if (has(input.max) && compare(n, input.max) > 0) return t("field.most", { max: String(input.max) });
  if (has(input.min) && compare(n, input.min) < 0) return t("field.least", { min: String(input.min) });
  return "";
}

export const has = (limit) => limit !== null && limit !== undefined && limit !== "";

// compare orders numbers, BigInts and number texts; exact for integers, as doubles for the rest.
function compare(a, b) {
  const [x, y] = [a, b].map((v) => (v instanceof NumberText ? Number(v.text) : v));
  return x > y ? 1 : x < y ? -1 : 0;
}

const SEED_DIGITS = 10n ** 10n;   // enough never to meet one twice, short enough to read out

// randomSeed draws a seed within the limits of its input.
export function randomSeed(input) {
  const low = has(input.min) ? BigInt(String(input.min)) : 0n;
  const high = has(input.max) ? BigInt(String(input.max)) : SEED_DIGITS;
  const [from, width] = low < 0n && high >= 0n ? [0n, high + 1n] : [low, high - low + 1n];
  const [a] = crypto.getRandomValues(new BigUint64Array(1));
  return String(from + (a % (width < SEED_DIGITS ? width : SEED_DIGITS)));
}

// nextSeed is one more, from the lowest again after the highest.
export function nextSeed(input, text) {
  if (!WHOLE.test(text)) return text;
  const next = BigInt(text) + 1n;
  return has(input.max) && next > BigInt(String(input.max)) ? String(input.min ?? 0) : String(next);
}
