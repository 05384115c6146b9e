/**
 * Charts: a sparkline to choose a range in, a stacked area, bars in cells; lanes.js has the timeline.
 *
 *   const spark = chart("spantap-spark", { label, buckets, step, from, to, chosen, tall })
 *   spark.addEventListener("range", ({ detail }) => …)   { from, to } in ms, or null: no range any more
 *   spark.data = { … }                                    new figures: drawn again, the cursor stays
 *   bar({ parts: [["a", 3], ["b", 1]], most: 10, words })  a bar in the cell of a table
 *   key([["a", "system"], …])                             what the patterns mean
 *
 * Rules:
 * 1. Each chart has one place for the keyboard, a slider: arrows move a cursor, whose words are read out
 *    and stand below it, Enter opens what is there. What it shows can be read as a table, too.
 * 2. Colour is never the only sign: every series has a pattern of its own, and a name beside it.
 * 3. Colours are custom properties of charts.css. Nothing moves by itself.
 * 4. At most MAX_SHAPES shapes are elements; a chart of more is drawn on a canvas.
 * 5. Nothing is drawn for what is not known; there is no 0 in its place.
 */
import { el, fill, svg, write } from "./dom.js";
import { clock, count, day, exact, moment, plural } from "./words.js";

export const MAX_SHAPES = 2_000;
const MAX_WIDE = 40;

let made = 0;

/** @template {Chart} C @param {string} name @param {any} data @returns {C} */
export function chart(name, data) {
  const element = /** @type {any} */ (document.createElement(name));
  element.data = data;
  return element;
}

/** What each series is drawn with: a colour, and the lines of its pattern in a tile of 8 by 8. */
const PATTERNS = /** @type {Record<string, string>} */ ({
  a: "",
  b: "M-1 9L9 -1M-1 1L1 -1M7 9L9 7",
  c: "M0 2h8M0 6h8",
  d: "M1.5 2h1M5.5 6h1",
  error: "M-1 -1L9 9M-1 7L1 9M7 -1L9 1M-1 9L9 -1",
  wait: "M0 4h3M4 0h3",
  tool: "M-1 3L3 -1M-1 7L7 -1M1 9L9 1M5 9L9 5",
  cached: "M-1 9L9 -1M-1 5L5 -1M3 9L9 3",
});

/** Patterns for one drawing, and how a shape names them. @param {string} own @param {string[]} names */
export function patterns(own, names) {
  return svg("defs", {}, names.map((name) =>
    svg("pattern", { id: `${own}-${name}`, width: 8, height: 8, patternUnits: "userSpaceOnUse" },
      svg("rect", { class: `ink-${name}`, width: 8, height: 8 }), svg("path", { class: name === "cached" ? "shade" : "hatch", d: PATTERNS[name] }))));
}

/** The strokes of a pattern, for a canvas. @param {string} name */
export const strokes = (name) => new Path2D(PATTERNS[name]);

/** @param {[string, string][]} entries */
export function key(entries) {
  return el("ul", { class: "chart-key" }, entries.map(([name, words]) => {
    const own = `key${(made += 1)}`;
    const swatch = svg("svg", { width: 14, height: 14, "aria-hidden": "true" }, patterns(own, [name]),
      svg("rect", { class: "swatch", width: 14, height: 14, rx: 2, fill: `url(#${own}-${name})` }));
    return el("li", null, swatch, words);
  }));
}

/**
 * A bar in the cell of a table: its number stands beside it, so it says nothing of its own.
 * @param {{ parts: [string, number][], most: number }} options
 */
export function bar({ parts, most }) {
  const own = `bar${(made += 1)}`;
  let at = 0;
  const shapes = parts.filter(([, size]) => size > 0).map(([name, size]) => {
    const x = at;
    const width = most > 0 ? Math.max(0.5, (size / most) * 100) : 0;
    at += width;
    return svg("rect", { x: `${x}%`, width: `${width}%`, height: 10, fill: `url(#${own}-${name})` });
  });
  return svg("svg", { class: "bar", height: 10, "aria-hidden": "true" }, patterns(own, parts.map(([name]) => name)), shapes);
}

/** Round steps of an axis: 1, 2 or 5 times a power of ten. @param {number} most @param {number} lines */
export function steps(most, lines) {
  if (!(most > 0)) return [];
  const rough = most / lines;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough) ?? rough;
  return Array.from({ length: Math.floor(most / step) }, (_, at) => (at + 1) * step);
}

/** A chart: its drawing with a cursor, the words of the cursor, and a table (rule 1). */
export class Chart extends HTMLElement {
  constructor() {
    super();
    this.own = `chart${(made += 1)}`;
    /** @type {any} */
    this.figures = null;
    this.at = -1;
    this.width = 0;
    this.plot = el("div", {
      class: "plot", tabindex: 0, role: "slider", "aria-describedby": `${this.own}-help`,
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.press(event),
      onpointermove: (/** @type {PointerEvent} */ event) => this.point(event),
      onpointerleave: () => this.matches(":focus-within") || this.move(-1),
      onclick: (/** @type {MouseEvent} */ event) => this.hit(event),
      onfocus: () => this.at < 0 && this.plot.matches(":focus-visible") && this.move(this.first()),
      onblur: () => this.move(-1),
    });
    this.told = el("p", { class: "told", "aria-hidden": "true" });
    this.help = el("p", { class: "hidden", id: `${this.own}-help` });
    this.rows = el("div", { class: "rows" });
    this.table = el("details", { class: "as-table", ontoggle: () => this.fillTable() }, el("summary", null, "Table"), this.rows);
    this.watch = new ResizeObserver(() => {
      if (this.plot.clientWidth !== this.width) this.redraw();
    });
  }

  connectedCallback() {
    if (!this.firstChild) fill(this, this.plot, this.told, this.table, this.help);
    this.watch.observe(this.plot);
    this.redraw();
  }

  disconnectedCallback() {
    this.watch.disconnect();
  }

  /** @param {any} figures */
  set data(figures) {
    this.figures = figures;
    if (this.isConnected) this.redraw();
  }

  redraw() {
    this.width = this.plot.clientWidth;
    if (!this.figures || !this.width) return;
    this.at = Math.min(this.at, this.size() - 1);
    this.plot.setAttribute("aria-label", this.figures.label);
    this.plot.setAttribute("aria-valuemin", "0");
    this.plot.setAttribute("aria-valuemax", String(Math.max(0, this.size() - 1)));
    write(this.help, this.helping());
    this.draw();
    this.tell();
    if (this.table.open) this.fillTable();
  }

  /** @param {number} at */
  move(at) {
    if (at === this.at) return;
    this.at = at;
    this.tell();
    this.mark();
  }

  tell() {
    const words = this.at < 0 ? this.saying() : this.telling(this.at);
    this.plot.setAttribute("aria-valuenow", String(Math.max(0, this.at)));
    this.plot.setAttribute("aria-valuetext", words);
    write(this.told, words);
    this.told.classList.toggle("still", this.at < 0);
  }

  fillTable() {
    if (!this.table.open || !this.figures) return;
    const { head, rows } = this.listing();
    fill(this.rows, el("table", null, el("caption", { class: "hidden" }, this.figures.label),
      el("thead", null, el("tr", null, head.map((/** @type {string} */ one) => el("th", { scope: "col" }, one)))),
      el("tbody", null, rows.map((/** @type {any[]} */ row) => el("tr", null, row.map((one) => el("td", null, one)))))));
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const last = this.size() - 1;
    const ten = Math.max(1, Math.round(last / 10));
    const from = this.at < 0 ? this.first() - 1 : this.at;
    const to = { ArrowRight: from + 1, ArrowLeft: this.at - 1, PageUp: from + ten, PageDown: this.at - ten, Home: 0, End: last }[event.key];
    if (to !== undefined && last >= 0) this.go(Math.max(0, Math.min(last, to)), event);
    else if (event.key === "Enter" && this.at >= 0) this.enter(this.at, event);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** @param {number} at @param {KeyboardEvent} _event */
  go(at, _event) {
    this.move(at);
  }

  /** @param {PointerEvent} event */
  point(event) {
    this.move(this.find(event.offsetX, event.offsetY));
  }

  /** @param {MouseEvent} event */
  hit(event) {
    const at = this.find(event.offsetX, event.offsetY);
    if (at >= 0) this.enter(at, event);
  }

  /** Follow the address of a place. @param {string | null} to @param {KeyboardEvent | MouseEvent} event */
  follow(to, event) {
    if (!to) return;
    if (event.ctrlKey || event.metaKey) window.open(to, "_blank", "noopener");
    else location.hash = to;
  }

  first = () => 0;
  size = () => 0;
  draw() {}
  mark() {}
  saying = () => "";
  helping = () => "Arrow keys move, Enter opens the call.";
  /** @param {number} _at @returns {string} */
  telling = (_at) => "";
  /** @param {number} _x @param {number} _y @returns {number} */
  find = (_x, _y) => -1;
  /** @param {number} _at @param {KeyboardEvent | MouseEvent} _event */
  enter(_at, _event) {}
  /** @returns {{ head: string[], rows: any[][] }} */
  listing = () => ({ head: [], rows: [] });
}

/**
 * Calls and errors over time; a range is chosen by dragging, by Shift and arrows, or by a click on one bar.
 *
 * data: label; buckets: [{ time, calls, errors }], time in ms; step: ms of a bucket; from, to: ms;
 * chosen: { from, to } | null; tall: with axes.
 */
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

  /** How wide a bucket is: of a few ones the chart takes less than its room. */
  get wide() {
    return Math.min(MAX_WIDE, this.width / this.size());
  }

  helping = () => "Arrow keys move, with Shift they choose a range. Enter takes it, Escape leaves it.";
  /** @param {number} x */
  find = (x) => Math.max(0, Math.min(this.size() - 1, Math.floor(x / this.wide)));
  /** @param {number} at */
  time = (at) => this.start + at * this.figures.step;

  saying = () => {
    const { buckets, step } = this.figures;
    const calls = buckets.reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + one.calls, 0);
    const errors = buckets.reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + one.errors, 0);
    if (!calls) return "no calls";
    return `${plural(calls, "call")}, ${plural(errors, "error")}; a bar is ${spell(step)}`;
  };

  /** @param {number} at */
  telling = (at) => {
    const [low, high] = this.anchor < 0 ? [at, at] : [Math.min(at, this.anchor), Math.max(at, this.anchor)];
    let calls = 0;
    let errors = 0;
    for (const [place, one] of this.places) {
      if (place >= low && place <= high) {
        calls += one.calls;
        errors += one.errors;
      }
    }
    return `${moment(this.time(low))} – ${clock(this.time(high + 1))} · ${plural(calls, "call")}, ${plural(errors, "error")}`;
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
    const { wide } = this;
    this.places = new Map(buckets.map((/** @type {any} */ one) => [Math.floor((one.time - this.start) / step), one]));
    const most = Math.max(1, ...buckets.map((/** @type {any} */ one) => one.calls));
    const high = (/** @type {number} */ amount) => (amount > 0 ? Math.max(2, (amount / most) * (room - 6)) : 0);
    const shapes = [...this.places].filter(([at]) => at >= 0 && at < this.size()).flatMap(([at, one]) => {
      const x = at * wide;
      const width = Math.max(1, wide - (wide > 4 ? 1 : 0));
      const column = (/** @type {string} */ name, /** @type {number} */ amount) =>
        amount > 0 && svg("rect", { class: `mark-${name}`, x, y: room - high(amount), width, height: high(amount), fill: `url(#${this.own}-${name})` });
      return [column("a", one.calls), column("error", one.errors)];
    });
    const lines = tall ? steps(most, 3) : [];
    const pick = chosen && [(chosen.from - this.start) / step, (chosen.to - this.start) / step].map((one) => one * wide);
    this.range = svg("rect", { class: "range", y: 0, height: room });
    this.cursor = svg("rect", { class: "cursor", y: 0, width: wide, height: room });
    fill(this.plot, svg(
      "svg", { width: this.width, height, "aria-hidden": "true" }, patterns(this.own, ["a", "error"]),
      lines.map((line) => [svg("path", { class: "grid", d: `M0 ${room - high(line)}H${this.width}` })]),
      pick && svg("rect", { class: "chosen", x: pick[0], y: 0, width: Math.max(1, pick[1] - pick[0]), height: room }),
      shapes, svg("path", { class: "axis", d: `M0 ${room - 0.5}H${this.width}` }), this.range, this.cursor,
      lines.map((line) => svg("text", { class: "tick over", x: 2, y: room - high(line) - 3 }, brief(line))),
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
    const marks = [];
    for (let time = Math.ceil((from - zone) / step) * step + zone; time < to; time += step) {
      const words = step >= 86400e3 ? day(time) || "today" : step < 60e3 ? clock(time) : clock(time).slice(0, -3);
      const x = ((time - from) / (to - from)) * width;
      marks.push(svg("path", { class: "axis", d: `M${x} ${room}v4` }), x < this.width - 40 && svg("text", { class: "tick", x: x + 3, y: room + 13 }, words));
    }
    return marks;
  }

  mark() {
    if (!this.cursor || !this.range) return;
    const { wide } = this;
    const shown = this.anchor < 0 ? -1 : Math.min(this.at, this.anchor);
    this.cursor.setAttribute("x", String(this.at * wide));
    this.cursor.setAttribute("visibility", this.at < 0 ? "hidden" : "visible");
    this.range.setAttribute("visibility", shown < 0 ? "hidden" : "visible");
    this.range.setAttribute("x", String(Math.max(0, shown) * wide));
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

  /** @param {{ from: number, to: number } | null} detail */
  choose(detail) {
    this.dispatchEvent(new CustomEvent("range", { detail }));
  }
}

/** Steps of an axis of time, in ms. */
const TIMES = [1, 5, 15, 30, 60, 300, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800].map((one) => one * 1e3);

/** A round number. @param {number} number */
const brief = (number) => count(number).replace(/\.0(?=\D|$)/, "");

/** @param {number} ms */
function spell(ms) {
  for (const [size, word] of /** @type {[number, string][]} */ ([[86400e3, "day"], [3600e3, "hour"], [60e3, "minute"], [1e3, "second"]])) {
    if (ms >= size) return plural(Math.round(ms / size), word);
  }
  return `${exact(ms)} ms`;
}

/**
 * Parts of a whole, a step for each call, stacked; a part of it shaded, and marks. Steps, for between two
 * calls there is nothing.
 *
 * data: label; series: [{ name, words, values }], bottom first, null where not known; totals: values;
 * shaded: { words, values }; marks: [{ at, words }]; tell(at) -> text; href(at); listing() -> { head, rows }.
 */
class Area extends Chart {
  size = () => this.figures?.totals.length ?? 0;
  first = () => Math.max(0, this.size() - 1);
  saying = () => `${plural(this.size(), "call")}: point at one, or go through them with the arrow keys`;
  /** @param {number} at */
  telling = (at) => this.figures.tell(at);
  listing = () => this.figures.listing();
  /** @param {number} x */
  find = (x) => Math.max(0, Math.min(this.size() - 1, Math.floor((x - 44) / this.step)));
  /** The middle of a step. @param {number} at */
  x = (at) => 44 + (at + 0.5) * this.step;

  get step() {
    return Math.min(96, (this.width - 44) / this.size());
  }

  /** @param {number} at @param {KeyboardEvent | MouseEvent} event */
  enter(at, event) {
    this.follow(this.figures.href(at), event);
  }

  draw() {
    const { series, totals, shaded, marks } = this.figures;
    const room = Math.max(180, Math.min(380, this.width / 3));
    const most = Math.max(1, ...totals.map((/** @type {number | null} */ one) => one ?? 0));
    const y = (/** @type {number} */ amount) => 16 + (1 - amount / most) * (room - 16);
    const below = totals.map(() => 0);
    const layers = series.map((/** @type {any} */ one) => {
      const from = [...below];
      one.values.forEach((/** @type {number | null} */ value, /** @type {number} */ at) => (below[at] += value ?? 0));
      return svg("path", { class: `layer edge-${one.name}`, d: this.band(from, [...below], y), fill: `url(#${this.own}-${one.name})` });
    });
    const labels = Math.max(2, Math.floor(this.width / 90));
    const every = Math.max(1, Math.ceil(this.size() / labels));
    this.cursor = svg("path", { class: "cursor-line" });
    fill(this.plot, svg(
      "svg", { width: this.width, height: room + 20, "aria-hidden": "true" },
      patterns(this.own, series.map((/** @type {any} */ one) => one.name)),
      // The shade is of lines alone: the layers below it are to be seen.
      svg("defs", {}, svg("pattern", { id: `${this.own}-shade`, width: 8, height: 8, patternUnits: "userSpaceOnUse" }, svg("path", { class: "shade", d: PATTERNS.cached }))),
      steps(most, 4).map((one) => [svg("path", { class: "grid", d: `M44 ${y(one)}H${this.width}` }), svg("text", { class: "tick", x: 38, y: y(one) + 4, "text-anchor": "end" }, brief(one))]),
      layers,
      shaded && svg("path", { class: "shaded", d: this.band(totals.map(() => 0), shaded.values.map((/** @type {any} */ one) => one ?? 0), y), fill: `url(#${this.own}-shade)` }),
      svg("path", { class: "axis", d: `M44 ${room}H${this.width}` }),
      totals.map((/** @type {any} */ _, /** @type {number} */ at) => at % every === 0 && svg("text", { class: "tick", x: this.x(at), y: room + 14, "text-anchor": "middle" }, exact(at + 1))),
      marks.map((/** @type {any} */ one) => [
        svg("path", { class: "cut", d: `M${this.x(one.at)} 14V${room}` }),
        svg("text", { class: "tick strong", x: this.x(one.at), y: 11, "text-anchor": this.x(one.at) > this.width - 80 ? "end" : "middle" }, `▾ ${one.words}`),
      ]),
      this.cursor,
    ));
    this.room = room;
    this.mark();
  }

  /** @param {number[]} low @param {number[]} high @param {(amount: number) => number} y */
  band(low, high, y) {
    const half = this.step / 2;
    const line = (/** @type {number[]} */ values) => values.flatMap((one, at) => [-half, half].map((more) => `${this.x(at) + more} ${y(one)}`));
    return `M${line(high).join("L")}L${line(low).reverse().join("L")}Z`;
  }

  mark() {
    this.cursor?.setAttribute("d", this.at < 0 ? "" : `M${this.x(this.at)} 14V${this.room}`);
  }
}

customElements.define("spantap-spark", Spark);
customElements.define("spantap-area", Area);
