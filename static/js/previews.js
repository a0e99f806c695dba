// The latest preview of each run as a blob address. One picture a run is fetched at a time; while
// it comes, newer ones replace each other, so a slow line shows fewer pictures, never older ones.

import { preview } from "./api.js";
import { h } from "./dom.js";
import { store } from "./store.js";

const feeds = new Map();   // run → {url, busy, next}
const AFTER = 20_000;      // how long the last picture of a finished run is kept, until its output is there

export const previewOf = (runID) => feeds.get(runID)?.url ?? "";

export function want(runID, v) {
  const feed = feeds.get(runID) ?? { url: "", busy: false, next: null };
  feeds.set(runID, feed);
  feed.next = v;
  if (!feed.busy && !feed.over) load(runID, feed);
}

async function load(runID, feed) {
  feed.busy = true;
  while (feed.next !== null && !feed.over) {
    const v = feed.next;
    feed.next = null;
    const blob = await preview(runID, v);
    if (blob && feeds.get(runID) === feed) swap(feed, blob);
  }
  feed.busy = false;
}

function swap(feed, blob) {
  const old = feed.url;
  feed.url = URL.createObjectURL(blob);
  store.change("progress");
  // the elements that show the old one change in the next frame
  if (old) setTimeout(() => URL.revokeObjectURL(old), 1000);
}

// forget lets the picture go some time after its run is over.
export function forget(runID) {
  const feed = feeds.get(runID);
  if (!feed || feed.over) return;
  feed.over = true;
  setTimeout(() => {
    feeds.delete(runID);
    if (feed.url) URL.revokeObjectURL(feed.url);
  }, AFTER);
}

// developed shows the last preview behind the output of its run until the output can be seen.
export function developed(runID, output) {
  const url = previewOf(runID);
  if (!url || output.complete) return [output];
  const before = h("img", { class: "before", src: url, alt: "" });
  output.decode().catch(() => {}).then(() => before.remove());
  return [before, output];
}
