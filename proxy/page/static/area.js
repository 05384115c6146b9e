/**
 * Parts of a whole, a step for each call, stacked; a part of it shaded, and marks. Steps, for between two
 * calls there is nothing.
 *
 *   chart("spantap-area", { label, series, totals, shaded, marks, tell, href, listing })
 *     series: [{ name, words, values }], bottom first, null where not known; totals: values;
 *     shaded: { words, values }; marks: [{ at, words }]; tell(at) -> text; href(at);
 *     listing() -> { head, rows }
 */
import { brief, Chart, PATTERNS, patterns, steps } from "./charts.js";
import { fill, svg } from "./dom.js";
import { exact, plural } from "./words.js";

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
      return svg("path", { class: "layer", d: this.band(from, [...below], y), fill: `url(#${this.own}-${one.name})` });
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

customElements.define("spantap-area", Area);
