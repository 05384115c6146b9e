/**
 * The lists of sessions and of users: what the calls of each come to, the newest first.
 *
 * Address: #/sessions?filter=…&range=1h, #/users?…
 *
 * - No request reads for long: the sums of older calls come when somebody asks, and are added.
 * - Somebody who looks at the top sees new sums; further down the list stays as it is.
 */
import { latest } from "./api.js";
import { cachedShare, lasted, rove, step } from "./conversations.js";
import { el, fill, keyed, Screen, throttle } from "./dom.js";
import { all, condition } from "./filters.js";
import { keys } from "./keys.js";
import { live } from "./live.js";
import { address, link, setTitle, times } from "./state.js";
import { topBar } from "./top.js";
import { clock, costNotes, costs, count, day, duration, exact, line, moment, plural } from "./words.js";

const LIMIT = 300;
const NEWS_MS = 10_000;
const ADDED = ["calls", "errors", "prompt_tokens", "cached_tokens", "completion_tokens", "cost_usd", "unpriced", "list_usd", "saved_usd"];

class Groups extends Screen {
  by = "";
  asked = "";
  ask = latest();
  /** @type {any[]} */
  shown = [];
  /** @type {any} the newest answer */
  answer = null;
  unnamed = 0;
  body = el("tbody");
  head = el("thead");
  end = el("p", { class: "tail-end" });
  scroller = el("div", { class: "scroller" }, el("table", { class: "sheet" }, this.head, this.body), this.end);

  connectedCallback() {
    const links = () => /** @type {HTMLElement[]} */ ([...this.body.querySelectorAll("a")]);
    const refresh = throttle(() => NEWS_MS, () => this.scroller.scrollTop < 40 && !this.body.contains(document.activeElement) && void this.load());
    this.body.addEventListener("focusin", (event) => rove(links(), /** @type {HTMLElement} */ (event.target)));
    this.stops = [
      () => this.ask.stop(), live.on("recorded", refresh),
      keys("Sessions and users", {
        j: ["next, previous line", () => step(links(), 1), "j k"], k: [null, () => step(links(), -1)],
        ArrowDown: [null, () => step(links(), 1)], ArrowUp: [null, () => step(links(), -1)],
        Home: [null, () => step(links(), -Infinity)], End: [null, () => step(links(), Infinity)], "/": ["filter", () => this.top?.focus()],
      }),
    ];
  }

  /** @param {Address} where */
  show(where) {
    const [name] = where.path;
    if (name !== this.by) {
      this.by = name;
      this.asked = "";
      const other = name === "users" ? "sessions" : "users";
      this.top = topBar({ title: name === "users" ? "Users" : "Sessions", placeholder: "Filter: model:gpt-5*  client:codex  status:error", extra: el("a", { class: "button", href: link([other]) }, `By ${other.slice(0, -1)}`) });
      setTitle(name === "users" ? "Users" : "Sessions");
      fill(this, this.top.element, this.scroller);
    }
    this.top?.show(where);
    const { filter, range, from, to } = where.query;
    const asked = JSON.stringify([filter, range, from, to]);
    if (asked === this.asked) return;
    this.asked = asked;
    live.want({ filter: "", text: [] });
    fill(this.end, "…");
    void this.load();
  }

  /** @param {number} [before] the number from which on it was read */
  async load(before) {
    const { query } = address.value;
    try {
      const answer = await this.ask("groups", { by: this.by.slice(0, -1), filter: query.filter, ...times(query), before, limit: LIMIT });
      this.top?.fault(null);
      this.shown = before ? merge(this.shown, answer.groups) : answer.groups;
      this.unnamed = answer.unnamed + (before ? this.unnamed : 0);
      this.answer = answer;
      this.draw();
    } catch (error) {
      const fault = /** @type {import("./api.js").ApiError} */ (error);
      if (fault.code === "filter") return this.top?.fault(fault);
      fill(this.end, fault.message, " ", el("button", { onclick: () => void this.load(before) }, "Try again"));
    }
  }

  draw() {
    const word = this.by.slice(0, -1);
    const { next, searched_to: to, left_out: isCut } = this.answer;
    const columns = [["Last", ""], [word === "user" ? "User" : "Session", ""], ["Asked last", "wide"], ["Client", "wide"], ["Model", "wide"], ["Calls", "number"], ["Errors", "number"], ["In", "number"], ["Cached", "number wide"], ["Out", "number"], ["Cost", "number"], ["From first to last", "number wide"]];
    fill(this.head, el("tr", null, columns.map(([words, kind]) => el("th", { scope: "col", class: kind }, words))));
    // A line is drawn anew where anything of it has changed.
    keyed(this.body, this.shown, (one) => JSON.stringify(one), (one) => row(one, word));
    const [first] = this.body.querySelectorAll("a");
    if (first && !this.body.querySelector("a[tabindex='0']")) first.tabIndex = 0;
    fill(this.end,
      !this.shown.length && !next && `No call has a ${word}. `, this.unnamed > 0 && `${plural(this.unnamed, "call")} without a ${word}. `, isCut && "Older ones are not shown: narrow them by a filter or a time range. ",
      next && [`These are the calls since ${moment(to)}. `, el("button", { onclick: () => void this.load(next) }, "Add older ones")],
      !this.shown.length && !next && `Clients name it by the header x-spantap-${word}-id.`);
  }
}

/** Sums with those of older calls. @param {any[]} known @param {any[]} older */
function merge(known, older) {
  const found = new Map(known.map((one) => [one.value, one]));
  for (const one of older) {
    const now = found.get(one.value);
    if (!now) found.set(one.value, one);
    else {
      const sums = ADDED.map((name) => [name, now[name] == null ? one[name] : now[name] + (one[name] ?? 0)]);
      found.set(one.value, { ...now, ...Object.fromEntries(sums), start_time: one.start_time });
    }
  }
  return [...found.values()];
}

/** @param {any} one @param {string} word */
function row(one, word) {
  const { filter, range, from, to } = address.value.query;
  const calls = link(["calls"], { filter: all(filter, condition(word, one.value)), range, from, to });
  const notes = costNotes(one).join(", ");
  const cell = (/** @type {string} */ kind, /** @type {any[]} */ ...children) => el("td", { class: kind }, children);
  return el(
    "tr", null,
    cell("time", el("time", { datetime: one.end_time, title: moment(one.end_time) }, day(one.end_time) ? moment(one.end_time).slice(0, -3) : clock(one.end_time))),
    cell("what", el("a", { href: calls, tabindex: -1, title: line(one.value) }, line(one.value))),
    cell("wide asked", line(one.preview) || "–"), cell("wide", line(one.client) || "–"), cell("wide models", line(one.model) || "–"),
    cell("number", exact(one.calls)), cell(one.errors ? "number bad" : "number", exact(one.errors)),
    cell("number", count(one.prompt_tokens)), cell("number wide dim", cachedShare(one).replace(" cached", "") || "–"), cell("number", count(one.completion_tokens)),
    el("td", { class: "number", title: notes || null }, one.cost_usd != null && one.unpriced > 0 && "≥ ", costs(one), notes && el("span", { class: "hidden" }, ` ${notes}`)),
    cell("number wide", duration(lasted(one))),
  );
}

customElements.define("spantap-groups", Groups);
