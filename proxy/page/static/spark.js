/**
 * Calls and errors over time; a range is chosen by dragging, by Shift and arrows, or by a click on one bar.
 *
 *   const spark = chart("spantap-spark", null)
 *   spark.data = sparkData(answer, { tall, chosen })     of an answer of `stats`; tall: with axes;
 *                                                        chosen: { from, to } as in an address
 *
 * Rule: the range that is chosen goes into the address, as `from` and `to`.
 */
import { brief, Chart, patterns, steps } from "./charts.js";
import { fill, svg } from "./dom.js";
import { change } from "./state.js";
import { clock, day, exact, moment, plural } from "./words.js";

const LABELS = 36; // pixels beside a tall chart, for the numbers of its lines

/**
 * What the chart shows of an answer of `stats`: from the first call to the last one, and the range that is chosen.
 * @param {any} answer
 * @param {{ tall?: boolean, chosen?: { from: string | null, to: string | null } }} options
 */
export function sparkData(answer, { tall = false, chosen }) {
  const step = answer.step_seconds * 1000;
  const seen = answer.buckets.filter((/** @type {any} */ one) => one.calls).map((/** @type {any} */ one) => Date.parse(one.time));
  const ends = [Date.parse(chosen?.from ?? ""), Date.parse(chosen?.to ?? "")].filter((one) => one);
  const from = Math.max(Date.parse(answer.from), Math.min(seen[0] ?? -Infinity, ...ends));
  const to = Math.min(Date.parse(answer.to), Math.max(seen.at(-1) + step || Infinity, ...ends));
  return {
    label: "Calls and errors over time", from, to, step, tall,
    buckets: answer.buckets.map((/** @type {any} */ one) => ({ ...one, time: Date.parse(one.time) })).filter((/** @type {any} */ one) => one.time + step > from && one.time < to),
    chosen: chosen && (chosen.from || chosen.to)
      ? { from: Date.parse(chosen.from ?? "") || from, to: Date.parse(chosen.to ?? "") || to } : null,
  };
}

class Spark extends Chart {
  constructor() {
    super();
    /** @type {{ start: number, x: number, id: number } | null} where a drag began */
    this.drag = null;
    this.anchor = -1;
    /** @type {Map<number, any>} the buckets by their place */
    this.places = new Map();
    this.plot.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      this.drag = { start: this.find(event.offsetX), x: event.offsetX, id: event.pointerId };
    });
    this.plot.addEventListener("pointerup", (event) => this.drop(event));
    this.plot.addEventListener("pointercancel", () => this.letGo());
  }

  size = () => (this.figures ? Math.max(1, Math.ceil((this.figures.to - this.start) / this.figures.step)) : 0);

  /** The first bucket may begin before the time that was asked for. */
  get start() {
    const { from, buckets } = this.figures;
    return Math.min(from, buckets[0]?.time ?? from);
  }

  first = () => Math.max(0, this.size() - 1);

  /** How wide a bucket is: all of them fill the chart. */
  get wide() {
    return (this.width - this.left) / this.size();
  }

  /** Where the first bucket begins. */
  get left() {
    return this.figures.tall ? LABELS : 0;
  }

  helping = () => "Arrow keys move, with Shift they choose a range. Enter takes it, Escape leaves it.";
  /** @param {number} x */
  find = (x) => Math.max(0, Math.min(this.size() - 1, Math.floor((x - this.left) / this.wide)));
  /** @param {number} at */
  time = (at) => this.start + at * this.figures.step;

  saying = () => {
    const { buckets, step } = this.figures;
    const isEmpty = !buckets.some((/** @type {any} */ one) => one.calls);
    return isEmpty ? "no calls" : `${sumWords(buckets)}; a bar is ${spell(step)}`;
  };

  /** @param {number} at */
  telling = (at) => {
    const [low, high] = this.anchor < 0 ? [at, at] : [Math.min(at, this.anchor), Math.max(at, this.anchor)];
    const within = [...this.places].filter(([place]) => place >= low && place <= high).map(([, one]) => one);
    return `${moment(this.time(low))} – ${clock(this.time(high + 1))} · ${sumWords(within)}`;
  };

  listing = () => ({
    head: ["Time", "Calls", "Errors"],
    rows: this.figures.buckets.map((/** @type {any} */ one) => [moment(one.time), exact(one.calls), exact(one.errors)]),
  });

  draw() {
    const { buckets, tall, chosen, step } = this.figures;
    const height = tall ? 150 : 44;
    const foot = tall ? 18 : 0;
    const room = height - foot;
    const { wide, left } = this;
    this.places = new Map(buckets.map((/** @type {any} */ one) => [Math.floor((one.time - this.start) / step), one]));
    const most = Math.max(1, ...buckets.map((/** @type {any} */ one) => one.calls));
    const high = (/** @type {number} */ amount) => (amount > 0 ? Math.max(2, (amount / most) * (room - 6)) : 0);
    const shapes = [...this.places].filter(([at]) => at >= 0 && at < this.size()).flatMap(([at, one]) => {
      const x = left + at * wide;
      const width = Math.max(1, wide - (wide > 4 ? 1 : 0));
      const column = (/** @type {string} */ name, /** @type {number} */ amount) =>
        amount > 0 && svg("rect", { x, y: room - high(amount), width, height: high(amount), fill: `url(#${this.own}-${name})` });
      return [column("a", one.calls), column("error", one.errors)];
    });
    const lines = tall ? [0, ...steps(most, 3)] : [];
    const pick = chosen && [(chosen.from - this.start) / step, (chosen.to - this.start) / step].map((one) => left + one * wide);
    this.range = svg("rect", { class: "range", y: 0, height: room });
    this.cursor = svg("rect", { class: "cursor", y: 0, width: wide, height: room });
    fill(this.plot, svg(
      "svg", { width: this.width, height, "aria-hidden": "true" }, patterns(this.own, ["a", "error"]),
      lines.map((line) => [svg("path", { class: "grid", d: `M${left} ${room - high(line)}H${this.width}` }), svg("text", { class: "tick", x: left - 6, y: room - high(line) + 4, "text-anchor": "end" }, brief(line))]),
      pick && svg("rect", { class: "chosen", x: pick[0], y: 0, width: Math.max(1, pick[1] - pick[0]), height: room }),
      shapes, svg("path", { class: "axis", d: `M${left} ${room - 0.5}H${this.width}` }), this.range, this.cursor,
      tall && this.times(room),
    ));
    this.mark();
  }

  /** @param {number} room */
  times(room) {
    const from = this.start;
    const to = this.time(this.size());
    const width = this.wide * this.size();
    const labels = Math.max(1, Math.min(8, Math.floor(width / 110)));
    const step = TIMES.find((one) => (to - from) / one <= labels) ?? Math.ceil((to - from) / labels / 86400e3) * 86400e3;
    const zone = new Date(from).getTimezoneOffset() * 60e3; // round times are those of the clock on the wall
    const words = (/** @type {number} */ time) => (step >= 86400e3 ? day(time) || "today" : clock(time).slice(0, -3));
    const marks = [];
    for (let time = Math.ceil((from - zone) / step) * step + zone; time < to; time += step) {
      const x = this.left + ((time - from) / (to - from)) * width;
      marks.push(svg("path", { class: "axis", d: `M${x} ${room}v4` }), x < this.width - 40 && svg("text", { class: "tick", x: x + 3, y: room + 13 }, words(time)));
    }
    return marks.length ? marks : [svg("text", { class: "tick", x: this.left, y: room + 13 }, words(from))];
  }

  mark() {
    if (!this.cursor || !this.range) return;
    const { wide, left } = this;
    const shown = this.anchor < 0 ? -1 : Math.min(this.at, this.anchor);
    this.cursor.setAttribute("x", String(left + this.at * wide));
    this.cursor.setAttribute("visibility", this.at < 0 ? "hidden" : "visible");
    this.range.setAttribute("visibility", shown < 0 ? "hidden" : "visible");
    this.range.setAttribute("x", String(left + Math.max(0, shown) * wide));
    this.range.setAttribute("width", String((Math.abs(this.at - this.anchor) + 1) * wide));
  }

  /** @param {number} at @param {KeyboardEvent} event */
  go(at, event) {
    if (event.shiftKey && this.anchor < 0) this.anchor = this.at < 0 ? at : this.at;
    if (!event.shiftKey) this.anchor = -1;
    this.move(at);
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    if (event.key !== "Escape") return super.press(event);
    event.stopPropagation();
    if (this.anchor >= 0) this.letGo();
    else if (this.figures.chosen) this.choose(null);
  }

  /** @param {PointerEvent} event */
  point(event) {
    if (this.drag && this.anchor < 0 && Math.abs(event.offsetX - this.drag.x) > 4) {
      this.anchor = this.drag.start;
      this.plot.setPointerCapture(this.drag.id);
    }
    super.point(event);
    if (this.anchor >= 0) this.mark();
  }

  /** @param {PointerEvent} event */
  drop(event) {
    const was = this.drag;
    this.drag = null;
    if (!was) return;
    this.take(this.anchor < 0 ? was.start : this.anchor, this.anchor < 0 ? was.start : this.find(event.offsetX));
  }

  hit() {} // a drop has said all

  /** @param {number} at */
  enter(at) {
    this.take(this.anchor < 0 ? at : this.anchor, at);
  }

  letGo() {
    this.drag = null;
    this.anchor = -1;
    this.tell();
    this.mark();
  }

  /** @param {number} one @param {number} other */
  take(one, other) {
    this.letGo();
    this.choose({ from: this.time(Math.min(one, other)), to: this.time(Math.max(one, other) + 1) });
  }

  /** Into the address; null: no range any more. @param {{ from: number, to: number } | null} range in ms */
  choose(range) {
    const iso = (/** @type {number} */ time) => new Date(time).toISOString();
    change({ range: null, from: range && iso(range.from), to: range && iso(range.to) });
  }
}

/** Steps of an axis of time, in ms; a bar is a minute at least. */
const TIMES = [60, 300, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800].map((one) => one * 1e3);

/** Calls and errors of buckets. @param {any[]} buckets */
function sumWords(buckets) {
  const calls = buckets.reduce((all, one) => all + one.calls, 0);
  const errors = buckets.reduce((all, one) => all + one.errors, 0);
  return `${plural(calls, "call")}, ${plural(errors, "error")}`;
}

/** The length of a bar in words. @param {number} ms a minute or more */
function spell(ms) {
  if (ms >= 86400e3) return plural(Math.round(ms / 86400e3), "day");
  if (ms >= 3600e3) return plural(Math.round(ms / 3600e3), "hour");
  return plural(Math.round(ms / 60e3), "minute");
}

customElements.define("spantap-spark", Spark);
