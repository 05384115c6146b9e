/**
 * The table of calls: as many rows as are seen, and some above and below.
 *
 * - At most MAX_ROWS rows are in the page; empty rows of their height replace the others.
 * - A reader's place does not move: rows that come above are counted, and push nothing.
 * - The API says which columns there are (proxy/page/api/columns.py); CELLS draws those that show more than one value.
 * - Only the chosen row takes part in the order of focus; a screen reader says its first link.
 */
import { get } from "./api.js";
import { el, fill, keyed, write } from "./dom.js";
import { mark, outcome } from "./icons.js";
import { letter } from "./marks.js";
import { decode, link } from "./state.js";
import { cents, clock, count, cut, day, exact, line, moment, NONE, seconds } from "./words.js";

const MAX_ROWS = 120;
const MARGIN = 20;
const MOST_WORDS = 200;

/** @typedef {{ name: string, title: string, note: string | null, member: string | null, format: string }} Column */

/** In their order; the first table asks for them. @type {Column[]} */
let columns = [];

/** How a value is written, by its format (telemetry/fact.py); a label by the name in it (telemetry/launch_labels.py). @type {Record<string, (value: any) => string>} */
const FORMATS = {
  count, dollars: cents, duration: seconds, flag: (value) => (value == null ? NONE : value ? "yes" : "no"),
  items: (value) => line(value?.join(", ")) || NONE, time: moment,
  label: (value) => line(value && decode(value.split("~~")[0].replaceAll("~", "%"))) || NONE,
};
const NUMBERS = new Set(["count", "dollars", "duration"]);

/** @param {Row | Open} item @param {Column} column */
function text(item, { member, format }) {
  const value = /** @type {any} */ (item)[member ?? ""];
  return format in FORMATS ? FORMATS[format](value) : line(value) || NONE;
}

/** Cells that are more than the text of a value, by the name of their column. @type {Record<string, (cell: HTMLTableCellElement, item: any) => void>} */
const CELLS = {
  state: (cell, item) => fill(cell, mark(item)),
  time: (cell, { start_time: at }) => fill(cell, el("time", { datetime: at, title: moment(at) }, day(at) ? moment(at).slice(0, -3) : clock(at))),
  what: fillWhat,
  in: (cell, item) => {
    write(cell, count(item.prompt_tokens));
    cell.title = item.cached_tokens == null ? "" : `${exact(item.cached_tokens)} of ${exact(item.prompt_tokens)} from the cache`;
  },
  cost: (cell, item) => {
    const listed = item.cost_basis === "list";
    fill(cell, listed ? el("em", null, cents(item.cost_usd), el("span", { class: "hidden" }, " list price")) : cents(item.cost_usd));
    cell.title = listed ? "the list price: a subscription pays" : "";
  },
};

/** Cells of an open call that change, or stay as they are. @type {Record<string, (cell: HTMLTableCellElement, item: Open) => void>} */
const OPEN_CELLS = {
  state: (cell, item) => {
    if (!cell.firstElementChild?.classList.contains(outcome(item).kind)) fill(cell, mark(item));
  },
  time: () => {},
  what: (cell, item) => {
    const [what, words] = cell.querySelectorAll("a, .uses");
    if (what) write(what, line(item.what) || outcome(item).words);
    if (words) write(words, outcome(item).words);
  },
  out: (cell, item) => write(cell, item.chars == null ? NONE : `·${count(item.chars)}`),
  took: (cell, item) => write(cell, seconds(elapsed(item))),
};

/** What is new, with what the answer came to and the tools that it uses; a step names them itself. @param {HTMLTableCellElement} cell @param {Row | Open} item */
function fillWhat(cell, item) {
  const { kind, words } = outcome(item);
  const told = cut(line(item.what), MOST_WORDS) || ("open" in item ? words : line(item.name) || item.span_id);
  const what = el("a", { href: link(["calls", item.span_id]), title: told }, told);
  const said = kind === "error" || kind === "cut";
  const tools = "open" in item ? item.what && words : !item.step && item.tools?.length > 0 && `⚙ ${item.tools.map(line).join(", ")}`;
  const focused = cell.contains(document.activeElement);
  fill(cell, el("div", null, said && el("span", { class: `tag ${kind}` }, cut(words, 40)), what, tools && el("span", { class: "uses" }, tools)));
  if (focused) what.focus({ preventScroll: true });
}

export class CallTable {
  /** @param {{ choose: (id: string, by: "click" | "focus") => void, nearEnd: () => void, unseen: (count: number) => void, ready: () => void }} told */
  constructor(told) {
    this.told = told;
    /** @type {(Row | Open)[]} */
    this.items = [];
    this.chosen = /** @type {string | null} */ (null);
    this.follow = true;
    // While a call is peeked at, the list stands still.
    this.held = false;
    this.unseen = 0;
    this.rowHeight = 30;
    this.before = el("tbody", { "aria-hidden": "true" }, el("tr", null, el("td")));
    this.body = el("tbody", { class: "rows" });
    this.after = el("tbody", { "aria-hidden": "true" }, el("tr", null, el("td")));
    this.asking = false;
    this.fault = /** @type {any} */ (null);
    this.head = el("tr");
    this.table = el("table", { class: "calls" }, el("caption", { class: "hidden" }, "Calls, the newest first"),
      el("thead", null, this.head), this.before, this.body, this.after);
    this.element = el("div", { class: "scroll" }, this.table);
    this.element.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    this.body.addEventListener("click", (event) => this.#clicked(event));
    this.body.addEventListener("focusin", (event) => {
      const id = rowOf(event.target)?.dataset.id;
      if (id && id !== this.chosen) told.choose(id, "focus");
    });
    void this.prepare();
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  get atTop() {
    return this.element.scrollTop < this.rowHeight;
  }

  /** Whether what is seen stays where it is, whatever comes above it. */
  get stays() {
    return !(this.follow && this.atTop && !this.held);
  }

  /** @param {(Row | Open)[]} items @param {boolean} anew whether this is another list, shown from its top */
  show(items, anew) {
    const added = !anew && this.stays ? this.#moved(items) : 0;
    const focused = this.body.contains(document.activeElement);
    this.items = items;
    if (anew) {
      this.element.scrollTop = 0;
      this.#count(0);
    }
    this.draw();
    if (added !== 0) {
      this.element.scrollTop += added * this.rowHeight; // the reader's place does not move
      // A list with room to spare does not scroll: nothing is above its view.
      this.#count(Math.max(0, Math.min(this.unseen + added, Math.round(this.element.scrollTop / this.rowHeight))));
      this.draw();
    }
    // The row was far away in between, and not in the page.
    if (focused && !this.body.contains(document.activeElement)) this.#row(this.chosen)?.querySelector("a")?.focus({ preventScroll: true });
  }

  /** By how many rows the view has moved; measured by a recorded call, because an open one moves when it ends. @param {(Row | Open)[]} items */
  #moved(items) {
    const top = Math.floor(this.element.scrollTop / this.rowHeight);
    const found = this.items.findIndex((item, at) => at >= top && !("open" in item));
    if (found < 0) return 0;
    const now = items.findIndex((item) => item.span_id === this.items[found].span_id);
    return now < 0 ? 0 : now - found;
  }

  /** @param {string | null} id @param {boolean} [focus] */
  choose(id, focus = false) {
    this.chosen = id;
    const at = this.items.findIndex((item) => item.span_id === id);
    if (at >= 0 && focus) this.#bring(at);
    this.draw();
    if (focus) this.#row(id)?.querySelector("a")?.focus({ preventScroll: true });
  }

  /** The id so many rows from the chosen one. @param {number} step */
  neighbour(step) {
    const at = this.items.findIndex((item) => item.span_id === this.chosen);
    const to = at < 0 ? 0 : Math.max(0, Math.min(this.items.length - 1, at + step));
    return this.items[to]?.span_id ?? null;
  }

  toTop() {
    this.element.scrollTop = 0;
    this.#count(0);
    this.draw();
  }

  /** Rows that are seen at once. */
  get page() {
    return Math.max(1, Math.floor(this.element.clientHeight / this.rowHeight) - 2);
  }

  /** Whether it knows its columns: before, nothing is drawn. */
  get isReady() {
    return this.head.firstChild !== null;
  }

  /** Ask for the columns, unless another table has; `ready` comes after a `fault`, too. */
  async prepare() {
    if (this.isReady || this.asking) return;
    this.asking = true;
    try {
      if (!columns.length) ({ columns } = await get("columns"));
      this.fault = null;
    } catch (error) {
      this.fault = error;
    }
    fill(this.head, columns.map((column) =>
      el("th", { scope: "col", class: classOf(column), title: column.note }, column.name === "state" ? el("span", { class: "hidden" }, column.title) : column.title)));
    // It draws, and must not ask again.
    this.told.ready();
    this.asking = false;
  }

  draw() {
    if (!this.isReady) return;
    const height = this.element.clientHeight;
    const top = Math.floor(this.element.scrollTop / this.rowHeight);
    const first = Math.max(0, top - MARGIN);
    const end = Math.min(this.items.length, first + MAX_ROWS, top + Math.ceil(height / this.rowHeight) + MARGIN);
    const shown = this.items.slice(first, end);
    keyed(this.body, shown, (item) => item.span_id, (item) => this.#make(item), (row, item) => this.#update(row, item));
    const stop = shown.some((item) => item.span_id === this.chosen) ? this.chosen : shown[0]?.span_id;
    for (const row of /** @type {Iterable<HTMLTableRowElement>} */ (this.body.children)) this.#dress(row, stop);
    this.#space(this.before, first);
    this.#space(this.after, this.items.length - end);
    this.table.setAttribute("aria-rowcount", String(this.items.length + 1));
    const one = this.body.firstElementChild;
    const seen = one?.getBoundingClientRect().height ?? 0;
    if (seen > 0 && Math.abs(seen - this.rowHeight) > 0.5) {
      this.rowHeight = seen;
      this.draw();
    }
  }

  /** The time of open calls goes on. */
  tick() {
    for (const row of this.body.children) {
      const item = /** @type {any} */ (row).item;
      if (item && "open" in item) this.#live(row, item);
    }
  }

  /** @param {HTMLElement} space @param {number} rows */
  #space(space, rows) {
    space.hidden = rows <= 0;
    /** @type {HTMLElement} */ (space.firstElementChild).style.setProperty("height", `${Math.max(0, rows) * this.rowHeight}px`);
  }

  /** @param {HTMLTableRowElement} row @param {string | undefined | null} stop */
  #dress(row, stop) {
    const id = row.dataset.id;
    row.classList.toggle("chosen", id === this.chosen);
    row.dataset.mark = letter(id ?? "");
    if (!row.dataset.mark) delete row.dataset.mark;
    if (id === this.chosen) row.setAttribute("aria-current", "true");
    else row.removeAttribute("aria-current");
    row.querySelector("a")?.setAttribute("tabindex", id === stop ? "0" : "-1");
  }

  /** @param {Row | Open} item */
  #make(item) {
    const cells = columns.map((column) => (column.name === "what" ? el("th", { scope: "row", class: "what" }) : el("td", { class: classOf(column) })));
    const row = el("tr", { "data-id": item.span_id }, cells);
    this.#update(row, item);
    return row;
  }

  /** @param {any} row @param {Row | Open} item */
  #update(row, item) {
    if (row.item === item) return;
    const was = row.item;
    row.item = item;
    if (was && "open" in was && "open" in item) return this.#live(row, item);
    row.classList.toggle("error", outcome(item).kind === "error");
    for (const [at, column] of columns.entries()) {
      const cell = row.cells[at];
      if (column.name in CELLS) CELLS[column.name](cell, item);
      else write(cell, text(item, column));
    }
    if ("open" in item) this.#live(row, item);
  }

  /** @param {any} row @param {Open} item */
  #live(row, item) {
    for (const [at, column] of columns.entries()) {
      const cell = row.cells[at];
      if (column.name in OPEN_CELLS) OPEN_CELLS[column.name](cell, item);
      else write(cell, text(item, column));
    }
  }

  /** @param {string | null} id @returns {HTMLElement | null} */
  #row(id) {
    return /** @type {HTMLElement | undefined} */ ([...this.body.children].find((row) => /** @type {HTMLElement} */ (row).dataset.id === id)) ?? null;
  }

  /** @param {number} at */
  #bring(at) {
    const head = this.table.tHead?.offsetHeight ?? 0;
    const top = at * this.rowHeight;
    const box = this.element;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top + head + this.rowHeight > box.scrollTop + box.clientHeight) box.scrollTop = top + head + this.rowHeight - box.clientHeight;
  }

  #scrolled() {
    if (this.atTop) this.#count(0);
    else if (this.unseen) this.#count(Math.min(this.unseen, Math.floor(this.element.scrollTop / this.rowHeight)));
    this.draw();
    const box = this.element;
    if (box.scrollTop + box.clientHeight * 3 > box.scrollHeight) this.told.nearEnd();
  }

  /** @param {number} count */
  #count(count) {
    if (count === this.unseen) return;
    this.unseen = count;
    this.told.unseen(count);
  }

  /** @param {MouseEvent} event */
  #clicked(event) {
    const id = rowOf(event.target)?.dataset.id;
    if (!id || event.ctrlKey || event.metaKey || event.shiftKey || getSelection()?.type === "Range") return;
    event.preventDefault();
    this.told.choose(id, "click");
  }
}

/** @param {Column} column */
function classOf({ name, format }) {
  return NUMBERS.has(format) ? `${name} number` : name;
}

/** @param {EventTarget | null} target */
function rowOf(target) {
  return target instanceof Element ? /** @type {HTMLTableRowElement | null} */ (target.closest("tr[data-id]")) : null;
}

/** How long an open call has taken by now. @param {Open} call */
export function elapsed(call) {
  return call.duration_ms + (performance.now() - (call.received ?? performance.now()));
}
