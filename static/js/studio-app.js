import { signOut } from "./api.js";
import { environment, mustSignIn } from "./config.js";
import "./contract-picker.js";
import { attr, h, icon, text } from "./dom.js";
import { load, save } from "./drafts.js";
import { StudioElement } from "./element.js";
import { followHost } from "./host-theme.js";
import { onKey } from "./keys.js";
import "./output-gallery.js";
import "./run-bar.js";
import "./run-form.js";
import "./run-queue.js";
import "./run-stage.js";
import "./status-pill.js";
import { percent } from "./pace.js";
import { isRunning } from "./run.js";
import { store } from "./store.js";
import { start } from "./stream.js";
import "./studio-banner.js";
import { item, openMenu } from "./studio-menu.js";
import { keysSheet } from "./studio-sheet.js";
import { noContracts, notRead } from "./studio-solo.js";
import "./studio-toasts.js";
import { t } from "./words.js";

// The page: its bar, tabs and panes, and one message in their place when there is nothing to make.
class StudioApp extends StudioElement {
  static topics = ["view", "runs", "contracts", "health", "link"];

  build() {
    this.shell = this.querySelector(".shell");
    this.panes = this.querySelector(".panes");
    this.embedded = parent !== window;
    this.dataset.frame = this.embedded ? "sidebar" : "page";
    this.dataset.side = load("side", "left");
    document.documentElement.dataset.theme = load("theme", "auto");
    text(this.querySelector(".env"), environment);
    for (const el of this.querySelectorAll("[data-icon]")) el.prepend(icon(el.dataset.icon));
    for (const el of this.querySelectorAll("[data-say]")) { attr(el, "aria-label", t(el.dataset.say)); el.title = t(el.dataset.say); }
    for (const el of this.querySelectorAll('[data-act="menu"]')) el.addEventListener("click", () => this.menu(el));
    this.querySelector('[data-act="keys"]').addEventListener("click", keysSheet);
    this.querySelector(".skip").href = location.pathname + "#make";   // not of the base address
    this.querySelector(".skip").addEventListener("click", (e) => { e.preventDefault(); store.setView("make"); this.querySelector("#make").focus(); });
    this.buildTabs();
    addEventListener("keydown", onKey);
    store.addEventListener("progress", () => this.renderTitle());
    followHost();
    start();
  }
  buildTabs() {
    this.tabs = [...this.querySelectorAll(".tab")];
    this.tabs.forEach((tab, at) => {
      tab.addEventListener("click", () => store.setView(tab.dataset.view));
      tab.addEventListener("keydown", (e) => {
        const by = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
        if (!by) return;
        const next = this.tabs[(at + by + this.tabs.length) % this.tabs.length];
        store.setView(next.dataset.view);
        next.focus();
      });
    });
  }

  render() {
    const n = store.active.length, counter = this.querySelector(".tab .count");
    this.shell.dataset.view = store.view;
    for (const tab of this.tabs) {
      const on = tab.dataset.view === store.view;
      attr(tab, "aria-selected", String(on));
      attr(tab, "tabindex", on ? "0" : "-1");
    }
    text(counter, n ? String(n) : "");
    counter.hidden = !n;
    if (store.wide) this.dataset.wide = "gallery";
    else delete this.dataset.wide;
    this.renderTitle();
    this.renderSolo();
  }
  // renderTitle tells those who look at another page how far it is.
  renderTitle() {
    const run = store.active.find(isRunning), done = run ? percent(run) : null;
    const title = [done === null ? "" : `${done} %`, environment, "Studio"].filter(Boolean).join(" – ");
    if (document.title !== title) document.title = title;
  }
  renderSolo() {
    const solo = store.contracts?.length === 0 ? noContracts() : !store.contracts && store.failure?.status ? notRead(store.failure) : null;
    const key = solo?.textContent ?? "";
    if (key === (this.soloKey ?? "")) return;
    this.soloKey = key;
    this.querySelector(".solo")?.remove();
    this.toggleAttribute("data-solo", solo !== null);
    if (solo) this.panes.append(solo);
  }

  menu(anchor) {
    const root = document.documentElement;
    const themes = ["auto", "light", "dark"].map((name) => h("button", { type: "button", role: "menuitemradio", "aria-checked": String(root.dataset.theme === name), onclick: (e) => {
      root.dataset.theme = name;
      save("theme", name);
      for (const b of e.currentTarget.parentElement.children) attr(b, "aria-checked", String(b === e.currentTarget));
    } }, t("menu." + name)));
    const flip = () => { this.dataset.side = this.dataset.side === "right" ? "left" : "right"; save("side", this.dataset.side); };
    const widen = () => { store.wide = !store.wide; store.change("view"); };
    openMenu(anchor, t("menu"), [
      h("div", { class: "h", "aria-hidden": "true" }, t("menu.look")), h("div", { class: "seg", role: "group", "aria-label": t("menu.look") }, themes),
      h("hr", { class: "wide-only" }),
      item(icon("side"), t("menu.right"), flip, { checked: this.dataset.side === "right", cls: "wide-only" }),
      item(icon("wide"), t("menu.wide"), widen, { checked: store.wide, cls: "wide-only", key: "G" }),
      h("hr"), item(icon("keyb"), t("menu.keys"), keysSheet, { key: "?" }),
      ...(mustSignIn ? [item(icon("lock"), t("menu.out"), () => signOut().catch(() => {}).then(() => location.reload()))] : []),
      ...(this.embedded ? [item(icon("pop"), t("menu.tab"), () => open(location.href, "_blank", "noopener"))] : []),
    ], { role: "menu" });
  }
}

customElements.define("studio-app", StudioApp);
