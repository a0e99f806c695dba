import { h, icon, iconButton } from "./dom.js";
import { store } from "./store.js";
import { t } from "./words.js";

// sheet opens a dialog over the page, and gives it; it is gone when it closes.
export function sheet(title, body, footer = []) {
  const dialog = h("dialog", { class: "sheet", "aria-label": title, tabindex: "-1", onclose: () => dialog.remove(), onclick: (e) => { if (e.target === dialog) dialog.close(); } },
    h("header", null, h("h2", null, title), iconButton("x", t("close.esc"), () => dialog.close())),
    h("div", { class: "in-body" }, body),
    footer.length ? h("footer", null, footer) : h("span"));
  document.querySelector("studio-app .layer").append(dialog);
  dialog.showModal();
  dialog.focus();   // on itself, not on its first button
  return dialog;
}

const mod = /Mac|iP(hone|ad)/.test(navigator.platform) ? "⌘" : "Ctrl";

const KEYS = [
  ["keys.anywhere", [["keys.run", mod, "↵"], ["keys.cancel", mod, "."], ["keys.find", "/"], ["keys.places", "1", "2", "3"], ["keys.list", "?"]]],
  ["keys.gallery", [["keys.move", "←", "↑", "→", "↓"], ["keys.open", "↵"], ["keys.ends", "Home", "End"], ["keys.wide", "G"]]],
  ["keys.output", [["reuse", "R"], ["download", "D"], ["delete", "Del"]]],
  ["keys.viewer", [["keys.zoom", "+", "−"], ["keys.fit", "0", "1"], ["keys.sides", "←", "→"], ["keys.panel", "I"], ["keys.close", "Esc"]]],
];

export function keysSheet() {
  const line = ([words, ...keys]) => h("li", null, h("span", null, t(words)), h("span", null, keys.map((k) => h("kbd", null, k))));
  const part = ([title, lines]) => h("section", null, h("h3", null, t(title)), h("ul", null, lines.map(line)));
  sheet(t("menu.keys"), h("div", { class: "keys" }, KEYS.map(part)), [h("span", { class: "help" }, t("keys.hint"))]);
}

// faultsSheet lists what is wrong in the environment; only those of one contract when given.
export function faultsSheet(faults, copy) {
  const all = faults.map(faultWords).join("\n\n");
  sheet(t("broken.title"), faults.map(faultCard), [h("button", { type: "button", class: "btn", onclick: () => copy(all) }, icon("copy"), t("copy.message"))]);
}

const place = (f) => (f.line ? t("broken.where", { file: f.file, line: f.line }) : f.file ?? "");
const faultWords = (f) => [place(f) + (f.key ? `, ${f.key}` : ""), f.message, f.hint].filter(Boolean).join("\n");

export function faultCard(f) {
  return h("article", { class: "way" },
    h("h3", null, f.workflow ? [f.workflow, f.contract].filter(Boolean).join(" / ") : place(f)),
    h("p", null, f.message),
    f.hint ? h("p", null, f.hint) : null,
    h("p", { class: "mono faint" }, [f.workflow ? place(f) : "", f.key].filter(Boolean).join(" · ")));
}

export const manifestFaults = () => store.health?.manifest?.faults ?? [];
