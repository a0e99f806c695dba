import { copy } from "./actions.js";
import { h, icon, text } from "./dom.js";
import { StudioElement } from "./element.js";
import { store } from "./store.js";
import { tryNow } from "./stream.js";
import { faultsSheet, manifestFaults } from "./studio-sheet.js";
import { t } from "./words.js";

// At most one state of the whole panel, the worst, with its way out.
class StudioBanner extends StudioElement {
  static topics = ["health", "link", "clock", "contracts"];

  render() {
    const banner = this.worst();
    const key = banner ? banner.bold : "";
    if (key !== this.key) {
      this.key = key;
      this.replaceChildren(...(banner ? [this.make(banner)] : []));
    }
    if (banner) text(this.more, banner.more);
  }
  make({ tone, sign, bold, button, press }) {
    this.more = h("span");
    return h("div", { class: "banner is-" + tone, role: tone === "bad" ? "alert" : "status" }, sign,
      h("p", null, h("b", null, bold), " ", this.more),
      h("button", { type: "button", class: "btn is-small", onclick: press }, button));
  }
  worst() {
    if (store.link.state === "lost") return this.lost();
    if (store.away) return { tone: "warn", sign: icon("plug"), bold: t("away"), more: t("away.more"), button: t("try"), press: tryNow };
    const [fault] = manifestFaults().filter((f) => !f.workflow);
    return fault && store.contracts?.length ? this.broken(fault) : null;
  }
  lost() {
    const seconds = Math.ceil((store.link.retryAt - Date.now()) / 1000);
    return { tone: "warn", sign: h("span", { class: "dot is-busy" }), bold: t("link.lost"), more: seconds > 0 ? t("link.lost.more", { seconds }) : t("link.lost.now"), button: t("try"), press: tryNow };
  }
  broken(fault) {
    const bold = t(fault.line ? "broken" : "broken.file", fault);
    return { tone: "bad", sign: icon("warn"), bold, more: t("broken.more"), button: t("show"), press: () => faultsSheet(manifestFaults(), copy) };
  }
}

customElements.define("studio-banner", StudioBanner);
