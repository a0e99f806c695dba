import { upload, prepareUpload } from "./api.js";
import { attr, h, icon, iconButton, part, text } from "./dom.js";
import { Field, typed } from "./field.js";
import { size } from "./format.js";
import { form } from "./form.js";
import { isEmpty } from "./value.js";
import { t } from "./words.js";

const ACCEPT = { image: "image/*", video: "video/*", audio: "audio/*", file: "" };
const ICONS = { image: "image", video: "video", audio: "audio", file: "file" };

// A media field holds a name that ComfyUI knows (text) or the reference of an upload.
class FieldMedia extends Field {
  get target() { return this.control; }
  get what() { return this.input.name; }

  parts() {
    this.picker = h("input", { type: "file", accept: ACCEPT[this.input.type], hidden: true, onchange: () => { const [f] = this.picker.files; this.picker.value = ""; if (f) this.send(f); } });
    this.naming = h("input", { class: "in", type: "text", hidden: true, autocomplete: "off", placeholder: t("media.name.place"), "aria-label": t("media.name.label", { name: this.name }), onchange: () => this.named(), onblur: () => this.named() });
    this.control = h("div", { class: "drop", role: "group", tabindex: "-1", "aria-labelledby": this.controlID + "-l" }, icon("ul"), h("span", null, t("media.drop")),
      h("div", { class: "row" },
        h("button", { type: "button", class: "btn is-small", onclick: () => this.picker.click() }, t("media.choose")),
        h("button", { type: "button", class: "btn is-small is-quiet", onclick: () => this.askName() }, t("media.name"))));
    this.card = this.buildCard();
    for (const zone of [this.control, this.card]) this.catchDrops(zone);
    this.addEventListener("paste", (e) => { const [f] = e.clipboardData.files; if (f) { e.preventDefault(); this.send(f); } });
    return [this.label(true, t(this.input.required ? "field.required" : "field.optional")), this.picker, this.control, this.naming, this.card];
  }

  buildCard() {
    this.thumb = h("span", { class: "thumb" }, icon(ICONS[this.input.type]));
    this.heading = h("div", { class: "cut" });
    this.sub = h("div", { class: "help cut num" });
    this.swap = iconButton("again", t("media.replace"), () => this.picker.click(), "is-small opt");
    this.drop = iconButton("x", "", () => (this.sending ? this.sending.abort() : this.clear()), "is-small");
    this.thread = h("div", { class: "thread", role: "progressbar", "aria-valuemin": "0", "aria-valuemax": "100" });
    return h("div", { class: "media" }, this.thumb, h("div", { class: "grow" }, this.heading, this.sub), h("div", { class: "tools" }, this.swap, this.drop), this.thread);
  }

  catchDrops(zone) {
    zone.addEventListener("dragover", (e) => { e.preventDefault(); zone.classList.add("is-over"); });
    zone.addEventListener("dragleave", () => zone.classList.remove("is-over"));
    zone.addEventListener("drop", (e) => {
      e.preventDefault();
      zone.classList.remove("is-over");
      const [f] = e.dataTransfer.files;
      if (f) this.send(f);
    });
  }

  askName() { this.naming.hidden = false; this.naming.select(); }
  named() {
    const name = this.naming.value.trim();
    this.naming.hidden = true;
    if (name) { this.picture(""); this.value = name; }
  }
  clear() {
    this.picture("");
    this.value = "";
    this.look();
  }
  look() { (this.control.hidden ? this.drop : this.control.querySelector("button")).focus(); }

  async send(file) {
    this.sending?.abort();
    const stop = this.sending = new AbortController();
    this.file = file;
    this.fault("");
    form.uploading(this.what, file);
    this.progress(0, file.size);
    try {
      const ref = await upload(file, await prepareUpload(file), (done, all) => this.progress(done, all), stop.signal);
      if (stop.signal.aborted) return;
      this.picture(file.type.startsWith("image/") ? URL.createObjectURL(file) : "");
      this.value = ref;
    } catch (e) {
      if (!stop.signal.aborted) this.fault(uploadFault(e, file));
      if (e.status === 404) this.askName();
    } finally {
      if (this.sending === stop) { this.sending = null; form.uploading(this.what, null); }
    }
  }
  fault(words) {
    if (words) form.faults[this.what] = words;
    else delete form.faults[this.what];
  }
  progress(done, all) {
    const share = all ? done / all : 0;
    part(this.thread, share);
    attr(this.thread, "aria-valuenow", Math.round(share * 100));
    text(this.sub, t("media.progress", { percent: Math.round(share * 100), size: size(all) }));
  }
  // picture shows a local picture of what was chosen; it is not kept over a reload.
  picture(url) {
    if (this.url) URL.revokeObjectURL(this.url);
    this.url = url;
    const img = url ? h("img", { class: "thumb", src: url, alt: "" }) : h("span", { class: "thumb" }, icon(ICONS[this.input.type]));
    if (url) img.addEventListener("error", () => this.picture(""));
    this.thumb.replaceWith(img);
    this.thumb = img;
  }

  show(value) {
    const name = this.sending ? this.file.name : nameOf(value), full = this.sending || !isEmpty(value);
    this.control.hidden = !!full;
    this.card.hidden = !full;
    if (!full) return;
    this.naming.hidden = true;
    text(this.heading, name);
    this.thread.hidden = !this.sending;
    this.swap.hidden = !!this.sending;
    attr(this.thread, "aria-label", t("media.progress.label", { file: name }));
    const label = this.sending ? t("media.stop") : t("media.remove", { file: name });
    attr(this.drop, "aria-label", label);
    attr(this.drop, "title", label);
    if (!this.sending) text(this.sub, typeof value === "string" ? t("media.given") : size(Number(value.size ?? this.file?.size ?? 0)));
    typed(this.naming, typeof value === "string" ? value : "");
  }
}

function nameOf(value) {
  return typeof value === "string" ? value : String(value?.filename ?? value?.name ?? "");
}

function uploadFault(e, file) {
  if (e.status === 404) return t("media.names");
  if (e.status === 413) return t("media.large", { file: file.name, size: size(file.size) });
  return t("media.failed", { file: file.name, message: e.message });
}

customElements.define("field-media", FieldMedia);
