/**
 * A conversation: its sums, then one of its tabs: transcript, timeline, context.
 *
 * - The tabs are addresses: `#/conversations/N/TAB`.
 * - New calls are added at most once a second; a reader's place does not move.
 */
import { get, latest } from "./api.js";
import { context } from "./context.js";
import { cachedShare, lasted } from "./conversations.js";
import { el, fill, Screen, throttle } from "./dom.js";
import { failedLink } from "./failures.js";
import { condition } from "./filters.js";
import { keys } from "./keys.js";
import { live } from "./live.js";
import { address, go, link, setTitle } from "./state.js";
import { tabBar } from "./tabs.js";
import { spentWords, timeline } from "./timeline.js";
import { topBar } from "./top.js";
import { transcript } from "./transcript.js";
import { costNotes, costs, count, duration, exact, line, moment, plural, titleOf } from "./words.js";

const TABS = ["transcript", "timeline", "context"];
const NEWS_MS = 1_000;
const MAX_POINTS = 20_000; // as many calls as a chart of pixels can tell apart, ten times over

class Conversation extends Screen {
  number = 0;
  tab = "";
  /** @type {string | null} */
  afterSeq = null;
  /** @type {any} */
  answer = null;
  isNamed = false;
  ask = latest();
  askContext = latest();
  /** @type {ReturnType<typeof transcript> | null} */
  script = null;
  head = el("header", { class: "conversation-head" });
  panel = el("div", { class: "reading", role: "tabpanel", id: "conversation-panel", tabindex: 0 });
  tabs = tabBar("Views of the conversation", this.panel, (name) => this.open(name));

  connectedCallback() {
    const refresh = throttle(() => NEWS_MS, () => void this.refresh());
    this.stops = [
      () => this.ask.stop(), () => this.askContext.stop(), () => this.script?.stop(),
      live.on("conversation", ({ number }) => {
        if (number !== this.number && number !== null) return;
        this.isNamed ||= number !== null;
        refresh();
      }),
      keys("Conversation", {
        1: ["transcript", () => this.open(TABS[0])], 2: ["timeline", () => this.open(TABS[1])], 3: ["context", () => this.open(TABS[2])],
        u: ["back to the list", () => go(["conversations"])],
      }),
    ];
  }

  /** @param {Address} where */
  show({ path, query }) {
    const number = Number(path[1]);
    const tab = TABS.includes(path[2]) ? path[2] : TABS[0];
    const after = query.after ?? null;
    if (number === this.number && tab === this.tab && after === this.afterSeq) return;
    const isNew = number !== this.number || (tab === "timeline" && after !== this.afterSeq);
    Object.assign(this, { number, tab, afterSeq: after });
    setTitle(`Conversation ${number}`);
    live.want({ filter: "", text: [] });
    if (isNew || !this.answer) void this.load();
    else this.draw();
  }

  async load() {
    this.answer = null;
    const top = topBar({
      title: `Conversation ${this.number}`, filter: false,
      extra: el("span", { class: "extra" }, el("a", { class: "button", href: link(["conversations"]) }, "All conversations"),
        el("a", { class: "button", href: link(["calls"], { filter: `conversation:${this.number}` }) }, "Its calls")),
    });
    fill(this, top.element, el("p", { class: "tail-end" }, "…"));
    top.show(address.value); // so that it knows when it is gone
    try {
      this.answer = await this.ask(`conversations/${this.number}`, { after: this.tab === "timeline" ? this.afterSeq : null });
    } catch (error) {
      const { code, message } = /** @type {import("./api.js").ApiError} */ (error);
      if (code === "token") return;
      const words = code === "not_found" ? `There is no conversation ${this.number} in the store: it was never there, or its calls have been removed.` : message;
      return fill(this, top.element, el("section", { class: "notice" }, el("h2", null, "Nothing to show"), el("p", null, words), el("button", { onclick: () => void this.load() }, "Try again")));
    }
    fill(this, top.element, this.head, this.tabs.element, this.panel);
    this.tabs.list(TABS.map((name) => ({ name, words: name, href: link(["conversations", this.number, name]) })));
    this.sum();
    this.draw();
  }

  async refresh() {
    if (!this.answer || this.afterSeq != null) return;
    const isNamed = this.isNamed;
    this.isNamed = false;
    const answer = await get(`conversations/${this.number}`).catch(() => null);
    if (!answer || !this.isConnected || answer.conversation.number !== this.number) return;
    const told = (/** @type {any} */ one) => JSON.stringify([one.conversation, one.runs]);
    if (!isNamed && told(answer) === told(this.answer)) return; // many have changed, and not this one
    this.answer = answer;
    this.sum();
    this.script?.know(answer.bars, answer.runs);
    if (this.tab === "transcript") this.script?.grow();
    // A chart that somebody points at, or reads the table of, is not drawn anew under their hand.
    else if (!this.panel.matches(":hover, :focus-within") && !this.panel.querySelector("details[open]")) this.draw();
  }

  sum() {
    const one = this.answer.conversation;
    const filter = (/** @type {string} */ more) => link(["calls"], { filter: `conversation:${this.number}${more}` });
    /** @type {[string, any, any?][]} */
    const sums = [
      ["calls", el("a", { href: filter("") }, exact(one.calls))],
      ["runs", one.runs ? exact(one.runs) : "–"],
      ["tools", one.tools ? el("a", { href: filter(" kind:tool") }, exact(one.tools)) : "–", failedLink(one.tool_errors, { conversation: this.number })],
      ["errors", one.errors ? el("a", { class: "bad", href: filter(" status:error") }, exact(one.errors)) : "0"],
      ["in", count(one.prompt_tokens), cachedShare(one)],
      ["out", count(one.completion_tokens)],
      ["cost", costs(one), costNotes(one).join(", ")],
      ["took", duration(lasted(one)), spentWords(this.answer.left_out ? [] : this.answer.runs)],
    ];
    fill(
      this.head,
      el("h2", null, titleOf(one) || `Conversation ${one.number}`),
      el("p", { class: "dim" }, [line(one.client), one.models.map(line).join(", "), `${moment(one.start_time)} – ${moment(one.end_time)}`].filter(Boolean).join(" · "),
        one.session && [" · ", el("a", { href: link(["calls"], { filter: condition("session", one.session) }) }, `session ${line(one.session)}`)]),
      el("dl", { class: "amounts" }, sums.map(([name, value, more]) => el("div", null, el("dt", null, name), el("dd", null, value, more && el("small", null, " ", more))))),
    );
  }

  draw() {
    if (!this.answer) return;
    const { panel } = this;
    this.tabs.choose(this.tab, this.tab === "transcript");
    this.askContext.stop();
    this.script?.stop();
    this.script = null;
    const { bars, runs, left_out: left, next } = this.answer;
    if (this.tab === "transcript") {
      this.script = transcript(this.number, this.afterSeq);
      this.script.know(bars, runs);
      fill(panel, this.script.element);
    } else if (this.tab === "timeline") {
      fill(panel, timeline(bars, runs, left, next === null ? null : link(["conversations", this.number, "timeline"], { after: next })));
    } else {
      if (!panel.querySelector(".context")) fill(panel, el("p", { class: "tail-end" }, "…"));
      void this.drawContext(panel);
    }
  }

  /** @param {HTMLElement} panel */
  async drawContext(panel) {
    /** @type {any[]} */
    const points = [];
    try {
      /** @type {number | null} */
      let next = null;
      do {
        /** @type {any} */
        const answer = await this.askContext(`conversations/${this.number}/context`, { after: next });
        points.push(...answer.points);
        next = answer.next;
      } while (next !== null && points.length < MAX_POINTS);
      const more = next === null ? null : el("p", { class: "dim" }, `The first ${plural(points.length, "call")} are shown.`);
      if (this.tab === "context") fill(panel, context(points), more);
    } catch (error) {
      if (this.tab === "context") fill(panel, el("p", { class: "tail-end" }, /** @type {Error} */ (error).message, " ", el("button", { onclick: () => void this.drawContext(panel) }, "Try again")));
    }
  }

  /** @param {string} tab */
  open(tab) {
    go(["conversations", this.number, tab], {});
    return true;
  }
}

customElements.define("spantap-conversation", Conversation);
