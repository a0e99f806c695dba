// The latest preview of each run as a blob address. One picture a run is fetched at a time; while
// it comes, newer ones replace each other, so a slow line shows fewer pictures, never older ones.

import { preview } from "./api.js";
import { store } from "./store.js";

const feeds = new Map();   // run → {url, busy, next}

export const previewOf = (runID) => feeds.get(runID)?.url ?? "";

export function want(runID, v) {
  const feed = feeds.get(runID) ?? { url: "", busy: false, next: null };
  feeds.set(runID, feed);
  feed.next = v;
  if (!feed.busy) load(runID, feed);
}

async function load(runID, feed) {
  feed.busy = true;
  while (feed.next !== null && feeds.get(runID) === feed) {
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

// forget lets the picture go when its run is over.
export function forget(runID) {
  const feed = feeds.get(runID);
  if (!feed) return;
  feeds.delete(runID);
  if (feed.url) setTimeout(() => URL.revokeObjectURL(feed.url), 1000);
}
