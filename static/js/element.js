// The base of the custom elements: built once, rendered again when one of its topics changes.

import { store } from "./store.js";

export class StudioElement extends HTMLElement {
  // topics names what this element renders from.
  static topics = [];
  #stop;

  connectedCallback() {
    if (!this.isBuilt) { this.isBuilt = true; this.build(); }
    this.#stop = new AbortController();
    for (const topic of this.constructor.topics) store.addEventListener(topic, () => this.render(), { signal: this.#stop.signal });
    this.render();
  }
  disconnectedCallback() { this.#stop.abort(); }

  build() {}
  render() {}
}
