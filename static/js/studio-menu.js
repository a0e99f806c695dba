import { h } from "./dom.js";

const GAP = 6, EDGE = 8;

// The one menu of the panel: a popover in the top layer, so that no pane can clip it.
class StudioMenu extends HTMLElement {
  connectedCallback() {
    this.popover = "auto";
    this.addEventListener("toggle", (e) => { if (e.newState === "closed") this.#closed(); });
    this.addEventListener("keydown", (e) => this.#key(e));
    addEventListener("resize", () => this.close());
  }
  get isOpen() { return this.matches(":popover-open"); }

  open(anchor, label, content, options) {
    // a combobox opens its menu anew with each letter; that is the same menu
    const again = this.isOpen && this.anchor === anchor;
    if (this.isOpen && !again) this.hidePopover();
    this.anchor = anchor;
    this.options = options;
    this.setAttribute("role", options.role ?? "dialog");
    this.setAttribute("aria-label", label);
    this.replaceChildren(...content);
    if (!again) this.showPopover();
    this.#place();
    if (!options.keepFocus) (this.querySelector("input, .is-active, .item:not([aria-disabled])") ?? this).focus();
    if (anchor.ariaExpanded !== null) anchor.setAttribute("aria-expanded", "true");
  }
  // close gives the focus back at once: the next key must not go to what is out of sight.
  close() {
    if (!this.isOpen) return;
    const mine = this.contains(document.activeElement);
    this.hidePopover();
    if (mine && !this.options.keepFocus) this.anchor.focus();
  }

  #closed() {
    const { anchor, options } = this;
    if (this.isOpen) return;   // opened again in the meantime
    if (anchor?.ariaExpanded !== null) anchor?.setAttribute("aria-expanded", "false");
    if (!options?.keepFocus && (this.contains(document.activeElement) || document.activeElement === document.body)) anchor?.focus();
    options?.closed?.();
  }
  #place() {
    const a = this.anchor.getBoundingClientRect();
    this.style.setProperty("--w", this.options.wide ? Math.max(a.width, 300) + "px" : "");
    this.style.minInlineSize = this.options.wide ? a.width + "px" : "";
    const { offsetWidth: w, offsetHeight: high } = this, below = a.bottom + GAP;
    const x = Math.max(EDGE, Math.min(a.left, innerWidth - w - EDGE));
    const y = below + high <= innerHeight - EDGE ? below : Math.max(EDGE, a.top - high - GAP);
    this.style.setProperty("--x", x + "px");
    this.style.setProperty("--y", y + "px");
  }
  #key(e) {
    const items = [...this.querySelectorAll(".item")];
    const at = items.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 }[e.key];
    if (to === undefined || e.target.matches("input") || !items.length) return;
    e.preventDefault();
    items[(to + items.length) % items.length].focus();
  }
}

customElements.define("studio-menu", StudioMenu);

// openMenu shows content at the anchor. Options: role, wide (as wide as the anchor), keepFocus (the
// anchor keeps typing), closed (a function).
export function openMenu(anchor, label, content, options = {}) {
  const menu = document.querySelector("studio-menu");
  menu.open(anchor, label, content, options);
  return menu;
}

// item is one line of a menu; it closes the menu and acts.
export function item(icon, words, press, extra = {}) {
  const { checked, cls = "", key } = extra;
  return h("button", {
    type: "button", class: ("item " + cls).trim(), role: checked === undefined ? "menuitem" : "menuitemcheckbox", "aria-checked": checked === undefined ? null : String(checked),
    onclick: (e) => { e.currentTarget.closest("studio-menu").close(); press(); },
  }, icon, h("span", null, words), key ? h("kbd", null, key) : null);
}
