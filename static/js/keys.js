// Keys that act anywhere. Single letters rest while a field has the focus.

import { cancelRunning, download, remove, reuse } from "./actions.js";
import { store } from "./store.js";
import { keysSheet } from "./studio-sheet.js";

const VIEWS = { 1: "make", 2: "live", 3: "gallery" };

export function onKey(e) {
  if (e.defaultPrevented || document.querySelector("dialog[open]")) return;
  if (e.ctrlKey || e.metaKey) return withControl(e);
  if (e.altKey || e.target.matches("input, textarea, select, [contenteditable]") || document.querySelector("studio-menu:popover-open")) return;
  const deed = single(e.key);
  if (!deed) return;
  e.preventDefault();
  deed();
}

function withControl(e) {
  const deed = { Enter: () => document.querySelector("run-bar").run(), ".": cancelRunning }[e.key];
  if (!deed) return;
  e.preventDefault();
  deed();
}

function single(key) {
  if (VIEWS[key]) return () => go(VIEWS[key]);
  if (key === "/") return () => go("make", () => document.querySelector(".picker-btn").click());
  if (key === "?") return keysSheet;
  if (key === "g" || key === "G") return () => { store.wide = !store.wide; store.change("view"); };
  const { item } = store.onStage;
  if (!item) return undefined;
  return { r: () => reuse(item), d: item.url && (() => download(item)), Delete: () => remove(item) }[key.length === 1 ? key.toLowerCase() : key];
}

// go opens a part of the page; what follows has to wait until it is shown.
function go(view, then = () => document.getElementById(view).focus({ preventScroll: true })) {
  if (view === "live") store.wide = false;
  store.setView(view);
  requestAnimationFrame(then);
}
