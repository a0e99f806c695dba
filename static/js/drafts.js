// What the person typed and chose, kept per contract in this browser. Without storage (a strict
// browser, an embedded page) everything works for as long as the page lives.

import { environment } from "./config.js";
import { read, write } from "./json.js";

const memory = new Map();
const name = (key) => `studio:${environment}:${key}`;

export function load(key, otherwise) {
  const full = name(key);
  try {
    const text = memory.get(full) ?? localStorage.getItem(full);
    return text === null ? otherwise : read(text);
  } catch {
    return otherwise;
  }
}

export function save(key, value) {
  const full = name(key), text = write(value);
  memory.set(full, text);
  try { localStorage.setItem(full, text); } catch { /* kept in memory */ }
}
