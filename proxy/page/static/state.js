/**
 * What several parts of the page know, and the address bar.
 *
 *   const here = cell(value)         here.value, here.set(value), here.on(fn) -> stop
 *                                    `on` calls at once and after each change
 *   status                           cell: the last answer of /api/status, null before
 *   connection                       cell: "start" | "live" | "still" (no proxy) | "quiet" (a hidden tab) | "gone" | "token"
 *   address                          cell: { path: ["calls", ID, TAB], query: { filter: "…" } }
 *   go(path, query, replace)         to another address: go(["calls", id], {}); `replace` adds no step back
 *   change(query, replace)           the same path, these members of the query; null takes one away
 *   link(path, query)                the address as text, for href
 *   times(query)                     { from, to } of an address as ISO times: `range=1h`, or `from=…&to=…`
 *   back                             { calls: address of the list, chosen: call opened from it }
 *   setTitle(words)                  of the tab
 *
 * Everything stands in the fragment, which reaches no log.
 */

/** Where the list of calls was left: its address, and the call that was opened from it. */
export const back = { calls: "#/calls", chosen: /** @type {string | null} */ (null) };

/** @template T */
class Cell {
  /** @param {T} value */
  constructor(value) {
    this.value = value;
    /** @type {Set<(value: T) => void>} */
    this.readers = new Set();
  }

  /** @param {T} value */
  set(value) {
    if (Object.is(value, this.value)) return;
    this.value = value;
    for (const reader of [...this.readers]) reader(value);
  }

  /** @param {(value: T) => void} reader @returns {() => void} */
  on(reader) {
    this.readers.add(reader);
    reader(this.value);
    return () => this.readers.delete(reader);
  }
}

/** @template T @param {T} value @returns {Cell<T>} */
export const cell = (value) => new Cell(value);

export const status = new Cell(/** @type {Status | null} */ (null));
/** @typedef {"start" | "live" | "still" | "quiet" | "gone" | "token"} Connection */
export const connection = new Cell(/** @type {Connection} */ ("start"));
export const address = new Cell(read(location.hash));

/** @param {string} fragment @returns {Address} */
function read(fragment) {
  const [path, query = ""] = fragment.replace(/^#\/?/, "").split("?", 2);
  const parts = path.split("/").filter(Boolean).map(decode);
  return {
    path: parts.length ? parts : ["calls"],
    query: Object.fromEntries(new URLSearchParams(query)),
  };
}

/** What is written with percent signs; as it is where they are wrong. @param {string} part */
export function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** @param {(string | number)[]} path @param {Record<string, any>} [query] */
export function link(path, query = {}) {
  const members = Object.entries(query).filter(([, value]) => value != null && value !== "");
  const words = new URLSearchParams(members).toString();
  return `#/${path.map(encodeURIComponent).join("/")}${words && `?${words}`}`;
}

/** @param {(string | number)[]} path @param {Record<string, any>} [query] @param {boolean} [replace] */
export function go(path, query = {}, replace = false) {
  const to = link(path, query);
  if (to === location.hash) return;
  if (replace) history.replaceState(null, "", to);
  else history.pushState(null, "", to);
  address.set(read(to));
}

/** @param {Record<string, any>} query @param {boolean} [replace] */
export function change(query, replace = false) {
  go(address.value.path, { ...address.value.query, ...query }, replace);
}

const UNITS = /** @type {Record<string, number>} */ ({ m: 60e3, h: 3600e3, d: 86400e3 });

/** @param {Record<string, string>} query @returns {{ from: string | null, to: string | null }} */
export function times(query) {
  const [, amount, unit] = /^(\d+)([mhd])$/.exec(query.range ?? "") ?? [];
  if (amount) return { from: new Date(Date.now() - Number(amount) * UNITS[unit]).toISOString(), to: null };
  return { from: query.from ?? null, to: query.to ?? null };
}

/** @param {string} words */
export function setTitle(words) {
  document.title = words ? `${words} · spantap` : "spantap";
}

/** Of links and of Back alike; some browsers tell of both, in either order. */
function follow() {
  const now = read(location.hash);
  if (link(now.path, now.query) !== link(address.value.path, address.value.query)) address.set(now);
}
addEventListener("popstate", follow);
addEventListener("hashchange", follow);
