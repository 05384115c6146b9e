/**
 * The overview: calls and errors over time, tokens, costs, how long it took, by model; the extremes.
 *
 * - Every number leads to the calls behind it: the same filter and times, and the condition of the number.
 * - News is requested at most every five seconds, and not while somebody points at the chart.
 */
import { latest } from "./api.js";
import { bar, chart, key } from "./charts.js";
import { el, fill, Screen, throttle } from "./dom.js";
import { all, condition } from "./filters.js";
import { icon, mark } from "./icons.js";
import { keys } from "./keys.js";
import { live } from "./live.js";
import { sparkData } from "./spark.js";
import { change, link, times } from "./state.js";
import { topBar } from "./top.js";
import { costNotes, costs, count, dollars, duration, exact, line, moment, plural, titleOf } from "./words.js";

const NEWS_MS = 5_000;

/** What part of the calls took at most so long. */
const [HALF, NINE, MOST] = ["Half", "9 of 10", "99 of 100"];

/** Columns by what they are sorted by; a model of which it is not known comes last. */
const COLUMNS = /** @type {[string, string, (one: any) => any][]} */ ([
  ["Model", "", (one) => one.model], ["Calls", "number", (one) => one.calls], ["Errors", "number", (one) => one.errors],
  ["In", "number", (one) => one.prompt_tokens], ["Cached", "number wide", share], ["Out", "number", (one) => one.completion_tokens],
  ["Out / s", "number wide", (one) => one.output_tokens_per_second], ["Cost", "number", (one) => one.cost_usd], ["", "drawn wide", () => 0],
  [HALF, "number", (one) => one.duration_ms?.p50], [NINE, "number", (one) => one.duration_ms?.p90], [MOST, "number", (one) => one.duration_ms?.p99], ["", "drawn wide", () => 0],
]);

/** @param {any} one */
function share(one) {
  return one.prompt_tokens && one.cached_tokens != null ? one.cached_tokens / one.prompt_tokens : null;
}

/** @param {number | null} part */
const percent = (part) => (part == null ? "–" : `${part > 0 && part < 0.01 ? "< 1" : Math.round(part * 100)} %`);

class Overview extends Screen {
  ask = latest();
  askTalks = latest();
  askRuns = latest();
  ranks = el("div", { class: "extremes ranks" });
  /** @type {Record<string, string>} */
  query = {};
  /** @type {any} */
  answer = null;
  sort = "Cost";
  isUp = false;

  connectedCallback() {
    this.top = topBar({ title: "Overview" });
    this.body = el("div", { class: "scroller survey" }, el("p", { class: "tail-end" }, "…"));
    this.spark = chart("spantap-spark", null);
    fill(this, this.top.element, this.body);
    const refresh = throttle(() => NEWS_MS, () => {
      if (!this.spark?.matches(":hover, :focus-within")) void this.load();
    });
    this.stops = [
      () => [this.ask, this.askTalks, this.askRuns].forEach((one) => one.stop()),
      live.on("recorded", refresh),
      keys("Overview", { "/": ["filter", () => this.top?.focus()] }),
    ];
  }

  /** @param {Address} where */
  show(where) {
    this.top?.show(where);
    this.query = where.query;
    live.want({ filter: "", text: [] });
    void this.load();
  }

  async load() {
    try {
      this.answer = await this.ask("stats", { ...times(this.query), filter: this.query.filter });
    } catch (error) {
      const { code, message } = /** @type {import("./api.js").ApiError} */ (error);
      if (code === "filter") return this.top?.fault(/** @type {any} */ (error));
      if (code !== "token" && this.body) fill(this.body, el("p", { class: "tail-end" }, message, " ", el("button", { onclick: () => void this.load() }, "Try again")));
      return;
    }
    this.top?.fault(null);
    this.draw();
    void this.rank();
  }

  /** Rank conversations and runs. */
  async rank() {
    const query = { ...times(this.query), filter: this.query.filter };
    try {
      const [talks, runs] = [await this.askTalks("rankings", { by: "conversation", ...query }), await this.askRuns("rankings", { by: "run", ...query })];
      const lists = [talks, runs].flatMap(({ by, dearest, longest }) => [
        ranking(`Most expensive ${by}s`, by, dearest, costs, dearWords), ranking(`Longest ${by}s`, by, longest, (one) => duration(one.took_ms), longWords)]);
      const back = talks.searched_to ?? runs.searched_to;
      fill(this.ranks, lists, back && el("p", { class: "dim" }, `Calls before ${moment(back)} were not read.`));
    } catch (error) {
      fill(this.ranks); // the figures above say what is wrong
    }
  }

  /** The calls behind a number. @param {...string} words */
  calls(...words) {
    const { filter, range, from, to } = this.query;
    return link(["calls"], { filter: all(filter, ...words), range, from, to });
  }

  draw() {
    const { body, spark, answer } = this;
    if (!body || !spark) return;
    const { totals, complete } = answer;
    const focused = document.activeElement;
    const top = body.scrollTop;
    if (!totals.calls) {
      const narrowed = Object.keys(this.query).length > 0;
      fill(body, el("p", { class: "tail-end" }, narrowed ? "No call fits this filter and time." : "No calls yet. What goes through spantap will be summed up here."));
      return;
    }
    spark.data = sparkData(answer, { tall: true });
    if (!spark.isConnected) fill(body);
    const chosen = this.query.from || this.query.to;
    const parts = [
      this.sums(totals),
      el("section", { class: "over-time" }, el("header", null, el("h2", null, "Calls and errors"), key([["a", "calls"], ["error", "errors among them"]]),
        chosen && el("button", { onclick: () => change({ from: null, to: null, range: null }) }, "Any time"), el("a", { class: "button", href: this.calls() }, "Show these calls")), spark),
      answer.unpriced.length > 0 && el("ul", { class: "notes" }, answer.unpriced.map((/** @type {any} */ gap) =>
        el("li", null, icon("info"), el("span", null, el("a", { href: this.calls("unpriced:*") }, "A cost is unknown"), `: ${[gap.why, gap.mend].filter(Boolean).join("; ")}.`)))),
      this.models(), this.ranks,
      el("div", { class: "extremes" }, this.extreme("Slowest", answer.slowest, (one) => duration(one.duration_ms)), this.extreme("Most expensive", answer.dearest, (one) => dollars(one.cost_usd)), this.failed()),
      !complete && el("p", { class: "dim" }, "There was no time to look at all of these calls: durations and lists, and with a filter all figures, are of a part of them."),
    ];
    // The chart stays where it is, with its cursor; what is around it is new.
    fill(body, parts);
    body.scrollTop = top;
    if (focused instanceof HTMLElement && focused.isConnected && focused !== document.activeElement) focused.focus();
  }

  /** @param {any} totals */
  sums(totals) {
    const { p50, p90, p99 } = totals.duration_ms ?? {};
    /** @type {[string, string, any, string][]} */
    const sums = [
      ["calls", exact(totals.calls), "", this.calls()],
      ["errors", exact(totals.errors), [totals.calls && [percent(totals.errors / totals.calls), " · "], this.failedSteps("failed tools", "kind:tool")], this.calls("status:error")],
      ["tokens in", count(totals.prompt_tokens), totals.cached_tokens == null ? "" : `${percent(share(totals))} cached`, this.calls("in>0")],
      ["tokens out", count(totals.completion_tokens), "", this.calls("out>0")],
      ["cost", costs(totals), costNotes(totals).join(", "), this.calls("cost>0")],
      [`${HALF.toLowerCase()} took at most`, duration(p50), "", this.calls(p50 == null ? "" : `dur<=${ms(p50)}`)],
      [`${NINE} took at most`, duration(p90), "", this.calls(p90 == null ? "" : `dur<=${ms(p90)}`)],
      [`${MOST} took at most`, duration(p99), "", this.calls(p99 == null ? "" : `dur<=${ms(p99)}`)],
    ];
    return el("dl", { class: "amounts tall" }, sums.map(([name, value, more, to]) =>
      el("div", null, el("dt", null, name), el("dd", null, value === "–" ? value : el("a", { href: to, class: name === "errors" && totals.errors ? "bad" : null }, value), more && el("small", null, " ", more)))));
  }

  models() {
    const [, , value] = COLUMNS.find(([name]) => name === this.sort) ?? COLUMNS[1];
    const turn = this.isUp ? 1 : -1;
    const rank = (/** @type {any} */ one) => value(one) ?? (typeof value(one) === "string" ? "" : -Infinity);
    const groups = [...this.answer.groups].sort((one, other) => {
      const [a, b] = [rank(one), rank(other)];
      return a === b ? other.calls - one.calls : (a < b ? -1 : 1) * turn;
    });
    const dearest = Math.max(0, ...groups.map((one) => one.cost_usd ?? 0));
    const slowest = Math.max(0, ...groups.map((one) => one.duration_ms?.p99 ?? 0));
    return el(
      "section", { class: "by-model" }, el("header", null, el("h2", null, "By model"), key([["a", `${HALF.toLowerCase()} took at most`], ["b", NINE], ["c", MOST]])),
      el("div", { class: "scroller-x", tabindex: 0, role: "group", "aria-label": "Table by model" }, el(
        "table", { class: "sheet" }, el("caption", { class: "hidden" }, "Calls, tokens, costs and durations by model"),
        el("thead", null, el("tr", null, COLUMNS.map(([name, kind]) => this.heading(name, kind)))),
        el("tbody", null, groups.map((one) => this.group(one, dearest, slowest))),
      )),
    );
  }

  /** @param {string} name @param {string} kind */
  heading(name, kind) {
    if (!name) return el("td", { class: kind });
    const isSorted = name === this.sort;
    const sort = () => {
      this.isUp = isSorted ? !this.isUp : name === "Model";
      this.sort = name;
      this.draw();
      /** @type {HTMLElement | null} */ (this.querySelector(`[data-sort="${name}"]`))?.focus();
    };
    return el("th", { scope: "col", class: kind, "aria-sort": isSorted ? (this.isUp ? "ascending" : "descending") : null },
      el("button", { class: "plain", "data-sort": name, onclick: sort }, name, isSorted && el("span", { "aria-hidden": "true" }, this.isUp ? " ↑" : " ↓")));
  }

  /** @param {any} one @param {number} dearest @param {number} slowest */
  group(one, dearest, slowest) {
    const mine = [condition("model", one.model), condition("upstream", one.upstream)];
    const cell = (/** @type {string} */ kind, /** @type {string} */ value, /** @type {string[]} */ ...words) =>
      el("td", { class: `number ${kind}` }, value === "–" || value === "0" ? value : el("a", { href: this.calls(...mine, ...words) }, value));
    const { p50, p90, p99 } = one.duration_ms ?? {};
    return el(
      "tr", null,
      el("th", { scope: "row" }, el("a", { href: this.calls(...mine) }, line(one.model) || el("em", null, "unknown")), el("span", { class: "dim" }, ` ${line(one.upstream)}`)),
      cell("", exact(one.calls)),
      el("td", { class: "number" }, one.errors ? el("a", { class: "bad", href: this.calls(...mine, "status:error") }, `${exact(one.errors)} · ${percent(one.errors / one.calls)}`) : "0"),
      cell("", count(one.prompt_tokens)), el("td", { class: "number wide" }, percent(share(one))), cell("", count(one.completion_tokens)),
      el("td", { class: "number wide" }, one.output_tokens_per_second == null ? "–" : one.output_tokens_per_second.toFixed(0)),
      cell("", costs(one), "cost>0"),
      el("td", { class: "drawn wide" }, one.cost_usd != null && bar({ parts: [["a", one.cost_usd]], most: dearest })),
      cell("", duration(p50), `dur<=${ms(p50)}`), cell("", duration(p90), `dur<=${ms(p90)}`), cell("", duration(p99), `dur<=${ms(p99)}`),
      el("td", { class: "drawn wide" }, p99 != null && bar({ parts: [["a", p50], ["b", p90 - p50], ["c", p99 - p90]], most: slowest })),
    );
  }

  /** @param {string} title @param {Row[]} rows @param {(row: Row) => string} value */
  extreme(title, rows, value) {
    return el("section", null, el("h2", null, title), rows.length ? el("ol", null, rows.map((row) => el(
      "li", null, mark(row), el("a", { href: link(["calls", row.span_id]) }, el("b", null, value(row)), el("span", { class: "what" }, line(row.what) || line(row.name))),
      el("span", { class: "dim" }, line(row.model)),
    ))) : el("p", { class: "dim" }, "None is known."));
  }

  /** Where all that failed is listed, tools too. @param {string} words @param {string} [more] a condition */
  failedSteps(words, more) {
    const { filter, range, from, to } = this.query;
    return el("a", { class: "dim", href: link(["failures"], { filter: all(filter, more), range, from, to }) }, words);
  }

  failed() {
    const { failed } = this.answer;
    return el("section", null, el("h2", null, "Most failed", " ", this.failedSteps("all steps that failed")), failed.length ? el("ol", null, failed.map((/** @type {any} */ one) => el(
      "li", null, mark(one.last), el("a", { href: this.calls("status:error", condition("error", one.error_type)) }, el("b", null, plural(one.calls, "call")),
        el("span", { class: "what" }, httpStatus(one.error_type) || line(one.last.outcome).replaceAll("_", " ") || "unknown")),
      el("a", { class: "dim", href: link(["calls", one.last.span_id]), title: plural(one.calls, "call") }, `last ${moment(one.last.start_time)}`),
    ))) : el("p", { class: "dim" }, "No call failed."));
  }
}

/** @param {string} title @param {string} by @param {any[]} listed @param {(one: any) => string} value @param {(one: any) => any[]} why */
function ranking(title, by, listed, value, why) {
  return listed.length > 0 && el("section", null, el("h2", null, title), el("ol", null, listed.map((one) => el(
    "li", null, el("a", { href: link([`${by}s`, one.key]), title: `${by} ${one.key}` }, el("b", null, value(one)), el("span", { class: "what" }, titleOf(one) || `${by} ${one.key}`)),
    el("span", { class: "dim", title: plural(one.calls, "call") }, why(one).filter(Boolean).join(" · "))))));
}

/** Why a cost is as it is. @param {any} one */
const dearWords = ({ input_share: input, saved_usd: saved, cost_usd: cost }) => [
  input != null && `${percent(input)} is input`, saved > 0 && `cache saved ${percent(saved / (cost + saved))}`];

/** Where time went. @param {any} one */
const longWords = ({ model_ms: model, tools_ms: tools, took_ms: took }) => (took > 0 && model != null ? [`model ${percent(model / took)}`, tools > 0 && `tools ${percent(tools / took)}`] : []);

/** A type of errors; a number alone is a status of HTTP. @param {string | null} type */
const httpStatus = (type) => (/^\d{3}$/.test(type ?? "") ? `HTTP ${type}` : line(type));

/** A duration for a filter. @param {number} value in ms */
const ms = (value) => `${Math.round(value)}ms`;

customElements.define("spantap-overview", Overview);
