import { version } from "./config.js";
import { attr, h, text } from "./dom.js";
import { StudioElement } from "./element.js";
import { atSeconds } from "./format.js";
import { store } from "./store.js";
import { openMenu } from "./studio-menu.js";
import { t } from "./words.js";

class StatusPill extends StudioElement {
  static topics = ["health", "link"];

  build() {
    this.dot = h("span", { class: "dot" });
    this.words = h("span", { class: "txt" });
    this.button = h("button", { type: "button", class: "pill", "aria-haspopup": "dialog", "aria-expanded": "false", onclick: () => this.open() }, this.dot, this.words);
    this.append(this.button);
  }
  get state() {
    if (store.link.state === "lost") return "lost";
    if (store.health === null) return "loading";
    return store.away ? "away" : "ready";
  }
  render() {
    const { state } = this;
    this.dot.className = "dot" + { lost: " is-busy", loading: " is-busy", away: " is-bad", ready: "" }[state];
    text(this.words, t("pill." + state));
    attr(this.button, "aria-label", t("pill." + state));
  }
  open() {
    const { comfyui = {}, version: own } = store.health ?? {};
    const rows = [
      ["pill.comfyui", [t("pill." + this.state), comfyui.version].filter(Boolean).join(", ")],
      comfyui.error ? ["pill.error", comfyui.error] : null,
      ["pill.studio", own || version],
      ["pill.seen", store.seen ? atSeconds(store.seen) : ""],
    ].filter((r) => r?.[1]);
    openMenu(this.button, t("pill.status"), [h("dl", { class: "kv facts" }, rows.map(([k, v]) => [h("dt", null, t(k)), h("dd", { class: "num" }, v)]))]);
  }
}

customElements.define("status-pill", StatusPill);
