// One output at large, on the stage and in the viewer: picture, players, text, JSON, file.

import { download } from "./actions.js";
import { h, icon } from "./dom.js";
import { read, write } from "./json.js";
import { extension, kind, name, textOf } from "./item.js";
import { t } from "./words.js";

const LONGEST = 2_000_000;   // letters of a text that is shown; the rest is in the file

// outputElement gives the element that shows the item.
export function outputElement(item) {
  switch (kind(item)) {
    case "image": return picture(item);
    case "video": return h("video", { src: item.url, controls: true, loop: true, playsinline: true, preload: "metadata", "aria-label": name(item) });
    case "audio": return sound(item);
    case "text": case "json": return words(item);
    default: return file(item);
  }
}

function picture(item) {
  const img = h("img", { src: item.url, alt: name(item), width: item.width || null, height: item.height || null, decoding: "async" });
  img.addEventListener("error", () => img.replaceWith(missing()));
  return img;
}

const missing = () => h("div", { class: "empty" }, icon("warn"), h("p", null, t("viewer.nopicture")));

function sound(item) {
  return h("div", { class: "listen" }, icon("audio"), h("b", { class: "cut" }, item.filename ?? name(item)), h("audio", { src: item.url, controls: true, preload: "metadata", "aria-label": name(item) }));
}

function file(item) {
  return h("div", { class: "empty" }, icon(/^(glb|gltf|obj|ply|stl|fbx|usdz)$/.test(extension(item)) ? "cube" : "file"), h("h2", null, item.filename ?? name(item)),
    item.url ? h("button", { type: "button", class: "btn", onclick: () => download(item) }, icon("dl"), t("download")) : null);
}

function words(item) {
  const box = h("pre", { class: kind(item) === "json" ? "words is-code" : "words", tabindex: "0" });
  const own = textOf(item);
  if (own !== null) box.textContent = pretty(item, own);
  else if (item.url) load(item, box);
  return box;
}

async function load(item, box) {
  try {
    const answer = await fetch(item.url);
    if (!answer.ok) throw new Error(answer.statusText);
    box.textContent = pretty(item, (await answer.text()).slice(0, LONGEST));
  } catch {
    box.textContent = t("viewer.notext");
  }
}

// pretty lays out JSON in lines; what is no JSON stays as it came.
export function pretty(item, words) {
  if (kind(item) !== "json") return words;
  try { return write(read(words), 2); } catch { return words; }
}
