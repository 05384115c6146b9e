/**
 * The list of conversations: what the user first asked, and what came of it.
 *
 * - At most MAX_ROWS rows are in the page; further down the oldest ones are removed, and a button
 *   leads back to the newest.
 * - News is shown at once if the reader is at the top and points at nothing; otherwise it waits behind a
 *   button.
 */
import { get, latest } from "./api.js";
import { el, fill, keyed, Screen, throttle, write } from "./dom.js";
import { icon } from "./icons.js";
import { keys } from "./keys.js";
import { live } from "./live.js";
import { link } from "./state.js";
import { topBar } from "./top.js";
import { clock, costNotes, costs, count, day, duration, exact, line, moment, plural, titleOf } from "./words.js";

const MAX_ROWS = 300;
const PAGE = 100;
const NEWS_MS = 1_000;

/** The cached part of prompt tokens, in words; nothing where it is not known. @param {any} one */
export function cachedShare(one) {
  if (!one.prompt_tokens || one.cached_tokens == null) return "";
  return `${Math.round((one.cached_tokens / one.prompt_tokens) * 100)} % cached`;
}

/** @param {any} one */
export const lasted = (one) => Math.max(0, Date.parse(one.end_time) - Date.parse(one.start_time));

/** Make one of some links the stop of the Tab key. @param {HTMLElement[]} links @param {HTMLElement} to */
export function rove(links, to) {
  for (const one of links) one.tabIndex = one === to ? 0 : -1;
}

/** Focus another one of some links. @param {HTMLElement[]} links @param {number} by */
export function step(links, by) {
  const at = links.findIndex((one) => one === document.activeElement);
  const to = links[Math.max(0, Math.min(links.length - 1, at < 0 && Number.isFinite(by) ? 0 : at + by))];
  to?.focus();
  to?.closest("tr")?.scrollIntoView({ block: "nearest" });
  return Boolean(to);
}

class Conversations extends Screen {
  ask = latest();
  more = latest();
  /** @type {any[]} */
  shown = [];
  /** @type {number | null} */
  next = null;
  filter = "";
  isCut = false;
  isBusy = false;
  /** @type {Set<number | null>} */
  news = new Set();

  connectedCallback() {
    this.top = topBar({ title: "Conversations", placeholder: "Filter: client:codex  model:gpt-5*  tool:grep  \"any text\"" });
    this.body = el("tbody");
    this.waiting = el("button", { class: "waiting", hidden: true, onclick: () => this.newest() });
    this.end = el("p", { class: "tail-end" });
    const columns = [["", ""], ["Last", ""], ["First asked", ""], ["Client", "wide"], ["Model", "wide"], ["Calls", "number"], ["Tools", "number"], ["In", "number"], ["Cached", "number wide"], ["Out", "number"], ["Cost", "number"], ["Took", "number"]];
    this.table = el(
      "table", { class: "sheet" }, el("caption", { class: "hidden" }, "Conversations, the newest first"),
      el("thead", null, el("tr", null, columns.map(([words, kind]) => el("th", { scope: "col", class: kind }, words || el("span", { class: "hidden" }, "outcome"))))),
      this.body,
    );
    this.scroller = el("div", { class: "scroller" }, this.waiting, this.table, this.end);
    fill(this, this.top.element, this.scroller);
    this.watch = new IntersectionObserver(([seen]) => seen.isIntersecting && void this.further(), { root: this.scroller, rootMargin: "600px" });
    this.watch.observe(this.end);
    const refresh = throttle(() => NEWS_MS, () => void this.refresh());
    this.stops = [
      () => this.ask.stop(), () => this.more.stop(), () => this.watch?.disconnect(),
      live.on("conversation", ({ number }) => {
        this.news.add(number); // null: so many that none is named
        refresh();
      }),
      keys("Conversations", {
        j: ["next conversation", () => step(this.links(), 1)], ArrowDown: [null, () => step(this.links(), 1)],
        k: ["conversation before", () => step(this.links(), -1)], ArrowUp: [null, () => step(this.links(), -1)],
        Home: ["the newest", () => step(this.links(), -Infinity)], End: ["the last one that is shown", () => step(this.links(), Infinity)],
        "/": ["filter", () => this.top?.focus()],
      }),
    ];
  }

  /** @param {Address} where */
  show(where) {
    this.top?.show(where);
    const { filter = "", range, from, to } = where.query;
    // A list of conversations has no separate range: it is a condition like any other.
    const since = [range && `since:${range}`, from && `since:${from}`, to && `until:${to}`].filter(Boolean);
    const whole = [filter, ...since].filter(Boolean).join(" ");
    if (whole === this.filter && this.shown.length) return;
    this.filter = whole;
    live.want({ filter: "", text: [] });
    void this.newest();
  }

  async newest() {
    this.isBusy = true;
    this.more.stop();
    try {
      const answer = await this.ask("conversations", { filter: this.filter, limit: PAGE });
      this.top?.fault(null);
      this.shown = answer.conversations;
      this.next = answer.next;
      this.isCut = false;
      if (this.scroller) this.scroller.scrollTop = 0;
    } catch (error) {
      this.fault(/** @type {any} */ (error));
    }
    this.isBusy = false;
    this.news.clear();
    this.draw();
  }

  /** @param {import("./api.js").ApiError} error */
  fault(error) {
    if (error.code === "filter") return this.top?.fault(error);
    if (error.code === "token") return;
    if (this.end) fill(this.end, error.message, " ", el("button", { onclick: () => void this.newest() }, "Try again"));
    this.isBusy = true; // until somebody tries again
    throw error;
  }

  async further() {
    if (this.isBusy || this.next === null) return;
    this.isBusy = true;
    try {
      const answer = await this.more("conversations", { filter: this.filter, before: this.next, limit: PAGE });
      const known = new Set(this.shown.map((one) => one.number));
      this.shown = [...this.shown, ...answer.conversations.filter((/** @type {any} */ one) => !known.has(one.number))];
      if (this.shown.length > MAX_ROWS) {
        this.shown = this.shown.slice(-MAX_ROWS);
        this.isCut = true;
      }
      this.next = answer.next;
    } catch (error) {
      this.fault(/** @type {any} */ (error));
    }
    this.isBusy = false;
    this.draw();
    // A page without a row moved nothing, so the end is seen no second time.
    if (this.end && this.scroller && this.end.getBoundingClientRect().top < this.scroller.getBoundingClientRect().bottom + 600) void this.further();
  }

  async refresh() {
    if (!this.isConnected || this.isBusy) return;
    const isResting = this.isCut || (this.scroller?.scrollTop ?? 0) > 40 || this.body?.contains(document.activeElement);
    if (!isResting) {
      const answer = await get("conversations", { filter: this.filter, limit: PAGE }).catch(() => null);
      if (!answer || this.isBusy) return;
      const fresh = new Set(answer.conversations.map((/** @type {any} */ one) => one.number));
      this.shown = [...answer.conversations, ...this.shown.filter((one) => !fresh.has(one.number) && one.last_seq < (answer.next ?? 0))].slice(0, MAX_ROWS);
      if (this.shown.length <= PAGE) this.next = answer.next;
      this.news.clear();
    }
    this.draw();
  }

  draw() {
    if (!this.body || !this.end || !this.waiting) return;
    keyed(this.body, this.shown, (one) => one.number, (one) => this.row(el("tr"), one), (row, one) => this.row(row, one));
    this.waiting.hidden = !this.isCut && !this.news.size;
    write(this.waiting, this.news.has(null) ? "Conversations changed: show" : this.news.size ? `${plural(this.news.size, "conversation")} changed: show` : "back to the newest");
    if (this.isBusy) return;
    if (!this.shown.length) fill(this.end, this.filter ? "No conversation fits this filter." : nothing());
    else if (this.next !== null) fill(this.end, "…");
    else fill(this.end, this.shown.length > 12 ? "That is all." : "");
    const links = this.links();
    if (!links.some((one) => one.tabIndex === 0) && links[0]) links[0].tabIndex = 0;
  }

  /** @param {HTMLTableRowElement} row @param {any} one */
  row(row, one) {
    const said = JSON.stringify(one);
    if (row.dataset.said === said) return row;
    const focused = row.contains(document.activeElement);
    const tab = row.querySelector("a")?.tabIndex ?? -1;
    row.dataset.said = said;
    const bad = one.errors > 0;
    const cell = (/** @type {string} */ kind, /** @type {any[]} */ ...children) => el("td", { class: kind }, children);
    const number = (/** @type {string} */ name, /** @type {string} */ value, /** @type {any} */ more = null) => el("td", { class: "number", "data-name": value === "–" ? null : name }, more, more && " of ", value);
    const asked = titleOf(one);
    const notes = costNotes(one).join(", ");
    const open = el("a", { href: link(["conversations", one.number]), tabindex: tab, title: asked || null, onfocus: () => rove(this.links(), open) }, asked || el("em", { class: "dim" }, "not recorded"));
    fill(
      row,
      cell("", el("span", { class: `mark ${bad ? "error" : "ok"}` }, icon(bad ? "error" : "ok"), el("span", { class: "hidden" }, bad ? plural(one.errors, "error") : "no errors"))),
      cell("time", el("time", { datetime: one.end_time, title: moment(one.end_time) }, day(one.end_time) ? moment(one.end_time).slice(0, -3) : clock(one.end_time))),
      cell("what", open, bad && el("span", { class: "tag error" }, plural(one.errors, "error"))),
      cell("wide", line(one.client) || "–"), cell("wide models", one.models.map(line).join(", ") || "–"),
      number("calls", exact(one.calls)), number("tools", one.tools ? exact(one.tools) : "–", one.tool_errors > 0 && el("a", { class: "bad", tabindex: -1, href: link(["failures"], { conversation: one.number }) }, `${exact(one.tool_errors)} failed`)),
      number("in", count(one.prompt_tokens)), cell("number wide dim", cachedShare(one).replace(" cached", "") || "–"),
      number("out", count(one.completion_tokens)),
      el("td", { class: "number", title: notes || null }, one.cost_usd != null && one.unpriced > 0 && el("span", { "aria-hidden": "true" }, "≥ "), costs(one), notes && el("span", { class: "hidden" }, ` ${notes}`)),
      cell("number", duration(lasted(one))),
    );
    if (focused) row.querySelector("a")?.focus();
    return row;
  }

  /** @returns {HTMLAnchorElement[]} */
  links() {
    return [.../** @type {NodeListOf<HTMLAnchorElement>} */ (this.body?.querySelectorAll("td.what a") ?? [])];
  }
}

function nothing() {
  return el(
    "span", { class: "nothing" }, el("b", null, "No conversations yet."), " A conversation is what grew out of one first request: an agent's calls, the turns of a chat. ",
    "A lone question with one answer is none. ", el("a", { href: link(["calls"]) }, "All calls"),
  );
}

customElements.define("spantap-conversations", Conversations);
