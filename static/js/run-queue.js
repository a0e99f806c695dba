import { cancel, cancelAll } from "./actions.js";
import { attr, h, icon, iconButton, keyed, part, text } from "./dom.js";
import { StudioElement } from "./element.js";
import { wholeSpan } from "./format.js";
import { previewOf } from "./previews.js";
import { facts, left, percent, rest, share, usual } from "./pace.js";
import { contractKey, isRunning, isStopping, nodeName, seedOf } from "./run.js";
import { store } from "./store.js";
import { sheet } from "./studio-sheet.js";
import { t } from "./words.js";

const ASK_FROM = 4;   // as many runs are worth a question

class RunQueue extends StudioElement {
  static topics = ["show", "runs", "progress", "clock", "link", "contracts", "health"];

  build() {
    this.counts = h("span", { class: "faint num" });
    this.all = h("button", { type: "button", class: "btn is-small is-quiet", onclick: () => this.cancelAll() }, t("queue.cancel.all"));
    this.jobs = h("ol", { class: "jobs" });
    this.append(h("header", null, h("h2", null, t("queue")), this.counts, h("span", { class: "grow" }), this.all), this.jobs, h("p", { class: "hint" }, t("queue.empty.text")));
  }
  render() {
    const runs = store.active;
    this.classList.toggle("is-empty", !runs.length);
    this.classList.toggle("is-shown", runs.length === 1 && store.onStage.run === runs[0]);   // the stage says it all
    this.all.hidden = !runs.length;
    text(this.counts, counts(runs));
    let before = 0;
    keyed(this.jobs, runs, (r) => r.run_id, (r) => job(r), (el, r) => {
      update(el, r, runs.indexOf(r) + 1, before);
      before = before === null || usual(contractKey(r)) === null ? null : before + cost(r);
    });
  }
  cancelAll() {
    const n = store.active.length;
    if (n < ASK_FROM) return cancelAll();
    const dialog = sheet(t("queue.cancel.ask", { n }), [], [
      h("button", { type: "button", class: "btn is-bad", onclick: () => { dialog.close(); cancelAll(); } }, t("queue.cancel.sure")),
      h("button", { type: "button", class: "btn", onclick: () => dialog.close() }, t("queue.keep"))]);
  }
}

function counts(runs) {
  const running = runs.filter(isRunning).length, waiting = runs.length - running;
  return [running && t("queue.running", { n: running }), waiting && t("queue.waiting", { n: waiting })].filter(Boolean).join(", ") || t("queue.empty");
}

const cost = (run) => Math.max(1000, isRunning(run) ? rest(run, Date.now()) : usual(contractKey(run)));

function job(run) {
  const label = store.nameOf(run);
  const el = h("li", { class: "job" },
    h("span", { class: "thumb" }), h("div", { class: "grow" }, h("div", { class: "name cut" }, label), h("div", { class: "sub cut num" }, h("span", { class: "brief" }), h("span", { class: "long" }))),
    h("div", { class: "pct-box" }, h("div", { class: "pct" }), h("div", { class: "eta num" })),
    h("div", { class: "tools" }, iconButton("x", t("stage.cancel.of", { name: label }), () => cancel(store.runs.get(run.run_id)), "is-small")),
    h("div", { class: "thread", role: "progressbar", "aria-label": label, "aria-valuemin": "0", "aria-valuemax": "100" }));
  const at = (cls) => el.querySelector("." + cls);
  el.parts = { name: at("name"), brief: at("brief"), long: at("long"), box: at("pct-box"), pct: at("pct"), eta: at("eta"), thread: at("thread"), cancel: at("ib") };
  return el;
}

function update(el, run, place, before) {
  const { parts } = el, running = isRunning(run), held = store.isHeld(run), done = percent(run);
  el.classList.toggle("is-running", running);
  el.classList.toggle("is-held", held);
  text(parts.name, store.nameOf(run));
  thumb(el, run, running, held, place);
  parts.box.hidden = !running;
  parts.thread.hidden = !running;
  parts.cancel.disabled = isStopping(run);
  const words = isStopping(run) ? t("state.stopping") : running ? runningWords(run, done) : waitingWords(run, held, before);
  const eta = running && !isStopping(run) ? left(run, Date.now()) : "";
  text(parts.long, words);
  text(parts.brief, running && done !== null && !isStopping(run) && store.link.state !== "lost" ? [`${done} %`, eta].filter(Boolean).join(" · ") : words);
  text(parts.pct, done === null ? "" : `${done}%`);
  text(parts.eta, eta);
  const blind = done === null || store.link.state === "lost" || store.away;
  parts.thread.classList.toggle("is-wait", blind && !isStopping(run));
  part(parts.thread, share(run));
  attr(parts.thread, "aria-valuenow", done);
}

function runningWords(run, done) {
  if ((store.link.state === "lost" || store.away) && done !== null) return t("state.checking", { percent: done });
  return [nodeName(run), facts(run, Date.now())[0]].join(" · ");
}

function waitingWords(run, held, before) {
  const seed = seedOf(run.inputs);
  if (held) return store.away ? t("state.held.away") : t("state.held");
  return [before ? t("queue.in", { span: wholeSpan(before) }) : t("state.waiting"), seed && t("queue.seed", { seed })].filter(Boolean).join(" · ");
}

// thumb shows the preview, a sign, or the place in line.
function thumb(el, run, running, held, place) {
  const url = running ? previewOf(run.run_id) : "", now = el.firstElementChild;
  if (url && now.matches("img")) return attr(now, "src", url);
  const key = url ? "img" : held ? "held" : running ? "running" : String(place);
  if (now.dataset.shown === key) return;
  const fresh = url ? h("img", { class: "thumb", src: url, alt: "" }) : h("span", { class: "thumb" }, held ? icon("hold") : running ? icon("live") : key);
  fresh.dataset.shown = key;
  now.replaceWith(fresh);
}

customElements.define("run-queue", RunQueue);
