/**
 * The steps of a run as a tree: as many rows as are seen, and some above and below.
 *
 *   const tree = new RunTree({ choose: (id, by) => …, open: (id) => … })     by: "click" or "focus"
 *   tree.element; tree.show(steps); tree.choose(id, focus); tree.fold(id, isFolded)
 *   tree.near(by); tree.failed()     ids of other steps
 *
 * - At most MAX_ROWS rows are in the page; space above and below replaces the others.
 * - Only the chosen row takes part in the order of focus.
 * - The row of a branch has the sums of all that is below it; another row has its own amounts.
 * - A request that was sent again is one row, below which its failed attempts are folded away.
 */
import { el, fill, keyed } from "./dom.js";
import { icon, mark, outcome } from "./icons.js";
import { letter } from "./marks.js";
import { cents, costNotes, costs, count, cut, line, plural, seconds } from "./words.js";

const MAX_ROWS = 120;
const MARGIN = 20;
const MAX_INDENT = 12; // rem; the level of a deeper step is said, and not seen
const MOST_WORDS = 160;

/** @typedef {{ id: string, step: any, up: Item | null, below: Item[], place: number }} Item */

/** @param {any} step an agent without a span has no id yet */
export const idOf = (step) => step.span_id ?? `run-${step.run}`;

/** @param {any} step */
export function nameOf(step) {
  if (step.kind === "AGENT") return step.name && step.name !== "invoke_agent" ? line(step.name) : "agent";
  return line(step.kind === "TOOL" ? step.tools[0] ?? step.name : step.model ?? step.name) || "call";
}

/** @param {any} step */
const isBad = (step) => step.status === "ERROR";

/** @param {any} step */
const isCall = (step) => step.kind !== "AGENT" && step.kind !== "TOOL";

export class RunTree {
  /** @param {{ choose: (id: string, by: "click" | "focus") => void, open: (id: string) => void }} told */
  constructor(told) {
    this.told = told;
    /** @type {Map<string, Item>} */
    this.items = new Map();
    /** @type {Item[]} those that are not folded away */
    this.seen = [];
    /** @type {Set<string>} */
    this.folded = new Set();
    this.chosen = /** @type {string | null} */ (null);
    this.whole = 1;
    this.rowHeight = 30;
    this.body = el("div", { role: "tree", "aria-label": "Steps of the run" });
    this.element = el("div", { class: "scroll" },
      el("div", { class: "step head", "aria-hidden": "true" }, ["Step", "Over time", "Took", "In", "Out", "Cost"].map((words) => el("span", null, words))), this.body);
    this.element.addEventListener("scroll", () => this.draw(), { passive: true });
    this.body.addEventListener("click", (event) => this.#clicked(event));
    this.body.addEventListener("dblclick", (event) => {
      const id = rowOf(event.target)?.dataset.id;
      if (id) told.open(id);
    });
    this.body.addEventListener("focusin", (event) => {
      const id = rowOf(event.target)?.dataset.id;
      if (id && id !== this.chosen) told.choose(id, "focus");
    });
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  /** @param {any[]} steps in the order of rows */
  show(steps) {
    /** @type {Item[]} */
    const path = [];
    const known = new Set(this.items.keys());
    this.items.clear();
    for (const step of steps) {
      if (step.tries > 1 && !known.has(idOf(step))) this.folded.add(idOf(step));
      path.length = Math.min(path.length, step.depth);
      const up = path.at(-1) ?? null;
      const item = { id: idOf(step), step, up, below: [], place: (up?.below.length ?? 0) + 1 };
      up?.below.push(item);
      path.push(item);
      this.items.set(item.id, item);
    }
    this.whole = Math.max(1, ...steps.map((one) => one.end_ms ?? 0));
    this.#unfold();
  }

  #unfold() {
    let hidden = Infinity;
    this.seen = [...this.items.values()].filter(({ id, step }) => {
      if (step.depth > hidden) return false;
      hidden = this.folded.has(id) ? step.depth : Infinity;
      return true;
    });
    this.draw();
  }

  /** @param {string} id @param {boolean} isFolded @returns {boolean} whether it was otherwise */
  fold(id, isFolded) {
    if (!this.items.get(id)?.below.length || this.folded.has(id) === isFolded) return false;
    if (isFolded) this.folded.add(id);
    else this.folded.delete(id);
    this.#unfold();
    return true;
  }

  /** @param {string | null} id @param {boolean} [focus] */
  choose(id, focus = false) {
    this.chosen = id;
    for (let up = this.items.get(id ?? "")?.up; up; up = up.up) this.folded.delete(up.id);
    this.#unfold();
    const at = this.seen.findIndex((one) => one.id === id);
    if (at < 0) return;
    const [box, head] = [this.element, this.body.offsetTop];
    const top = at * this.rowHeight;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top + head + this.rowHeight > box.scrollTop + box.clientHeight) box.scrollTop = top + head + this.rowHeight - box.clientHeight;
    this.draw();
    if (focus) /** @type {HTMLElement | null} */ (this.body.querySelector(`[data-id="${id}"]`))?.focus({ preventScroll: true });
  }

  /** The step so many rows from the chosen one. @param {number} by */
  near(by) {
    const at = this.seen.findIndex((one) => one.id === this.chosen);
    return this.seen[at < 0 ? 0 : Math.max(0, Math.min(this.seen.length - 1, at + by))]?.id ?? null;
  }

  /** The next call or tool that failed, after the chosen step. */
  failed() {
    const all = [...this.items.values()];
    const at = all.findIndex((one) => one.id === this.chosen);
    return [...all.slice(at + 1), ...all.slice(0, at + 1)].find(({ step }) => isBad(step) && step.kind !== "AGENT")?.id ?? null;
  }

  /** Rows that are seen at once. */
  get page() {
    return Math.max(1, Math.floor(this.element.clientHeight / this.rowHeight) - 2);
  }

  draw() {
    const { scrollTop, clientHeight } = this.element;
    const top = Math.floor(scrollTop / this.rowHeight);
    const first = Math.max(0, Math.min(top, this.seen.length) - MARGIN);
    const shown = this.seen.slice(first, Math.min(first + MAX_ROWS, top + Math.ceil(clientHeight / this.rowHeight) + MARGIN));
    keyed(this.body, shown, (one) => one.id, (one) => this.#row(el("div", { role: "treeitem", "data-id": one.id }), one), (row, one) => this.#row(row, one));
    const stop = shown.some((one) => one.id === this.chosen) ? this.chosen : shown[0]?.id;
    for (const row of /** @type {Iterable<HTMLElement>} */ (this.body.children)) {
      row.setAttribute("aria-selected", String(row.dataset.id === this.chosen));
      row.tabIndex = row.dataset.id === stop ? 0 : -1;
      row.dataset.mark = letter(row.dataset.id ?? "");
      if (!row.dataset.mark) delete row.dataset.mark;
    }
    this.body.style.paddingTop = `${first * this.rowHeight}px`;
    this.body.style.paddingBottom = `${(this.seen.length - first - shown.length) * this.rowHeight}px`;
    this.element.scrollTop = scrollTop; // a browser may correct it while rows are exchanged
    const height = this.body.firstElementChild?.getBoundingClientRect().height ?? 0;
    if (height > 0 && Math.abs(height - this.rowHeight) > 0.5) {
      this.rowHeight = height;
      this.draw();
    }
  }

  /** @param {any} row @param {Item} item */
  #row(row, item) {
    const { id, step, up, below, place } = item;
    if (below.length) row.setAttribute("aria-expanded", String(!this.folded.has(id)));
    else row.removeAttribute("aria-expanded");
    if (row.item === item) return row;
    row.item = item;
    const { branch } = step;
    const sums = branch ?? { ...step, list_usd: step.cost_basis ? step.cost_usd : null };
    const took = branch?.duration_ms ?? step.end_ms - step.start_ms;
    const notes = branch ? costNotes(branch).join(", ") : "";
    const isPart = branch && branch.cost_usd != null && branch.unpriced > 0;
    const asked = step.kind === "AGENT" ? line(step.preview) : step.kind === "TOOL" ? line(step.step).slice(nameOf(step).length)
      : line(step.step) || (step.tools.length ? `→ ${step.tools.map(line).join(", ")}` : "");
    const bad = isBad(step) && (isCall(step) ? outcome(step).words : line(step.error_type) || "failed");
    row.className = `step ${step.kind === "TOOL" ? "tool" : isCall(step) ? "call" : "agent"}${bad ? " error" : ""}`;
    row.setAttribute("aria-level", step.depth + 1);
    row.setAttribute("aria-posinset", place);
    row.setAttribute("aria-setsize", up?.below.length ?? 1);
    fill(
      row,
      el("span", { class: "what", style: { "--depth": Math.min(step.depth, MAX_INDENT) } },
        below.length ? icon("right") : el("span", { class: "icon" }), isCall(step) || bad ? mark(bad ? { ...step, outcome: bad } : step) : step.kind === "TOOL" && el("span", { class: "icon" }),
        el("b", null, step.kind === "TOOL" && "⚙ ", nameOf(step)), bad && el("span", { class: "tag error" }, cut(bad, 40)),
        step.seq === null && el("span", { class: "tag open" }, "open"), branch && el("span", { class: "dim" }, step.tries > 1 ? plural(step.tries, "attempt") : plural(branch.calls, "call")),
        asked && el("span", { class: "dim asked", title: asked }, cut(asked, MOST_WORDS))),
      el("span", { class: "track" }, el("i", { style: { left: `${(step.start_ms / this.whole) * 100}%`, width: `${(Math.max(0, step.end_ms - step.start_ms) / this.whole) * 100}%` } })),
      cell("took", `${step.kind === "TOOL" && !branch ? "≤ " : ""}${seconds(took)}`),
      (isCall(step) || branch) && [cell("tokens in", count(sums.prompt_tokens)), cell("tokens out", count(sums.completion_tokens)), cell("cost", `${isPart ? "≥ " : ""}${sums.list_usd ? costs(sums) : cents(sums.cost_usd)}`, notes)],
    );
    return row;
  }

  /** @param {MouseEvent} event */
  #clicked(event) {
    const id = rowOf(event.target)?.dataset.id;
    if (!id) return;
    if (event.target instanceof Element && event.target.closest(".icon") === rowOf(event.target)?.querySelector(".icon")) this.fold(id, !this.folded.has(id));
    this.told.choose(id, "click");
  }
}

/** A number in its column, and for a screen reader what it is. @param {string} name @param {string} value @param {string} [note] */
function cell(name, value, note) {
  return el("span", { title: note || null }, el("span", { class: "hidden" }, `${name} `), value, note && el("span", { class: "hidden" }, ` (${note})`));
}

/** @param {EventTarget | null} target @returns {HTMLElement | null} */
function rowOf(target) {
  return target instanceof Element ? target.closest("[role=treeitem]") : null;
}
