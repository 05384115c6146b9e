/**
 * Bars in lanes over time: what an agent did, what ran beside it.
 *
 *   chart("spantap-lanes", { label, bars, rows, boxes, tell, href, listing })
 *     bars: [{ row, start, end, first, kind: "a" | "tool" | "error", words, took }] by start, times in ms;
 *           `first` is when the first output came: what is before it is drawn as waiting
 *     rows: [{ words, level }], the lanes from above
 *     boxes: [{ from, to, start, end, words }]: rows (`to` is the last) that belong together
 *     tell(bar) -> text; href(bar); listing() -> { head, rows }
 *
 * As in charts.js, and:
 * - A gap in which nothing ran is folded if it would take most of the width; it shows its length.
 * - A bar is always wide enough to be seen and hit.
 */
import { Chart, MAX_SHAPES, patterns, strokes } from "./charts.js";
import { el, fill, svg } from "./dom.js";

const ROW = 22;
const BAR = 16;
const HEAD = 20;
const FOLD = 64;
const FOLD_SHARE = 0.25; // of what is not idle
const MIN_FOLD_MS = 1_000;
const CHAR = 6.3; // of the tick type, on average
const PLATES = /** @type {Record<string, string>} */ ({ "plate-a": "--accent-soft", "plate-tool": "--surface", "plate-error": "--bad-soft" });
const INKS = /** @type {Record<string, string>} */ ({ a: "--series-1", wait: "--chart-wait", tool: "--chart-tool", error: "--bad" });

/**
 * Makes places from times, with long gaps folded.
 * @param {{ start: number, end: number }[]} bars by start @param {number} left @param {number} width
 */
function scale(bars, left, width) {
  /** @type {{ start: number, end: number, at: number }[]} */
  const pieces = [];
  for (const { start, end } of bars) {
    const last = pieces.at(-1);
    if (last && start <= last.end) last.end = Math.max(last.end, end);
    else pieces.push({ start, end, at: 0 });
  }
  const busy = pieces.reduce((sum, one) => sum + one.end - one.start, 0);
  const least = Math.max(MIN_FOLD_MS, busy * FOLD_SHARE);
  /** @type {typeof pieces} */
  const parts = [];
  for (const piece of pieces) {
    const last = parts.at(-1);
    if (last && piece.start - last.end < least) last.end = piece.end;
    else parts.push(piece);
  }
  const fold = Math.min(FOLD, width / 2 / Math.max(1, parts.length - 1));
  const whole = parts.reduce((sum, one) => sum + one.end - one.start, 0) || 1;
  const room = Math.max(1, width - fold * (parts.length - 1));
  let at = left;
  const folds = parts.map((part, index) => {
    part.at = at;
    at += ((part.end - part.start) / whole) * room;
    const next = parts[index + 1];
    if (!next) return null;
    at += fold;
    return { x: at - fold, width: fold, ms: next.start - part.end };
  });
  return {
    folds: folds.filter((one) => one !== null),
    parts,
    perMs: room / whole,
    /** @param {number} time */
    x(time) {
      let [low, high] = [0, parts.length - 1];
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (parts[middle].start <= time) low = middle;
        else high = middle - 1;
      }
      const part = parts[low];
      return part ? part.at + (Math.min(Math.max(time, part.start), part.end) - part.start) * (room / whole) : left;
    },
  };
}

/** What both ways of drawing know. @typedef {{
 *   rect: (kind: string, x: number, y: number, width: number, height: number) => void,
 *   line: (kind: string, path: string) => void,
 *   words: (kind: string, x: number, y: number, words: string, anchor?: "end" | "middle") => void }} Pen */

class Lanes extends Chart {
  constructor() {
    super();
    this.cursor = el("div", { class: "lane-cursor", hidden: true });
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.turn = () => this.isCanvas && this.redraw(); // a canvas does not follow by itself
    this.isCanvas = false;
    this.gutter = 0;
    this.scale = scale([], 0, 1);
    /** @type {{ x: number, y: number, width: number }[]} of each bar */
    this.places = [];
    /** @type {number[][]} the bars of each row, by time */
    this.lanes = [];
    /** @type {number[]} where the free room behind each bar ends */
    this.ends = [];
  }

  connectedCallback() {
    super.connectedCallback();
    this.dark.addEventListener("change", this.turn);
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    this.dark.removeEventListener("change", this.turn);
  }

  size = () => this.figures?.bars.length ?? 0;
  saying = () => (this.size() ? "" : "nothing to show");
  /** @param {number} at */
  telling = (at) => this.figures.tell(this.figures.bars[at]);
  listing = () => this.figures.listing();
  helping = () => "Arrow keys left and right follow the time, up and down change the lane. Enter opens the call.";
  /** @param {number} at @param {KeyboardEvent | MouseEvent} event */
  enter(at, event) {
    this.follow(this.figures.href(this.figures.bars[at]), event);
  }

  draw() {
    const { bars, rows, boxes } = this.figures;
    this.gutter = this.width < 480 ? 56 : 112;
    this.scale = scale(bars, this.gutter, this.width - this.gutter - 6);
    const height = HEAD + rows.length * ROW + 4;
    this.places = bars.map((/** @type {any} */ one) => {
      const x = this.scale.x(one.start);
      return { x, width: Math.max(3, this.scale.x(one.end) - x), y: HEAD + one.row * ROW + (ROW - BAR) / 2 };
    });
    this.lanes = rows.map(() => []);
    this.ends = bars.map(() => this.width);
    bars.forEach((/** @type {any} */ one, /** @type {number} */ at) => {
      const last = this.lanes[one.row].at(-1);
      if (last !== undefined) this.ends[last] = this.places[at].x;
      this.lanes[one.row].push(at);
    });
    this.isCanvas = bars.length * 3 + rows.length + boxes.length * 2 > MAX_SHAPES;
    const place = this.isCanvas ? this.paint(height) : this.sketch(height);
    fill(this.plot, place, this.cursor);
    this.mark();
  }

  /** @param {number} height */
  sketch(height) {
    /** @type {SVGElement[]} */
    const shapes = [];
    this.trace({
      rect: (kind, x, y, width, height) => void shapes.push(svg("rect", { class: `lane-${kind}`, x, y, width, height, rx: kind === "box" ? 4 : 2, fill: INKS[kind] && `url(#${this.own}-${kind})` })),
      line: (kind, path) => void shapes.push(svg("path", { class: kind, d: path })),
      words: (kind, x, y, words, anchor) => void shapes.push(svg("text", { class: kind, x, y, "text-anchor": anchor }, words)),
    });
    return svg("svg", { width: this.width, height, "aria-hidden": "true" }, patterns(this.own, Object.keys(INKS)), shapes);
  }

  /** @param {number} height */
  paint(height) {
    const dots = Math.min(devicePixelRatio, 2);
    const canvas = el("canvas", { width: this.width * dots, height: height * dots, "aria-hidden": "true", style: { width: `${this.width}px`, height: `${height}px` } });
    const brush = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    const style = getComputedStyle(this);
    const colour = (/** @type {string} */ name) => style.getPropertyValue(name);
    const fills = Object.fromEntries(Object.entries(INKS).map(([kind, name]) => [kind, tile(brush, kind, colour(name), colour("--chart-hatch"))]));
    brush.scale(dots, dots);
    brush.font = `11px ${colour("--sans")}`;
    this.trace({
      rect: (kind, x, y, width, height) => {
        brush.fillStyle = fills[kind] ?? colour(PLATES[kind] ?? "--chart-box");
        brush.fillRect(x, y, width, height);
      },
      line: (kind, path) => {
        brush.strokeStyle = colour(kind === "grid" ? "--line" : "--edge");
        brush.stroke(new Path2D(path));
      },
      words: (kind, x, y, words, anchor) => {
        brush.fillStyle = colour(kind === "tick" ? "--dim" : "--text");
        brush.textAlign = anchor === "end" ? "right" : anchor === "middle" ? "center" : "left";
        brush.fillText(words, x, y);
      },
    });
    return canvas;
  }

  /** @param {Pen} pen */
  trace(pen) {
    const { bars, rows, boxes } = this.figures;
    const bottom = HEAD + rows.length * ROW;
    const { parts, perMs, folds } = this.scale;
    for (const box of boxes) {
      const x = this.scale.x(box.start) - 4;
      pen.rect("box", x, HEAD + box.from * ROW + 1, Math.min(this.width - 1, this.scale.x(box.end) + 4) - x, (box.to - box.from + 1) * ROW - 2);
    }
    if (parts.length) {
      const step = round(80 / perMs);
      for (const part of parts) {
        const zero = parts[0].start;
        for (let time = zero + Math.ceil((part.start - zero) / step) * step; time <= part.end; time += step) {
          const x = Math.round(this.scale.x(time)) + 0.5;
          pen.line("grid", `M${x} ${HEAD - 3}V${bottom}`);
          if (x < this.width - 56) pen.words("tick", x + 3, 12, brief(time - zero));
        }
      }
    }
    for (const box of boxes) {
      const x = this.scale.x(box.start) + 2;
      pen.words("tick strong", x, HEAD + box.from * ROW + 15, fit(box.words, Math.max(this.scale.x(box.end), this.width - 8) - x));
    }
    for (const fold of folds) {
      pen.rect("fold", fold.x, HEAD - 2, fold.width, bottom - HEAD + 2);
      const words = [`idle ${brief(fold.ms)}`, brief(fold.ms), brief(fold.ms).replace(" min", "")].find((one) => one.length * CHAR < fold.width);
      if (words) pen.words("tick", fold.x + fold.width / 2, HEAD + 15, words, "middle");
    }
    rows.forEach((/** @type {any} */ row, /** @type {number} */ at) => {
      if (row.words) pen.words("tick strong", Math.min(6 + row.level * 10, 40), HEAD + at * ROW + 15, fit(row.words, this.gutter - 8 - row.level * 10));
    });
    bars.forEach((/** @type {any} */ one, /** @type {number} */ at) => this.stroke(pen, one, at));
  }

  /** @param {Pen} pen @param {any} one @param {number} at */
  stroke(pen, one, at) {
    const { x, y, width } = this.places[at];
    const wait = one.first == null || one.kind !== "a" ? 0 : Math.min(width - 1, this.scale.x(one.first) - x);
    if (wait > 1) pen.rect("wait", x, y, wait, BAR);
    pen.rect(one.kind, x + Math.max(0, wait), y, width - Math.max(0, wait), BAR);
    const free = this.ends[at] - x - width - 6;
    const inside = Math.floor((width - wait - 8) / CHAR);
    // With its duration where there is room; a part of the words says less than the duration.
    const all = [`${one.words} ${one.took}`.trim(), one.words, one.took].filter(Boolean);
    const beside = all.find((words) => words.length * CHAR < free);
    const within = all.find((words) => words.length <= inside);
    if (within && (within === all[0] || !beside || beside.length <= within.length)) {
      pen.rect(`plate-${one.kind}`, x + wait + 3, y + 1.5, within.length * CHAR + 2, BAR - 3); // no pattern lies below words
      pen.words("tick strong", x + wait + 5, y + 12, within);
    } else if (beside) pen.words("tick strong", x + width + 4, y + 12, beside);
  }

  mark() {
    const place = this.at < 0 ? null : this.places[this.at];
    this.cursor.hidden = !place;
    if (!place) return;
    for (const [name, size] of [["left", place.x - 2], ["top", place.y - 2], ["width", place.width + 4], ["height", BAR + 4]]) {
      this.cursor.style.setProperty(/** @type {string} */ (name), `${size}px`);
    }
  }

  /** @param {number} x @param {number} y */
  find = (x, y) => {
    const row = Math.floor((y - HEAD) / ROW);
    const near = (this.lanes[row] ?? []).filter((at) => x >= this.places[at].x - 3 && x <= this.places[at].x + this.places[at].width + 3);
    return near.at(-1) ?? -1;
  };

  /** @param {KeyboardEvent} event */
  press(event) {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!by || this.at < 0 || event.ctrlKey || event.altKey || event.metaKey) return super.press(event);
    event.preventDefault();
    event.stopPropagation();
    const middle = this.places[this.at].x;
    for (let row = this.figures.bars[this.at].row + by; this.lanes[row]; row += by) {
      const [nearest] = [...this.lanes[row]].sort((one, other) => Math.abs(this.places[one].x - middle) - Math.abs(this.places[other].x - middle));
      if (nearest !== undefined) return this.move(nearest);
    }
  }
}

/** A tile of a pattern, for a canvas. @param {CanvasRenderingContext2D} brush @param {string} kind @param {string} ink @param {string} hatch */
function tile(brush, kind, ink, hatch) {
  const small = el("canvas", { width: 8, height: 8 });
  const own = /** @type {CanvasRenderingContext2D} */ (small.getContext("2d"));
  own.fillStyle = ink;
  own.fillRect(0, 0, 8, 8);
  own.strokeStyle = hatch;
  own.stroke(strokes(kind));
  return brush.createPattern(small, "repeat") ?? ink;
}

/** The next round number of ms. @param {number} ms */
function round(ms) {
  const known = [10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 10e3, 20e3, 30e3, 60e3, 120e3, 300e3, 600e3, 1800e3, 3600e3];
  return known.find((one) => one >= ms) ?? Math.ceil(ms / 3600e3) * 3600e3;
}

/** A round time of an axis. @param {number} ms */
function brief(ms) {
  if (ms < 1e3) return ms ? `${Math.round(ms)} ms` : "0";
  if (ms < 60e3) return `${+(ms / 1e3).toFixed(ms < 10e3 ? 2 : 0)} s`;
  const all = Math.round(ms / 1e3);
  if (ms < 3600e3) return `${Math.floor(all / 60)}:${String(all % 60).padStart(2, "0")} min`;
  return `${+(all / 3600).toFixed(1)} h`;
}

/** As much of a text as a width holds. @param {string} words @param {number} width */
function fit(words, width) {
  const most = Math.max(1, Math.floor(width / CHAR));
  return words.length <= most ? words : `${words.slice(0, most - 1)}…`;
}

customElements.define("spantap-lanes", Lanes);
