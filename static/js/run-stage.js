import { again, cancel, copy, download, remove, reuse } from "./actions.js";
import { attr, h, icon, iconButton, part, text } from "./dom.js";
import { StudioElement } from "./element.js";
import { atSeconds, span, time } from "./format.js";
import { contractName, kind, name } from "./item.js";
import { openViewer } from "./open-viewer.js";
import { outputElement } from "./output-show.js";
import { developed, previewOf } from "./previews.js";
import { facts, percent, share } from "./pace.js";
import { fault, isActive, isRunning, isStopping, nodeName, seedOf, since, took } from "./run.js";
import { store } from "./store.js";
import { t } from "./words.js";

const WIDE = 1.5;   // the shape of a stage that does not know its picture yet

// What is being made, or what was made last, or what the person chose.
class RunStage extends StudioElement {
  static topics = ["current", "show", "runs", "items", "progress", "clock", "contracts"];

  render() {
    const { run, item } = store.onStage;
    const live = run && isActive(run);
    const failed = run && !live ? { run } : item?.status === "error" ? { run: store.runs.get(item.run_id), item } : null;
    const key = live ? `live ${run.run_id}` : failed ? `fault ${run?.run_id ?? item.id} ${saying(failed)} ${run ? store.nameOf(run) : contractName(item)}` : item ? `item ${item.id} ${item.url} ${item.artifact !== undefined} ${contractName(item)}` : store.galleryRead && store.contracts ? `empty ${store.current}` : "";
    if (key !== this.key) {
      this.key = key;
      if (live) this.buildLive(run);
      else if (failed) this.buildFault(failed.run, failed.item);
      else if (item) this.buildOutput(item);
      else this.buildEmpty(key);
    }
    if (live) this.renderLive(run);
    if (item && !failed) this.renderOuts(item);
    this.renderFollow(live);
  }

  put(frame, under, acts = []) {
    this.outs = h("div", { class: "outs", role: "group", "aria-label": t("stage.outputs"), hidden: true });
    this.follow = h("button", { type: "button", class: "btn is-small follow", hidden: true, onclick: () => store.look({ follow: true }) }, icon("live"), h("span", null, t("stage.follow")));
    const line = h("div", { class: "under" }, h("div", { class: "grow" }, under), h("div", { class: "acts", role: "toolbar", "aria-label": t("stage.actions") }, acts));
    this.replaceChildren(this.follow, h("div", { class: "frame" }, frame), this.outs, ...(under.length ? [line] : []));
  }
  renderFollow(live) {
    if (!this.follow) return;
    this.follow.hidden = !!live || !store.active.some(isRunning);
  }
  // buildEmpty keeps a place for the first output; what stands there stays until the gallery is read.
  buildEmpty(key) {
    if (!key) return;
    const contract = store.contract(), type = contract?.outputs?.[0]?.type, what = ["image", "video", "audio"].includes(type) ? type : "other";
    const run = h("button", { type: "button", class: "btn is-main narrow-only", onclick: () => document.querySelector("run-bar").run() }, icon("play"), t("run"));
    this.put(h("figure", { class: "place" }, h("div", { class: "empty" }, icon(what === "other" ? "text" : what), h("h2", null, t("stage.empty." + what)), h("p", null, t("stage.empty.text")), run)), contract ? [h("div", { class: "title cut" }, contract.display_name || contract.contract), h("div", { class: "sub cut" }, contract.description ?? "")] : []);
  }

  // ── a running run ──
  buildLive(run) {
    const label = store.nameOf(run);
    this.pic = h("img", { alt: t("stage.preview", { name: label }), hidden: true });
    this.big = h("span", { class: "big num" });
    this.node = h("b", { class: "cut" });
    this.facts = h("span", { class: "sub num" });
    this.stop = h("button", { type: "button", class: "btn is-small", "aria-label": t("stage.cancel.of", { name: label }), onclick: () => cancel(store.runs.get(run.run_id)) }, icon("x"), h("span", { class: "txt" }, t("stage.cancel")));
    this.thread = h("span", { class: "thread", role: "progressbar", "aria-label": label, "aria-valuemin": "0", "aria-valuemax": "100" });
    this.figure = h("figure", { class: "is-live" }, this.pic, h("figcaption", { class: "meter" }, this.big, h("span", { class: "grow what" }, this.node, h("br"), this.facts), this.stop, this.thread));
    this.liveSub = h("div", { class: "sub cut num" });
    this.heading = h("div", { class: "title cut" });
    this.put(this.figure, [this.heading, this.liveSub], [iconButton("reuse", t("reuse.key"), () => reuse(store.runs.get(run.run_id)))]);
    shape(this.figure, Number(run.inputs?.width) / Number(run.inputs?.height));
    this.pic.addEventListener("load", () => shape(this.figure, this.pic.naturalWidth / this.pic.naturalHeight));
  }
  renderLive(run) {
    const done = percent(run), url = previewOf(run.run_id), seed = seedOf(run.inputs);
    this.pic.hidden = !url;
    if (url) attr(this.pic, "src", url);
    if (done === null) this.big.replaceChildren();
    else if (this.big.dataset.n !== String(done)) { this.big.dataset.n = done; this.big.replaceChildren(String(done), h("small", null, "%")); }
    text(this.node, isStopping(run) ? t("state.stopping") : isRunning(run) ? nodeName(run) : t("state.waiting"));
    text(this.facts, capital(facts(run, Date.now()).join(" · ")));
    text(this.heading, store.nameOf(run));
    this.stop.disabled = isStopping(run);
    this.thread.classList.toggle("is-wait", done === null);
    part(this.thread, share(run));
    attr(this.thread, "aria-valuenow", done);
    const began = since(run);
    text(this.liveSub, [seed && t("queue.seed", { seed }), Number.isNaN(began) ? "" : t("stage.started", { time: atSeconds(began) })].filter(Boolean).join(" · "));
  }

  // ── an output ──
  buildOutput(item) {
    const shown = outputElement(item), isPicture = kind(item) === "image" || kind(item) === "video";
    const frame = isPicture ? h("figure", null, kind(item) === "image" ? h("button", { type: "button", class: "zoomable", "aria-label": t("open.large", { name: name(item) }), onclick: () => openViewer(item.id) }, developed(item.run_id, shown)) : shown) : shown;
    const run = store.runs.get(item.run_id), seed = seedOf(item.inputs), ms = run ? took(run) : NaN;
    const sub = [contractName(item), item.width ? `${item.width} × ${item.height}` : "", seed && t("queue.seed", { seed }), ms > 0 ? span(ms) : atSeconds(time(item.createdAt))].filter(Boolean).join(" · ");
    this.put(frame, [h("div", { class: "title cut" }, name(item)), h("div", { class: "sub cut num" }, sub)], [
      iconButton("reuse", t("reuse.key"), () => reuse(item)),
      iconButton("expand", t("open.large", { name: name(item) }), () => openViewer(item.id)),
      item.url ? iconButton("dl", t("download.key"), () => download(item)) : null,
      iconButton("trash", t("delete.key"), () => remove(item), "is-bad"),
    ].filter(Boolean));
    if (!isPicture) return;
    shape(frame, item.width / item.height);
    shown.addEventListener(shown.matches("video") ? "loadedmetadata" : "load", () => shape(frame, (shown.naturalWidth || shown.videoWidth) / (shown.naturalHeight || shown.videoHeight)));
  }
  renderOuts(item) {
    const all = store.outputsOf(item.run_id), key = all.map((i) => i.id).join() + item.id;
    this.outs.hidden = all.length < 2;
    if (this.outs.hidden || this.outs.dataset.shown === key) return;
    this.outs.dataset.shown = key;
    this.outs.replaceChildren(...all.map((i, at) => h("button", { type: "button", "aria-pressed": String(i.id === item.id), "aria-label": t("stage.output", { n: at + 1, total: all.length }), onclick: () => store.look({ item: String(i.id) }) },
      kind(i) === "image" ? h("img", { src: i.url, alt: "", decoding: "async" }) : icon({ video: "video", audio: "audio", text: "text", json: "json" }[kind(i)] ?? "file"))));
  }

  // ── a failed run ──
  buildFault(run, item) {
    const f = fault(run, item), of = run?.inputs ? run : item, ms = run ? took(run) : NaN;
    const label = run ? store.nameOf(run) : contractName(item), seed = seedOf(of?.inputs);
    const which = run ?? { workflow: item.contractWorkflow, contract: item.contractName, run_id: item.run_id };
    const gone = item ?? store.faultsOf(run.run_id)[0];
    const report = [f.title, f.text, f.node && `${t("fault.where.node")}: ${f.node}`, f.details, `run ${run?.run_id ?? item.run_id}`].filter(Boolean).join("\n");
    const where = [f.node && h("span", null, t("fault.where.node"), " ", h("b", null, f.node)), ms >= 100 && h("span", null, t("fault.where.after"), " ", h("b", { class: "num" }, span(ms)))].filter(Boolean);
    const card = h("article", { class: "fault", "aria-labelledby": "fault-title" },
      h("header", null, icon("warn"), h("h2", { id: "fault-title" }, f.title), h("p", null, [f.text, f.hint].filter(Boolean).join(" "))),
      where.length ? h("div", { class: "where" }, where) : null,
      h("div", { class: "do" },
        h("button", { type: "button", class: "btn is-main", onclick: () => again(which) }, t("again")),
        h("button", { type: "button", class: "btn", onclick: () => reuse(of) }, t("reuse")),
        h("button", { type: "button", class: "btn is-quiet", onclick: () => copy(report) }, icon("copy"), t("report")),
        gone ? iconButton("trash", t("delete.key"), () => remove(gone), "is-bad") : null),
      f.details && f.details !== f.text ? h("details", null, h("summary", null, t("details")), h("pre", { tabindex: "0" }, f.details)) : null);
    this.put(card, [h("div", { class: "title cut" }, label), h("div", { class: "sub cut num" }, [seed && t("queue.seed", { seed }), atSeconds(time(of?.createdAt))].filter(Boolean).join(" · "))]);
  }
}

// saying changes whenever more is known of what went wrong.
const saying = ({ run, item }) => { const { title, details } = fault(run, item); return title + details.length; };

const capital = (s) => s.charAt(0).toLocaleUpperCase() + s.slice(1);

// shape gives the figure the picture's own proportions, so that nothing moves when it arrives.
function shape(figure, ratio) {
  const r = ratio > 0 && Number.isFinite(ratio) ? ratio : WIDE;
  figure.style.setProperty("--ar", r);
  figure.style.setProperty("--ar-n", r);
}

customElements.define("run-stage", RunStage);
