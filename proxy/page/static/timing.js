/**
 * What a call took and cost, in a line of figures and a bar of its time.
 *
 *   facts(detail)       tokens, cost, times; what is not known is left out
 *   timing(detail)      wait for first token | stream, the longest pause
 *   errorBox(detail)    what went wrong, in the upstream's words
 *   notes(detail)       sentences that explain
 */
import { el } from "./dom.js";
import { icon, outcome } from "./icons.js";
import { count, dollars, duration, exact, plural } from "./words.js";

/** @param {CallDetail} detail @param {boolean} [brief] without what the bar below says as well */
export function facts({ call, tokens, cost, timing }, brief = false) {
  const found = /** @type {[string, string, string | null][]} */ ([]);
  const put = (/** @type {string} */ name, /** @type {number | null} */ value, /** @type {(one: any) => string} */ words, /** @type {string | null} */ more = null) =>
    value != null && found.push([name, words(value), more]);
  const share = tokens.prompt && tokens.cached ? `, ${Math.round((100 * tokens.cached) / tokens.prompt)} %` : "";
  put("tokens in", tokens.prompt, exact, tokens.cached == null ? null : `${tokens.cached ? count(tokens.cached) : "none"} cached${share}`);
  const streamed = timing.ttft_ms == null || timing.duration_ms == null ? 0 : timing.duration_ms - timing.ttft_ms;
  const speed = streamed > 50 && tokens.completion && `${count(tokens.completion / (streamed / 1000))}/s while it streamed`;
  put("tokens out", tokens.completion, exact, [tokens.reasoning && `${count(tokens.reasoning)} reasoning`, speed].filter(Boolean).join(", ") || null);
  put("cost", cost?.total ?? call.cost_usd, dollars, cost && costSource(cost, call));
  if (!brief) put("first token", timing.ttft_ms, duration);
  put("took", timing.duration_ms, duration);
  return el("dl", { class: "facts" }, found.map(([name, words, more]) =>
    el("div", null, el("dt", null, name), el("dd", null, words, more && el("span", { class: "dim" }, more)))));
}

/** Where a cost comes from, and what it means. @param {NonNullable<CallDetail["cost"]>} cost @param {Row} call */
function costSource(cost, call) {
  const known = [
    cost.basis === "list" && "list price: a subscription pays",
    cost.source && `${cost.source}${cost.list_date ? ` of ${cost.list_date}` : ""}${cost.list_is_old ? ", an old list" : ""}`,
    call.saved_usd && `${dollars(call.saved_usd)} saved`,
  ];
  return known.filter(Boolean).join("; ") || null;
}

/** @param {CallDetail} detail */
export function timing({ timing: known }) {
  const whole = known.duration_ms;
  if (!whole) return null;
  const first = known.ttft_ms;
  const parts = /** @type {[string, string, number][]} */ (first == null
    ? [["wait", "wait for the answer", whole]]
    : [["wait", "wait for first token", first], ["stream", "stream", whole - first]]
  ).filter(([, , ms]) => Number(ms) > 0);
  const pause = known.longest_pause_ms;
  const drawn = first == null ? null : withPause(known, whole - first);
  const bars = drawn === null ? parts : [...parts.slice(0, -1), ...drawn];
  const chunk = known.longest_pause_chunk;
  const at = chunk == null ? "" : ` at chunk ${exact(chunk)}${known.chunks == null ? "" : ` of ${exact(known.chunks)}`}`;
  return el(
    "div", { class: "timing" },
    el("div", { class: "time-bar", "aria-hidden": "true" }, bars.map(([name, , ms]) => el("span", { class: name, style: { "flex-grow": Math.max(ms, whole / 250) } }))),
    el("ul", null, parts.map(([name, words, ms]) => el("li", { class: name }, `${words} `, el("b", null, duration(ms)))),
      Boolean(pause) && el("li", { class: drawn ? "wait" : "pause" }, "longest pause in the stream ", el("b", null, duration(pause)), at)),
  );
}

/**
 * A stream around its longest pause, where that is a tenth of it: as far along as its chunk is among all.
 * @param {CallDetail["timing"]} known @param {number} stream in milliseconds @returns {[string, string, number][] | null}
 */
function withPause({ longest_pause_ms: pause, longest_pause_chunk: chunk, chunks }, stream) {
  if (!pause || chunk == null || !chunks || pause < stream / 10 || pause > stream) return null;
  const before = chunks > 2 ? ((stream - pause) * (chunk - 2)) / (chunks - 2) : 0; // the first one begins the stream
  const parts = /** @type {[string, string, number][]} */ ([["stream", "", before], ["wait", "", pause], ["stream", "", stream - pause - before]]);
  return parts.filter(([, , ms]) => ms > 0);
}

/** @param {CallDetail} detail */
export function errorBox({ error, call }) {
  if (!error) return null;
  return el("div", { class: "error-box" }, el("b", null, icon("error"), ` ${outcome(call).words}`), error.message && el("p", { class: "text" }, error.message));
}

/** @param {CallDetail} detail */
export function notes({ notes: all }) {
  return all.length > 0 && el("ul", { class: "notes", "aria-label": plural(all.length, "note") }, all.map((one) =>
    /cache|damaged|anomal|too large|compacted/.test(one)
      ? el("li", { class: "warns" }, icon("note"), el("span", null, one))
      : el("li", null, icon("info"), el("span", null, one))));
}
