import { launch } from "./actions.js";
import { attr, h, icon, iconButton, part, text } from "./dom.js";
import { StudioElement } from "./element.js";
import { form } from "./form.js";
import { span, wholeSpan } from "./format.js";
import { kind } from "./item.js";
import { previewOf } from "./previews.js";
import { left, percent, rest, share, usual } from "./pace.js";
import { contractKey, isRunning, nodeName, took } from "./run.js";
import { store } from "./store.js";
import { refreshHealth } from "./stream.js";
import { title } from "./value.js";
import { t } from "./words.js";

const MOST = 32;
const SLOW = 400;   // milliseconds after which a request is worth a word
const isMac = /Mac|iP(hone|ad)/.test(navigator.platform);

// The peek line, how many, Run, and a note: when it would start, or what is in the way.
class RunBar extends StudioElement {
  static topics = ["form", "current", "contracts", "health", "runs", "progress", "clock", "view"];
  times = 1;
  sending = 0;

  build() {
    this.buildPeek();
    this.output = h("output", { "aria-label": t("run.count") }, "1");
    this.fewer = iconButton("minus", t("run.fewer"), () => this.count(-1));
    this.more = iconButton("plus", t("run.more"), () => this.count(1));
    this.label = h("span", null, t("run"));
    this.button = h("button", { type: "button", class: "btn is-main", onclick: () => this.run() }, icon("play"), this.label, h("kbd", null, isMac ? "⌘ ↵" : "Ctrl ↵"));
    this.wrong = h("p", { class: "note is-bad", role: "alert" });
    this.noteWhen = h("span");
    this.noteAhead = h("span");
    this.note = h("p", { class: "note num" }, this.noteWhen, this.noteAhead);
    this.replaceChildren(this.peek, h("div", { class: "runbar" }, this.wrong,
      h("div", { class: "go" }, h("div", { class: "times", role: "group", "aria-label": t("run.times") }, this.fewer, this.output, this.more), h("div", { class: "run" }, this.button)), this.note));
  }
  buildPeek() {
    this.peekThread = h("span", { class: "thread" });
    this.peekPic = h("img", { alt: "" });
    this.peekBold = h("b", { class: "num" });
    this.peekWords = h("span", { class: "muted txt num" });
    this.peek = h("button", { type: "button", class: "peek", onclick: () => { store.wide = false; store.look({ follow: true }); store.setView("live"); } },
      this.peekThread, this.peekPic, h("span", { class: "cut" }, this.peekBold, " ", this.peekWords), icon("right"));
  }

  count(by) {
    this.times = Math.min(MOST, Math.max(1, this.times + by));
    text(this.output, String(this.times));
  }
  // what went wrong belongs to the contract it went wrong with
  get problem() { return this.trouble?.of === store.current ? this.trouble.words : ""; }
  set problem(words) { this.trouble = { of: store.current, words }; }

  // run never makes anybody wait: who presses again meanwhile gets one more.
  async run() {
    if (!store.contract()) return;
    this.problem = "";
    if (!form.check()) return this.lookAtFault();
    this.sending++;
    const slow = setTimeout(() => this.render(), SLOW);
    try {
      if (store.away) await refreshHealth();
      if (store.away) this.problem = t("run.away");
      else await launch(this.times);
    } catch (e) {
      this.refused(e);
    }
    this.sending--;
    clearTimeout(slow);
    this.render();
  }
  refused(e) {
    if (store.runs.get(e.runID)?.status === "cancelled") return;   // by the person, faster than the answer
    if (e.status >= 500) refreshHealth();
    const others = form.refuse(e);
    if (e.runID && e.status < 500) store.refuse(e.runID);
    if (form.faulty.length) this.lookAtFault();
    if (e.status === 429) this.problem = t("run.full");
    else if (others.length) this.problem = others.map((i) => i.message).join(" ");
    else if (!form.faulty.length) this.problem = [e.message, e.hint].filter(Boolean).join(" ");
  }
  lookAtFault() {
    store.setView("make");
    document.querySelector("run-form").dispatchEvent(new Event("studio-look"));
  }

  render() {
    const { faulty } = form.contract ? form : { faulty: [] };
    const words = [faulty.length && t("run.faults", { n: faulty.length, first: title(faulty[0]) }), this.problem].filter(Boolean).join(" ");
    this.wrong.hidden = !words;
    if (words !== this.said) {
      this.said = words;
      this.wrong.replaceChildren(icon("warn"), h("span", null, words));
    }
    text(this.label, t(this.sending ? "run.sending" : "run"));
    attr(this.button, "disabled", store.contract() ? null : true);
    this.renderNote(words !== "");
    this.renderPeek();
  }
  renderNote(isWrong) {
    const ahead = store.active.length, wait = this.wait();
    this.note.hidden = isWrong;
    text(this.noteWhen, !store.contract() ? "" : store.away ? t("run.note.away") : !ahead ? t("run.note.now") : wait === null ? t("run.note.after", { n: ahead }) : t("run.note.soon", { span: wholeSpan(wait) }));
    text(this.noteAhead, ahead && wait !== null && !store.away ? t("run.note.before", { n: ahead }) : "");
  }
  // wait is what the runs before may still take; null when one of them has no known pace.
  wait() {
    let ms = 0;
    for (const run of store.active) {
      const whole = usual(contractKey(run));
      if (whole === null) return null;
      ms += isRunning(run) ? Math.max(1000, rest(run, Date.now())) : whole;
    }
    return ms;
  }
  renderPeek() {
    const [run] = store.active, news = store.runs.get(store.news);
    this.peek.hidden = !news && !(run && isRunning(run));
    if (this.peek.hidden) return;
    this.peekThread.hidden = !(run && isRunning(run));
    if (this.peekThread.hidden) this.peekNews(news);
    else this.peekLive(run);
  }
  // peekNews stays until the run that has just ended is looked at.
  peekNews(run) {
    const output = store.outputsOf(run.run_id).find((i) => kind(i) === "image"), failed = run.status === "error", ms = took(run);
    this.peekPic.hidden = !output;
    if (output) attr(this.peekPic, "src", output.url);
    this.peek.classList.toggle("is-bad", failed);
    text(this.peekBold, t(failed ? "state.failed" : "state.done"));
    text(this.peekWords, [store.nameOf(run), ms >= 100 ? span(ms) : ""].filter(Boolean).join(" · "));
  }
  peekLive(run) {
    this.peek.classList.remove("is-bad");
    const done = percent(run), url = previewOf(run.run_id), waiting = store.active.length - 1;
    this.peekPic.hidden = !url;
    if (url) attr(this.peekPic, "src", url);
    text(this.peekBold, done === null ? t("state.running") : `${done} %`);
    text(this.peekWords, [[nodeName(run), left(run, Date.now())].filter(Boolean).join(", "), waiting ? t("queue.waiting", { n: waiting }) : ""].filter(Boolean).join(" · "));
    this.peekThread.classList.toggle("is-wait", done === null);
    part(this.peekThread, share(run));
  }
}

customElements.define("run-bar", RunBar);
