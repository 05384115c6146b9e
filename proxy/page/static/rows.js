/**
 * The calls of a list: open ones, ended ones that are not recorded yet, and recorded ones.
 *
 * - Order, newest first: open calls by their start, those that just ended by their end, recorded ones by seq.
 * - A call is in the list once, by its span id: `end` takes the place of the open call, the recorded row that of `end`.
 * - At most MAX_KEPT recorded rows are kept. Beyond that, older ones are not requested, and new ones replace the oldest.
 * - An answer that comes after the question changed is dropped.
 * - If more was recorded meanwhile than MAX_ANSWERS bring, the list begins again at the newest; while somebody reads
 *   further down, it is behind, and stays as it is until they come back to its top.
 */
import { get } from "./api.js";

/** @typedef {import("./api.js").ApiError} ApiError */
export const MAX_KEPT = 5_000; // some 8 MB; to see more, narrow the filter
const PAGE = 100;
const CATCH_UP = 300;
const MAX_ANSWERS = 5; // 1,500 rows, or a second of looking through texts
const MANY = 50; // in one answer to what is new
const FORGET_MS = 15_000; // an ended call that no record followed: it was not to be kept

/** @typedef {{ filter: string | null, from: string | null, to: string | null }} Question */

export class CallRows {
  /** @param {() => void} changed */
  constructor(changed) {
    this.changed = changed;
    /** @type {Row[]} */
    this.recorded = [];
    /** @type {Map<string, Row & { at: number }>} */
    this.ended = new Map();
    /** @type {Map<string, Open>} */
    this.open = new Map();
    /** @type {Question} */
    this.question = { filter: null, from: null, to: null };
    this.next = /** @type {number | null} */ (null);
    this.newest = 0;
    this.searchedTo = /** @type {string | null} */ (null);
    this.loading = false;
    this.loaded = false;
    this.fault = /** @type {ApiError | null} */ (null);
    this.round = 0;
    this.catching = false;
    this.again = false;
    /** More came at once than anybody reads. */
    this.isBusy = false;
    /** More came than is shown. */
    this.isBehind = false;
  }

  /** All in their order. @returns {(Row | Open)[]} */
  all() {
    const open = [...this.open.values()].sort((a, b) => (a.start_time < b.start_time ? 1 : -1));
    const ended = [...this.ended.values()].sort((a, b) => b.at - a.at);
    return [...open, ...ended, ...this.recorded];
  }

  /** Whether more may be asked for. */
  get hasMore() {
    return this.next !== null && this.recorded.length < MAX_KEPT;
  }

  /** Ask anew. @param {Question} question */
  async ask(question) {
    this.question = question;
    this.round += 1;
    this.recorded = [];
    this.ended.clear();
    this.next = null;
    this.newest = 0;
    this.searchedTo = null;
    this.loaded = this.loading = this.isBehind = false;
    await this.more();
  }

  /** The next page of older calls. */
  async more() {
    if (this.loading || (this.loaded && !this.hasMore)) return;
    this.loading = true;
    const { round, next } = this;
    this.changed();
    try {
      const page = await get("calls", { ...this.question, before: next, limit: PAGE });
      if (round !== this.round) return; // the question has changed
      if (next === this.next) { // else the list was cut meanwhile (MAX_KEPT)
        this.#append(page.calls);
        this.next = page.next;
        this.searchedTo = page.searched_to;
      }
      this.fault = null;
      this.loaded = true;
    } catch (error) {
      if (round !== this.round) return;
      this.fault = /** @type {ApiError} */ (error);
    }
    this.loading = false;
    this.changed();
  }

  /**
   * Calls that were recorded since; one question at a time, and one more if something came meanwhile.
   * @param {() => boolean} stays tells whether somebody reads further down, or peeks at a call
   */
  async catchUp(stays) {
    if (!this.loaded || (this.isBehind && stays())) return;
    if (this.catching) {
      this.again = true;
      return;
    }
    this.catching = true;
    const round = this.round;
    try {
      do {
        this.again = false;
        const page = await get("calls", { ...this.question, after: this.newest, limit: CATCH_UP });
        if (round !== this.round) break;
        this.isBusy = page.calls.length >= MANY;
        await this.#close(page, stays, round);
        if (round !== this.round) break;
        this.changed();
      } while (this.again && !(this.isBehind && stays()));
    } catch (error) {
      if (round === this.round && /** @type {ApiError} */ (error).code !== "gone") this.fault = /** @type {ApiError} */ (error);
    }
    this.catching = false;
    if (this.again && round !== this.round) void this.catchUp(stays); // asked for another list
  }

  /** Close the gap to what is shown, or leave it open. @param {any} page the newest rows @param {() => boolean} stays @param {number} round */
  async #close(page, stays, round) {
    const asked = performance.now();
    const rows = [...page.calls];
    let { next } = page;
    const isMuch = rows.length >= CATCH_UP;
    for (let answers = 1; next !== null && answers < MAX_ANSWERS && (!isMuch || stays()); answers += 1) {
      const more = await get("calls", { ...this.question, after: this.newest, before: next, limit: CATCH_UP });
      if (round !== this.round) return; // the question has changed
      rows.push(...more.calls);
      next = more.next;
    }
    this.isBehind = next !== null;
    if (!this.isBehind) return this.#prepend(rows);
    if (stays()) return;
    const newest = await get("calls", { ...this.question, limit: PAGE });
    if (round === this.round && !stays()) this.#renew(newest, asked);
  }

  /** Begin anew, with rows in hand. @param {any} page @param {number} asked */
  #renew(page, asked) {
    this.round += 1; // older rows that are on their way belong to the list as it was
    this.recorded = [];
    this.#append(page.calls);
    this.next = page.next;
    this.searchedTo = page.searched_to;
    this.fault = null;
    this.loading = this.isBehind = false;
    for (const [id, row] of this.ended) if (row.at < asked) this.ended.delete(id);
    this.changed();
  }

  /** @param {{ span_id: string, call: Row | null }} news */
  end(news) {
    if (news.call && this.loaded && !this.isBehind && !this.recorded.some((row) => row.span_id === news.span_id)) {
      this.ended.set(news.span_id, { ...news.call, at: performance.now() });
    }
    this.open.delete(news.span_id);
    this.changed();
  }

  /** Let go of ended calls that nothing followed. */
  forget() {
    if (this.isBehind) return; // nobody has looked for their records
    for (const [id, row] of this.ended) if (performance.now() - row.at > FORGET_MS) this.ended.delete(id);
  }

  /** @param {Row[]} rows */
  #append(rows) {
    const known = new Set(this.recorded.map((row) => row.span_id));
    this.recorded.push(...rows.filter((row) => !known.has(row.span_id)));
    this.#settle(rows);
  }

  /** @param {Row[]} rows newest first */
  #prepend(rows) {
    const known = new Set(this.recorded.slice(0, CATCH_UP).map((row) => row.span_id));
    this.recorded.unshift(...rows.filter((row) => !known.has(row.span_id)));
    if (this.recorded.length > MAX_KEPT) {
      this.recorded.length = MAX_KEPT;
      this.next = this.recorded[MAX_KEPT - 1].seq;
    }
    this.#settle(rows);
  }

  /** @param {Row[]} rows */
  #settle(rows) {
    for (const row of rows) {
      this.newest = Math.max(this.newest, row.seq ?? 0);
      this.ended.delete(row.span_id);
      this.open.delete(row.span_id);
    }
  }
}
