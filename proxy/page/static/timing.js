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
  const share = tokens.prompt && tokens.cached != null ? `, ${Math.round((100 * tokens.cached) / tokens.prompt)} %` : "";
  put("in", tokens.prompt, exact, tokens.cached == null ? null : `${count(tokens.cached)} cached${share}`);
  put("out", tokens.completion, exact, tokens.reasoning ? `${count(tokens.reasoning)} reasoning` : null);
  put("cost", cost?.total ?? call.cost_usd, dollars);
  if (!brief) put("first token", timing.ttft_ms, duration);
  const streamed = timing.ttft_ms == null || timing.duration_ms == null ? null : timing.duration_ms - timing.ttft_ms;
  const speed = streamed && streamed > 50 && tokens.completion ? tokens.completion / (streamed / 1000) : null;
  put("took", timing.duration_ms, duration, speed === null ? null : `${count(speed)} tokens/s`);
  return el("dl", { class: "facts" }, found.map(([name, words, more]) =>
    el("div", null, el("dt", null, name), el("dd", null, words, more && el("span", { class: "dim" }, more)))));
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
  const pause = known.longest_pause_ms == null ? null
    : `longest pause ${duration(known.longest_pause_ms)}${known.longest_pause_chunk == null ? "" : ` at chunk ${exact(known.longest_pause_chunk)}`}${known.chunks == null ? "" : `, ${plural(known.chunks, "chunk")} in all`}`;
  return el(
    "div", { class: "timing" },
    el("div", { class: "time-bar", "aria-hidden": "true" }, parts.map(([name, , ms]) => el("span", { class: name, style: { "flex-grow": Math.max(ms, whole / 250) } }))),
    el("ul", null, parts.map(([name, words, ms]) => el("li", { class: name }, `${words} `, el("b", null, duration(ms)))), pause && el("li", { class: "pause" }, pause)),
  );
}

/** @param {CallDetail} detail */
export function errorBox({ error, call }) {
  if (!error) return null;
  return el("div", { class: "error-box" }, el("b", null, icon("error"), ` ${outcome(call).words}`), error.message && el("p", { class: "text" }, error.message));
}

/** @param {CallDetail} detail */
export function notes({ notes: all }) {
  return all.length > 0 && el("ul", { class: "notes", "aria-label": plural(all.length, "note") }, all.map((one) =>
    el("li", { class: /cache|damaged|anomal|too large|compacted/.test(one) ? "warns" : null }, icon("note"), el("span", null, one))));
}
