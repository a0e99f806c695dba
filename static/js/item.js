// Reading a gallery item: its kind, its name and its words.

import { write } from "./json.js";
import { store } from "./store.js";

const LENGTH = 60, WHOLE = 36;   // letters of a name, and of a text short enough to be one

export const extension = (item) => /\.([A-Za-z0-9]{1,6})$/.exec(item.filename ?? "")?.[1].toLowerCase() ?? "";

// kind is image, video, audio, text, json or file.
export function kind(item) {
  if (item.type === "image" || item.type === "video" || item.type === "audio") return item.type;
  if (typeof item.artifact?.text === "string" && extension(item) !== "json") return "text";
  if (["txt", "md", "srt", "vtt", "csv"].includes(extension(item))) return "text";
  return extension(item) && extension(item) !== "json" ? "file" : "json";
}

// textOf gives the words or the JSON that came with the item; null when they are in the file only.
export function textOf(item) {
  const a = item.artifact;
  if (typeof a?.text === "string") return a.text;
  if (item.url || !a) return null;
  const value = a.value ?? a.json ?? a.data ?? a;
  return typeof value === "string" ? value : write(value, 2);
}

export const contractOf = (item) => store.contract(`${item.contractWorkflow}/${item.contractName}`);
export const contractName = (item) => contractOf(item)?.display_name || item.contractName || item.contractWorkflow || "";

// name is the beginning of the first text among the inputs, else the contract's name.
export function name(item) {
  const inputs = item.inputs ?? {};
  const order = contractOf(item)?.inputs.filter((i) => i.type === "string").map((i) => i.name) ?? Object.keys(inputs);
  const words = order.map((k) => inputs[k]).find((v) => typeof v === "string" && v.trim());
  if (!words) return contractName(item);
  const [first] = words.trim().split("\n");
  const line = first.length <= WHOLE ? first : first.split(/[,.;]\s/)[0];
  return line.length <= LENGTH ? line : line.slice(0, LENGTH).replace(/\s+\S*$/, "") + "…";
}

// matches tells whether every word of the search is somewhere in what made the item.
export function matches(item, search) {
  const hay = [contractName(item), item.filename, item.outputName, write(item.inputs ?? {})].join("\n").toLocaleLowerCase();
  return search.toLocaleLowerCase().split(/\s+/).every((w) => hay.includes(w));
}
