/**
 * What all charts share (spark.js, area.js, lanes.js), and bars in cells.
 *
 *   const spark = chart("spantap-spark", { … })
 *   spark.data = { … }                             new figures: drawn again, the cursor stays
 *   bar({ parts: [["a", 3], ["b", 1]], most: 10 })  a bar in the cell of a table
 *   key([["a", "system"], …])                      what the patterns mean
 *
 * - Each chart has one place for the keyboard, a slider: arrows move a cursor, whose words are read out
 *   and stand below it, Enter opens what is there. The same can be read as a table.
 * - Colour is never the only sign: every series also has a pattern, and a name beside it.
 * - Colours are custom properties of charts.css. Nothing moves by itself.
 * - At most MAX_SHAPES shapes are elements; a chart with more is drawn on a canvas.
 * - Nothing is drawn for an unknown value, not even a 0.
 */
import { el, fill, svg, write } from "./dom.js";
import { count } from "./words.js";

export const MAX_SHAPES = 2_000;

let made = 0;

/** @template {Chart} C @param {string} name @param {any} data @returns {C} */
export function chart(name, data) {
  const element = /** @type {any} */ (document.createElement(name));
  element.data = data;
  return element;
}

/** What each series is drawn with: a colour, and the lines of its pattern in a tile of 8 by 8. */
export const PATTERNS = /** @type {Record<string, string>} */ ({
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
      svg("rect", { width: 14, height: 14, rx: 2, fill: `url(#${own}-${name})` }));
    return el("li", null, swatch, words);
  }));
}

/**
 * A bar in the cell of a table: its number stands beside it, so it says nothing more.
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

/** A round number. @param {number} number */
export const brief = (number) => count(number).replace(/\.0(?=\D|$)/, "");

/** A chart: its drawing with a cursor, the words of the cursor, and a table. */
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
    this.rows = el("div", { class: "rows", tabindex: 0, role: "group", "aria-label": "Table" });
    this.table = el("details", { class: "as-table", ontoggle: () => this.fillTable() }, el("summary", null, "as a table"), this.rows);
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
