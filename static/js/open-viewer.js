// The viewer is loaded when it is first asked for.

import { store } from "./store.js";

// openViewer shows the item at large and leaves it on the stage; opener gets the focus back.
export async function openViewer(id) {
  const opener = document.activeElement;
  await import("./output-viewer.js");
  store.look({ item: String(id) });
  document.querySelector("output-viewer").open(String(id), opener);
}
