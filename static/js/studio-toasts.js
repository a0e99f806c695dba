import { h, icon, iconButton, part } from "./dom.js";
import { t } from "./words.js";

const STAY = 5000, STAY_UNDO = 10_000, TICK = 100;

// Short notices. One with a button counts down along its thread and waits while it is looked at.
class StudioToasts extends HTMLElement {
  connectedCallback() {
    this.popover = "manual";
    this.home ??= this.parentElement;
  }

  // A modal dialog makes all around it inert; notices move into it, and home again when it closes.
  #settle() {
    const dialog = [...document.querySelectorAll("dialog[open]")].at(-1);
    if (this.parentElement !== (dialog ?? this.home)) (dialog ?? this.home).append(this);
    dialog?.addEventListener("close", () => { this.home.append(this); if (this.childElementCount) this.showPopover(); }, { once: true });
    if (this.matches(":popover-open")) this.hidePopover();
    this.showPopover();
  }

  add(toast) {
    const close = () => { clearInterval(toast.timer); if (!el.isConnected) return; el.remove(); if (!this.childElementCount) this.hidePopover(); };
    const end = () => { close(); toast.gone?.(); };
    const press = () => { close(); toast.press(); };
    const thread = h("span", { class: "thread", hidden: !toast.gone });
    const el = h("div", { class: toast.bad ? "toast is-bad" : "toast" }, icon(toast.icon),
      h("div", null, toast.text ? h("b", null, toast.title) : toast.title, toast.text ? h("p", { class: "cut-2" }, toast.text) : null),
      toast.button ? h("button", { type: "button", class: "btn is-small", onclick: press }, toast.button) : h("span"),
      iconButton("x", t("close"), end, "is-small"), thread);
    this.append(el);
    this.#settle();
    this.#count(el, toast, thread, end);
  }

  // Bad news and questions stay until closed; the rest goes by itself.
  #count(el, toast, thread, end) {
    if (toast.bad || (toast.button && !toast.gone)) return;
    const all = toast.gone ? STAY_UNDO : STAY;
    let left = all;
    toast.timer = setInterval(() => {
      if (el.matches(":hover, :focus-within")) return;
      left -= TICK;
      part(thread, left / all);
      if (left <= 0) end();
    }, TICK);
  }
}

customElements.define("studio-toasts", StudioToasts);

// toast shows a notice: icon, title, text, bad, button and press, and gone, which runs when it goes
// without the button having been pressed.
export function toast(notice) {
  document.querySelector("studio-toasts").add(notice);
  return notice;
}
