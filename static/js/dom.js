// Building and keeping elements.

// h makes an element: props that start with "on" are listeners, "class" and the rest are attributes
// (true is an empty one; false, null and undefined leave it out).
export function h(tag, props, ...children) {
  const el = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (name.startsWith("on")) el.addEventListener(name.slice(2), value);
    else attr(el, name, value);
  }
  el.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
  return el;
}

export function attr(el, name, value) {
  if (value === false || value === null || value === undefined) el.removeAttribute(name);
  else if (el.getAttribute(name) !== String(value === true ? "" : value)) el.setAttribute(name, value === true ? "" : value);
}

// text sets words only when they differ, so that a selection or a reader is not disturbed.
export function text(el, words) {
  if (el.textContent !== words) el.textContent = words;
}

// icon draws a symbol of the sheet in the page. The shapes are copied, since a reference would be
// resolved against the base address.
export function icon(name) {
  const symbol = document.getElementById("i-" + name);
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", "i");
  svg.setAttribute("aria-hidden", "true");
  svg.setAttribute("viewBox", symbol.getAttribute("viewBox"));
  svg.append(...symbol.cloneNode(true).childNodes);
  return svg;
}

// iconButton is a square button that shows an icon and says label.
export function iconButton(name, label, onclick, cls = "") {
  return h("button", { type: "button", class: ("ib " + cls).trim(), "aria-label": label, title: label, onclick }, icon(name));
}

// part sets the filled part of a thread or a slider, 0 to 1.
export function part(el, share) {
  el.style.setProperty("--p", (Math.min(1, Math.max(0, share || 0)) * 100).toFixed(1) + "%");
}

// keyed makes the children of parent those of list: it keeps the element of each key, makes new
// ones by make(item), brings them up to date by update(el, item) and puts them in order.
export function keyed(parent, list, key, make, update) {
  const wanted = new Set(list.map((item) => String(key(item)))), old = new Map();
  // what goes, goes first: then nothing else moves, and the focus stays where it is
  for (const el of [...parent.children]) {
    if (wanted.has(el.dataset.key)) old.set(el.dataset.key, el);
    else el.remove();
  }
  let at = parent.firstElementChild;
  for (const item of list) {
    const k = String(key(item));
    let el = old.get(k);
    if (!el) { el = make(item); el.dataset.key = k; }
    update(el, item);
    if (el === at) at = at.nextElementSibling;
    else parent.insertBefore(el, at);
  }
}

// unique gives an id that no other element of the page has.
export const unique = (() => { let n = 0; return (name) => `${name}-${++n}`; })();
