/**
 * Numbers, times and foreign text as a reader sees them.
 *
 * - An unknown value is a dash, never 0: every function takes null and undefined.
 * - Foreign text is made safe by `visible`: control characters and those that change the direction of
 *   writing are shown as `\x1b`, `\u202e`, as on the terminal (proxy/escape.py).
 *
 * For screens: count, exact, bytes, duration, seconds, dollars, cents, clock, day, moment, range, plural,
 * visible, line, cut.
 */

export const NONE = "–";

const UNSAFE =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\u2028\u2029\ufeff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;
// U+200D joins emoji and U+200C letters of Persian: to escape them would break honest text.
const HARMLESS = new Set(["\u200c", "\u200d"]);

/** Foreign text with unsafe characters made visible. @param {string} text */
export function visible(text) {
  return text.replaceAll("\r\n", "\n").replace(UNSAFE, (one) => {
    if (HARMLESS.has(one)) return one;
    const code = one.charCodeAt(0);
    const digits = code.toString(16);
    return code < 0x100 ? `\\x${digits.padStart(2, "0")}` : `\\u${digits.padStart(4, "0")}`;
  });
}

/** Foreign text on one line. @param {string | null | undefined} text */
export function line(text) {
  return text == null ? "" : visible(text).replace(/\s+/g, " ").trim();
}

/** The name of its launch and what the user asked; empty if neither is known. @param {any} one */
export const titleOf = ({ launch, preview, title }) => [line(launch), line(preview ?? title)].filter(Boolean).join(" · ");

/** At most so many characters of a text, never half of a pair. @param {string} text @param {number} most */
export function cut(text, most) {
  if (text.length <= most) return text;
  const end = /[\ud800-\udbff]/.test(text[most - 1]) ? most - 1 : most;
  return `${text.slice(0, end)}…`;
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** All digits: `41,234`. @param {number | null | undefined} number */
export function exact(number) {
  return number == null ? NONE : whole.format(number);
}

/** Three digits or so: `812`, `41.2k`, `1.2M`. @param {number | null | undefined} number */
export function count(number) {
  if (number == null) return NONE;
  for (const [size, unit] of /** @type {[number, string][]} */ ([[1e9, "G"], [1e6, "M"], [1e3, "k"]])) {
    if (number >= size * 0.9995) return `${(number / size).toFixed(number >= size * 99.95 ? 0 : 1)}${unit}`;
  }
  return whole.format(number);
}

/** A size in memory: `812 B`, `464 KiB`. @param {number | null | undefined} number */
export function bytes(number) {
  if (number == null) return NONE;
  if (number < 1024) return `${number} B`;
  const power = Math.min(3, Math.floor(Math.log2(number) / 10));
  const amount = number / 1024 ** power;
  return `${amount.toFixed(amount < 9.95 ? 1 : 0)} ${["B", "KiB", "MiB", "GiB"][power]}`;
}

/** A duration with a fitting precision: `131 ms`, `2.04 s`, `3 min 05 s`. @param {number | null | undefined} ms */
export function duration(ms) {
  if (ms == null) return NONE;
  if (ms < 9.95) return `${+ms.toFixed(1)} ms`;
  if (ms < 999.5) return `${ms.toFixed(0)} ms`;
  if (ms < 59_995) return `${(ms / 1000).toFixed(2)} s`;
  const all = Math.floor(ms / 1000 + 0.005);
  const two = (/** @type {number} */ one) => String(one).padStart(2, "0");
  if (all < 3600) return `${Math.floor(all / 60)} min ${two(all % 60)} s`;
  return `${Math.floor(all / 3600)} h ${two(Math.floor((all % 3600) / 60))} min`;
}

/** A duration in a column: seconds with one digit, `12ms`, `0.9s`, `41s`, `3m05`. @param {number | null | undefined} ms */
export function seconds(ms) {
  if (ms == null) return NONE;
  if (ms < 99.5) return `${Math.ceil(ms)}ms`;
  if (ms < 9950) return `${(ms / 1000).toFixed(1)}s`;
  if (ms < 59_500) return `${Math.round(ms / 1000)}s`;
  const all = Math.round(ms / 1000);
  if (all < 3600) return `${Math.floor(all / 60)}m${String(all % 60).padStart(2, "0")}`;
  return `${Math.floor(all / 3600)}h${String(Math.floor((all % 3600) / 60)).padStart(2, "0")}`;
}

/** Money, never a power of ten: `$0.0061`, `$12.40`. @param {number | null | undefined} amount */
export function dollars(amount) {
  if (amount == null) return NONE;
  if (amount === 0) return "$0";
  const digits = amount >= 1 ? 2 : Math.min(12, 1 - Math.floor(Math.log10(amount)));
  return `$${amount.toFixed(Math.max(2, digits))}`;
}

/** Costs of calls; apart from it stands the part at list price, which a subscription paid. @param {any} one */
export function costs({ cost_usd: all, list_usd: listed }) {
  if (all == null || !listed) return dollars(all);
  const spent = all - listed;
  return spent > 1e-9 ? `${dollars(spent)} + ${dollars(listed)} list` : `${dollars(listed)} list`;
}

/** What a sum of costs leaves out, and what the cache saved. @param {any} one @returns {string[]} */
export function costNotes(one) {
  const lacking = one.cost_usd == null ? 0 : one.unpriced;
  return [...(lacking > 0 ? [`${exact(lacking)} without a price`] : []), ...(one.saved_usd > 0 ? [`${dollars(one.saved_usd)} saved`] : [])];
}

/** Money in a column, at most four digits behind the point. @param {number | null | undefined} amount */
export function cents(amount) {
  if (amount == null) return NONE;
  if (amount > 0 && amount < 0.0001) return "<$0.0001";
  return amount === 0 ? "$0" : `$${amount.toFixed(amount < 0.01 ? 4 : amount < 1 ? 3 : 2)}`;
}

const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const YEAR = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });

/** The day of a time, nothing where it is today. @param {string | number | Date | null | undefined} time */
export function day(time) {
  if (time == null) return "";
  const at = new Date(time);
  const now = new Date();
  if (at.toDateString() === now.toDateString()) return "";
  return (at.getFullYear() === now.getFullYear() ? DAY : YEAR).format(at);
}

/** The local time of day: `14:03:07`. @param {string | number | Date | null | undefined} time */
export function clock(time) {
  return time == null ? NONE : CLOCK.format(new Date(time));
}

/** Day and time, the day where it is not today. @param {string | number | Date | null | undefined} time */
export function moment(time) {
  return time == null ? NONE : `${day(time)} ${clock(time)}`.trim();
}

/** From one time to another. @param {string | null} from @param {string | null} to */
export function range(from, to) {
  if (from && to) return `${moment(from).slice(0, -3)} – ${(day(from) === day(to) ? clock(to) : moment(to)).slice(0, -3)}`;
  return from ? `since ${moment(from)}` : to ? `until ${moment(to)}` : "any time";
}

/** A number with its word: `1 call`, `1,204 calls`. @param {number} number @param {string} word */
export function plural(number, word) {
  return `${exact(number)} ${number === 1 ? word : `${word}s`}`;
}
