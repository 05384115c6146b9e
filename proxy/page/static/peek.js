/**
 * A call at a glance, beside the list: what was asked, what came, what it cost and why it took so long.
 *
 *   const peek = new Peek({ close })    peek.element; peek.show(id, row, more); peek.hide(); peek.detail;
 *                                       peek.showMark() when marks have changed
 *
 * The spans of agents and tools can be peeked at, too.
 */
import { latest } from "./api.js";
import { announce, el, fill, write } from "./dom.js";
import { icon, mark, outcome } from "./icons.js";
import { liveText } from "./live_text.js";
import { marked, toggleMark } from "./marks.js";
import { message, release, unfold } from "./messages.js";
import { rawText } from "./raw.js";
import { answered, asked } from "./special.js";
import { link } from "./state.js";
import { elapsed } from "./table.js";
import { errorBox, facts, notes, timing } from "./timing.js";
import { count, cut, line, moment, plural, seconds } from "./words.js";

const REST_MS = 120; // whoever runs through the list with j asks for no call on the way
const MOST_ASKED = 1_200;

export class Peek {
  /** @param {{ close: () => void }} told */
  constructor(told) {
    this.title = el("h2");
    this.body = el("div", { class: "peek-body scrolls", tabindex: 0, role: "region", "aria-label": "The call" });
    this.open = el("a", { class: "button" }, "Open");
    this.compare = el("button", { title: "Mark it, to compare two (x)", onclick: () => this.id && toggleMark(this.id) }, "Compare");
    this.element = el("aside", { class: "peek", hidden: true, "aria-label": "Peek" },
      el("header", null, this.title, this.compare, this.open, el("button", { class: "plain", "aria-label": "Close", onclick: told.close }, icon("close"))), this.body);
    this.id = /** @type {string | null} */ (null);
    this.stage = "";
    this.detail = /** @type {CallDetail | null} */ (null);
    this.ask = latest();
    this.stop = () => {};
    /** @type {import("./dom.js").Child} */
    this.more = null;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.rest = undefined;
  }

  /** @param {string} id @param {Row | Open | undefined} row @param {import("./dom.js").Child} [more] said before what was recorded */
  show(id, row, more) {
    const stage = row === undefined ? "unknown" : "open" in row ? "open" : row.seq === null ? "ended" : "recorded";
    if (id === this.id && (stage === this.stage || stage === "unknown" || this.stage === "unknown")) return;
    const before = id === this.id ? this.stage : null;
    this.stage = stage;
    if (stage === "ended" && before === "open") return this.#head(row); // it is being recorded
    this.#leave();
    this.id = id;
    this.more = more;
    this.element.hidden = false;
    this.open.href = link(["calls", id]);
    this.#head(row);
    if (stage === "open") return this.#live(id);
    if (stage === "ended") return fill(this.body, more ?? el("p", { class: "dim" }, "It is being recorded…"));
    clearTimeout(this.rest);
    this.rest = setTimeout(() => void this.#load(id), this.detail ? REST_MS : 0);
  }

  /** Show whether the call is marked. */
  showMark() {
    this.compare.setAttribute("aria-pressed", String(marked.value.includes(this.id ?? "")));
  }

  hide() {
    this.#leave();
    this.id = null;
    this.element.hidden = true;
    fill(this.body);
  }

  #leave() {
    clearTimeout(this.rest);
    this.ask.stop();
    this.stop();
    this.stop = () => {};
    release(this.body);
  }

  /** @param {Row | Open | undefined} row */
  #head(row) {
    this.compare.hidden = !row || "open" in row || row.seq === null || row.kind === "TOOL" || row.kind === "AGENT";
    this.showMark();
    if (!row && !this.title.firstChild) fill(this.title, "…"); // no heading is empty
    if (row) fill(this.title, mark(row), ` ${line(row.model) || line("name" in row ? row.name : "") || "call"} `, el("span", { class: "dim" }, [line(row.api), moment(row.start_time)].filter(Boolean).join(" · ")));
  }

  /** @param {string} id */
  async #load(id) {
    try {
      const detail = /** @type {CallDetail} */ (await this.ask(`calls/${id}`));
      this.detail = detail;
      release(this.body);
      this.#head(detail.call);
      fill(this.body, this.more, summary(detail, Boolean(this.more)));
      unfold(this.body);
      this.body.scrollTop = 0;
      announce(`${outcome(detail.call).words}. ${line(detail.call.what)}`);
    } catch (error) {
      fill(this.body, el("p", { class: "wrong" }, /** @type {Error} */ (error).message));
    }
  }

  /** @param {string} id */
  #live(id) {
    const progress = el("p", { class: "live-line" });
    const asked = el("div", { class: "text asked" });
    const shown = liveText(id, (call) => {
      this.#head(call);
      write(asked, line(call.what));
      asked.hidden = !call.what;
      const size = [call.chars && `${count(call.chars)} characters`, call.chunks && plural(call.chunks, "chunk")];
      write(progress, [outcome(call).words, seconds(elapsed(call)), ...size].filter(Boolean).join(" · "));
    });
    fill(this.body, progress, asked, shown.element);
    this.stop = shown.stop;
  }
}

/** @param {CallDetail} detail @param {boolean} hasSums whether something else says what it came to */
function summary(detail, hasSums) {
  const { call, raw } = detail;
  if (call.kind === "TOOL" || call.kind === "AGENT") {
    const [asked, answered] = call.kind === "TOOL" ? ["Called with", "Result"] : ["Asked", "Answered"];
    return [
      errorBox(detail), !hasSums && facts(detail, true), raw.request != null && [el("h3", null, asked), rawText(call.span_id, "request")],
      !detail.error && raw.response != null && [el("h3", null, answered), rawText(call.span_id, "response")],
    ];
  }
  const source = { call: detail.call.span_id, of: /** @type {const} */ ("input") };
  const fresh = detail.messages.filter((one) => one.index >= detail.new_from);
  const words = detail.asked ?? detail.call.preview;
  const bodies = words ? [] : asked(detail);
  const others = answered(detail);
  const results = fresh.filter((one) => one.role === "tool").slice(-3);
  return [
    errorBox(detail), facts(detail, true), timing(detail), notes(detail),
    el("h3", null, "Asked", el("span", { class: "dim" }, detail.messages.length > 0 && ` ${plural(detail.messages.length, "message")}${detail.new_from ? `, ${fresh.length} new` : ""}`)),
    !bodies.length ? el("div", { class: "text asked", tabindex: 0, role: "group", "aria-label": "Asked" }, cut(words ?? "not recorded", MOST_ASKED)) : bodies,
    results.length > 0 && [el("h3", null, "Came with it"), el("ul", { class: "messages" }, results.map((one) => message(one, source)))],
    !detail.error && el("h3", null, "Answered"),
    el("ul", { class: "messages" }, detail.answer.map((one) => message(one, { ...source, of: "answer" }))), others,
    !detail.error && !detail.answer.length && !others.length && el("p", { class: "dim" }, "No answer was recorded."),
  ];
}
