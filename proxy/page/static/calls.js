/**
 * The screen of calls: filter, time range, sparkline, table, peek.
 *
 * Address: #/calls?filter=…&range=1h | from=…&to=…&call=ID (shown in the peek).
 */
import { latest } from "./api.js";
import { chart } from "./charts.js";
import { copyCall } from "./copy.js";
import { announce, el, fill, Screen, throttle } from "./dom.js";
import { asksText, fitsOpen } from "./filters.js";
import { emptyStore } from "./empty.js";
import { keys } from "./keys.js";
import { live } from "./live.js";
import { markBar, marked, toggleMark } from "./marks.js";
import { Peek } from "./peek.js";
import { address, back, change, connection, go, link, setTitle, status, times } from "./state.js";
import { sparkData } from "./spark.js";
import { CallRows, MAX_KEPT } from "./rows.js";
import { CallTable } from "./table.js";
import { topBar } from "./top.js";
import { clock, day, exact, plural } from "./words.js";

const TICK_MS = 500;
const CATCH_UP_MS = 1_000; // most rows are there before: `end` brings them
const MANY_MS = 2_000; // where many calls come: nobody reads them all
const STATS_MS = 10_000;

class Calls extends Screen {
  constructor() {
    super();
    this.rows = new CallRows(() => this.draw());
    this.table = new CallTable({
      choose: (id, by) => this.choose(id, by === "click"),
      nearEnd: () => void this.rows.more(),
      unseen: (count) => this.tellNew(count),
      ready: () => this.draw(),
    });
    this.top = topBar({ title: "Calls" });
    this.fresh = el("button", { class: "fresh-rows primary", hidden: true, onclick: () => this.toNewest() });
    this.end = el("p", { class: "list-end" });
    this.table.element.append(this.end);
    this.peek = new Peek({ close: () => this.choose(this.table.chosen, false, true) });
    this.chart = chart("spantap-spark", null);
    this.spark = el("div", { class: "spark" });
    this.list = el("div", { class: "list" }, this.fresh, this.table.element);
    this.notice = el("div", { class: "list-notice", hidden: true });
    this.marks = markBar();
    this.asked = "";
    this.anew = true;
    this.askStats = latest();
  }

  connectedCallback() {
    fill(this, this.top.element, this.spark, this.marks.element, el("div", { class: "with-peek" }, this.list, this.notice, this.peek.element));
    const catchUp = throttle(() => (this.rows.isBusy ? MANY_MS : CATCH_UP_MS), () => void this.rows.catchUp(() => this.table.stays));
    const stats = throttle(() => STATS_MS, () => void this.drawSpark());
    this.stops = [
      live.open.on((open) => {
        this.takeOpen(open);
        this.draw();
      }),
      live.on("end", (news) => !this.isPast && this.rows.end(news)),
      live.on("recorded", () => {
        if (this.isPast) return;
        catchUp();
        stats();
      }),
      live.on("lost", () => catchUp()),
      connection.on(() => this.draw()), status.on(() => !this.notice.hidden && this.draw()),
      this.marks.stop, marked.on(() => {
        this.table.draw();
        this.peek.showMark();
      }),
      this.bindKeys(),
    ];
    const timer = setInterval(() => {
      this.table.tick();
      this.rows.forget();
      if (this.rows.isBehind && !this.table.stays) catchUp(); // somebody came back to the top
    }, TICK_MS);
    this.stops.push(() => clearInterval(timer), () => this.peek.hide(), () => this.askStats.stop(), () => live.want({ filter: "" }));
  }

  /** A range that has its end in the past: nothing live belongs to it. */
  get isPast() {
    return this.rows.question.to !== null;
  }

  /** @param {Address} where */
  show(where) {
    const { query } = where;
    back.calls = link(["calls"], query);
    setTitle(query.filter ? `Calls ${query.filter}` : "Calls");
    this.top.show(where);
    const asked = JSON.stringify([query.filter, query.range, query.from, query.to]);
    if (asked !== this.asked) {
      this.asked = asked;
      this.anew = true;
      live.want({ filter: query.filter ?? "" });
      void this.rows.ask({ filter: query.filter ?? null, ...times(query) });
      this.takeOpen(live.open.value);
      void this.drawSpark();
    }
    const id = query.call ?? null;
    this.table.held = id !== null;
    if (id) {
      if (id !== this.table.chosen) this.table.choose(id);
      this.peek.show(id, this.find(id));
    } else this.peek.hide();
  }

  /** @param {Map<string, Open>} open */
  takeOpen(open) {
    const filter = this.rows.question.filter ?? "";
    this.rows.open = new Map(this.isPast ? [] : [...open].filter(([, call]) => fitsOpen(filter, call)));
  }

  /** @param {string | null} id */
  find(id) {
    return this.table.items.find((item) => item.span_id === id);
  }

  /** Why there are no calls, or no columns. */
  get fault() {
    return this.rows.fault ?? this.table.fault;
  }

  draw() {
    if (!this.isConnected) return;
    const items = this.rows.all();
    const { rows: { loaded, loading, recorded }, fault } = this;
    this.top.fault(fault?.code === "filter" ? fault : null);
    const empty = this.table.fault !== null || (recorded.length === 0 && !loading && (items.length === 0 || fault !== null));
    this.list.hidden = empty;
    this.notice.hidden = !empty;
    if (empty) this.drawNotice();
    if (!this.table.isReady) void this.table.prepare();
    else if (loaded || items.length) {
      this.table.show(items, this.anew && loaded);
      if (loaded) this.anew = false;
      if (loaded && back.chosen && this.find(back.chosen)) this.table.choose(back.chosen, true); // back from a call
      if (loaded) back.chosen = null;
    }
    if (this.rows.isBehind && this.fresh.hidden) fill(this.fresh, "↑ new");
    this.fresh.hidden = !this.table.unseen && !this.rows.isBehind;
    this.list.classList.toggle("stale", loading && !loaded);
    const to = this.rows.searchedTo;
    fill(this.end,
      loading ? "Looking…"
        : fault && fault.code !== "filter" ? [`${fault.message} `, el("button", { onclick: () => void this.rows.more() }, "Try again")]
          : recorded.length >= MAX_KEPT ? `The newest ${exact(MAX_KEPT)} are shown: narrow them by a filter or a time range.`
            : this.rows.hasMore ? [to && `Searched back to ${day(to)} ${clock(to)}. `, el("button", { onclick: () => void this.rows.more() }, "More")]
              : loaded && items.length ? `${plural(recorded.length, "call")}, no more.` : "");
    if (this.peek.id && this.peek.id === this.table.chosen) {
      const row = this.find(this.peek.id);
      if (row) this.peek.show(this.peek.id, row);
    }
  }

  drawNotice() {
    const { rows: { hasMore, question }, fault } = this;
    const again = el("button", { onclick: () => void this.rows.ask(question) }, "Try again");
    if (fault?.code === "filter") fill(this.notice, el("section", { class: "notice" }, el("h2", null, "This filter cannot be followed"), el("p", null, fault.message),
      el("p", { class: "dim" }, "Words and key:value, all must hold: "), filterExamples()));
    else if (fault) fill(this.notice, el("section", { class: "notice" }, el("h2", null, fault.code === "gone" ? "Nobody answers" : "The store cannot be read"), el("p", null, fault.message), again));
    else if (hasMore) fill(this.notice, el("section", { class: "notice" }, el("h2", null, "Nothing yet"),
      el("p", null, `Searched back to ${day(this.rows.searchedTo)} ${clock(this.rows.searchedTo)}.`), el("button", { onclick: () => void this.rows.more() }, "Search on")));
    else if (question.filter || question.from || question.to) fill(this.notice, el("section", { class: "notice" }, el("h2", null, "No call is like that"),
      el("p", null, "Other words, or another time, may find more."), el("button", { onclick: () => go(["calls"]) }, "Show all calls")));
    else fill(this.notice, emptyStore(connection.value === "still", status.value));
  }

  async drawSpark() {
    const { filter, from, to } = this.rows.question;
    if (asksText(filter ?? "")) { // nobody counts what is said
      this.askStats.stop();
      this.spark.hidden = true;
      return;
    }
    try {
      const answer = await this.askStats("stats", { filter });
      this.chart.data = sparkData(answer, { chosen: { from, to } });
      this.spark.hidden = answer.buckets.length === 0;
      if (!this.chart.isConnected) fill(this.spark, this.chart);
    } catch (error) {
      this.spark.hidden = !this.chart.isConnected; // the list says what is wrong
    }
  }

  toNewest() {
    this.table.toTop();
    if (this.rows.isBehind) void this.rows.catchUp(() => false);
  }

  /** @param {number} count */
  tellNew(count) {
    this.fresh.hidden = count === 0;
    if (!count) return;
    fill(this.fresh, `↑ ${exact(count)} new`);
    announce(`${exact(count)} new`);
  }

  /** @param {string | null} id @param {boolean} peek @param {boolean} [close] */
  choose(id, peek, close = false) {
    const shown = address.value.query.call;
    if (close && shown) change({ call: null });
    if (close) return this.table.choose(id, true);
    this.table.choose(id, peek);
    if (id && (peek || shown) && shown !== id) change({ call: id }, Boolean(shown));
  }

  /** @param {number} step */
  move(step) {
    const id = this.table.neighbour(step);
    if (!id) return;
    this.table.choose(id, true);
    if (address.value.query.call && address.value.query.call !== id) change({ call: id }, true);
  }

  /** @param {"previous" | "next"} way */
  along(way) {
    const id = this.peek.id && this.peek.detail?.call.span_id === this.peek.id ? this.peek.detail.conversation?.[way] : null;
    if (!id) return announce(`no ${way} call`);
    this.table.choose(id, true);
    change({ call: id }, true);
  }

  /** @param {string} id */
  mark(id) {
    const row = this.find(id);
    if (!row || "open" in row) announce("a call can be marked once it has ended");
    else toggleMark(id);
  }

  bindKeys() {
    const chosen = (/** @type {(id: string) => void} */ work) => () => (this.table.chosen ? work(this.table.chosen) : false);
    const down = () => this.move(1);
    const up = () => this.move(-1);
    const inList = (/** @type {() => void} */ work) => (/** @type {KeyboardEvent} */ event) =>
      event.target instanceof Element && event.target.closest(".peek, .spark, .top") ? false : work();
    return keys("Calls", {
      j: ["down, up", down, "j k"], k: [null, up], ArrowDown: [null, inList(down)], ArrowUp: [null, inList(up)],
      PageDown: [null, inList(() => this.move(this.table.page))], PageUp: [null, inList(() => this.move(-this.table.page))],
      Home: [null, inList(() => this.move(-Infinity))], End: [null, inList(() => this.move(Infinity))],
      Enter: ["open the call", (event) => (event.target instanceof Element && event.target.closest("button, summary, a:not(tr a), [role=slider]") ? false : chosen((id) => go(["calls", id]))())],
      Space: ["peek", (event) => (event.target instanceof Element && event.target.closest("button, summary, .peek") ? false : chosen((id) =>
        (address.value.query.call ? this.choose(id, false, true) : this.choose(id, true)))())],
      Escape: ["close the peek", () => (address.value.query.call ? this.choose(this.table.chosen, false, true) : false)],
      f: ["follow: to the newest, and stay there", () => this.follow()],
      "/": ["filter", () => this.top.focus()],
      d: ["difference to the previous call", chosen((id) => go(["calls", id, "diff"]))],
      "[": ["previous, next in its conversation", () => this.along("previous"), "[ ]"], "]": [null, () => this.along("next")],
      x: ["mark it, to compare two", chosen((id) => this.mark(id))],
      y: ["copy as curl", chosen((id) => void copyCall(id, "curl"))],
    });
  }

  follow() {
    if (this.table.follow && this.table.atTop) this.table.follow = false;
    else {
      this.table.follow = true;
      this.table.toTop();
    }
    announce(this.table.follow ? "following" : "not following: new calls wait");
  }
}

function filterExamples() {
  const examples = ["status:error", "model:gpt-5*", "dur>5s", "tokens>10000", "tool:grep", "since:2h", "-client:codex", "\"any text\""];
  return el("p", { class: "examples" }, examples.map((one) => el("button", { class: "tag", onclick: () => change({ filter: one }) }, one)));
}

customElements.define("spantap-calls", Calls);
