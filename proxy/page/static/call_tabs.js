/**
 * The tabs of a call: their names, and what is drawn when one is opened.
 *
 * - What is unchanged since the previous call is folded: one line says how much it is.
 * - There is no empty tab.
 */
import { difference } from "./difference.js";
import { el, fill } from "./dom.js";
import { icon } from "./icons.js";
import { listInSteps, message, textView } from "./messages.js";
import { rawView } from "./raw.js";
import { asked, answered } from "./special.js";
import { link } from "./state.js";
import { timing } from "./timing.js";
import { bytes, cut, duration, exact, line, NONE, plural } from "./words.js";

/** @typedef {{ name: string, words: (detail: CallDetail) => string, holds: (detail: CallDetail) => boolean, draw: (detail: CallDetail, other: string) => any }} Tab */

const MOST_TOOLS = 120; // characters of their names
const STEP = 400; // messages, of some six elements each

/** @type {Tab[]} */
export const TABS = [
  { name: "new", words: (one) => (one.messages.length ? `${one.new_from > 0 ? "new" : "messages"} ${one.messages.length - one.new_from}` : "asked"), holds: () => true, draw: drawNew },
  { name: "all", words: (one) => `all ${one.messages.length}`, holds: (one) => one.new_from > 0, draw: (one) => [list(one.messages, one, "input", one.new_from), answer(one)] },
  { name: "answer", words: () => "answer", holds: () => true, draw: (one) => answer(one, true) },
  { name: "tools", words: (one) => `tools ${one.tools.length}`, holds: (one) => one.tools.length > 0, draw: drawTools },
  { name: "parameters", words: () => "parameters", holds: () => true, draw: drawParameters },
  { name: "timing", words: () => "timing", holds: () => true, draw: drawTiming },
  { name: "raw", words: () => "raw", holds: () => true, draw: rawView },
  { name: "diff", words: () => "diff", holds: (one) => Boolean(previous(one)), draw: difference },
  { name: "heads", words: () => "heads", holds: (one) => Boolean(one.metadata.headers) || one.limits.length > 0, draw: drawHeads },
];

/** The call that this one continues, else the one before it. @param {CallDetail} detail */
export function previous({ conversation }) {
  return conversation?.goes_on_from ?? conversation?.previous ?? null;
}

/**
 * Messages, STEP at a time.
 * @param {Head[]} heads @param {CallDetail} detail @param {"input" | "answer"} of @param {number} [newFrom] @param {boolean} [open]
 */
function list(heads, detail, of, newFrom = Infinity, open = false) {
  return listInSteps("message", heads, STEP, (one) => message(one, { call: detail.call.span_id, of }, { fresh: one.index >= newFrom, open }));
}

/** @param {CallDetail} detail */
function drawNew(detail) {
  const fresh = detail.messages.filter((one) => one.index >= detail.new_from);
  return [
    detail.new_from > 0 && unchanged(detail),
    detail.system_changed && el("p", { class: "changed" }, icon("note"), "The system prompt changed since the previous call. ",
      previous(detail) && el("a", { href: link(["calls", detail.call.span_id, "diff"]) }, "See the difference")),
    fresh.length > 0 ? list(fresh, detail, "input") : detail.messages.length > 0 && el("p", { class: "dim pad" }, "Nothing is new: the same request again."),
    ...asked(detail), answer(detail),
    detail.new_from === 0 && detail.tools.length > 0 && el("p", { class: "dim pad" }, el("a", { href: link(["calls", detail.call.span_id, "tools"]) }, `${plural(detail.tools.length, "tool")} offered`), ` ${cut(detail.tools.map(({ name }) => line(name)).join(", "), MOST_TOOLS)}`),
  ];
}

/** @param {CallDetail} detail */
function unchanged(detail) {
  const { messages, chars } = detail.unchanged;
  const cached = detail.tokens.cached == null ? "" : `, ${exact(detail.tokens.cached)} tokens cached`;
  const place = el("div", { hidden: true, id: "unchanged" });
  const button = el("button", { class: "fold", "aria-expanded": "false", "aria-controls": "unchanged", onclick: () => {
    const opens = place.hidden;
    if (opens && !place.firstChild) fill(place, list(detail.messages.slice(0, detail.new_from), detail, "input"));
    place.hidden = !opens;
    button.setAttribute("aria-expanded", String(opens));
  } }, icon("right"), el("span", null, `unchanged: ${plural(messages, "message")}, ${plural(chars, "character")}${cached}`));
  return [button, place];
}

/** @param {CallDetail} detail @param {boolean} [open] */
function answer(detail, open = false) {
  const { call, tokens } = detail;
  const said = [call.finish_reason && line(call.finish_reason), tokens.completion != null && `${exact(tokens.completion)} tokens`].filter(Boolean).join(" · ");
  const others = answered(detail);
  return el(
    "section", { class: "answer" }, el("h2", null, "Answer", el("span", { class: "dim" }, said)),
    detail.answer.length > 0 && list(detail.answer, detail, "answer", 0, open), others,
    !detail.answer.length && !others.length && el("p", { class: "dim pad" }, detail.error ? "The call failed before an answer came." : "No answer was recorded: it had none, or is hidden."),
  );
}

/** @param {CallDetail} detail */
function drawTools(detail) {
  return el("ol", { class: "messages tools" }, detail.tools.map((tool, index) => el(
    "li", { class: "message" }, el("div", { class: "who" }, el("b", null, `⚙ ${line(tool.name)}`), el("span", null, plural(tool.chars, "character"))),
    tool.description && el("p", { class: "text" }, tool.description), definition(detail.call.span_id, index, tool.chars))));
}

/** @param {string} id @param {number} index @param {number} chars */
function definition(id, index, chars) {
  const details = el("details", { ontoggle: () => {
    if (!details.open || details.children.length > 1) return;
    const view = textView("", chars, `calls/${id}/tools/${index}`, {}, true);
    details.append(view);
    /** @type {HTMLElement | null} */ (view.querySelector(".more"))?.click();
  } }, el("summary", null, "definition"));
  return details;
}

/** @param {Record<string, any>} values @param {string} words */
function table(values, words) {
  const entries = Object.entries(values);
  if (!entries.length) return el("p", { class: "dim pad" }, `No ${words}.`);
  return el("table", { class: "pairs" }, el("caption", { class: "hidden" }, words), el("tbody", null, entries.map(([name, value]) =>
    el("tr", null, el("th", { scope: "row" }, name), el("td", null, typeof value === "string" ? el("div", { class: "text" }, value) : el("pre", { class: "text" }, JSON.stringify(value, null, 2)))))));
}

/** @param {CallDetail} detail */
function drawParameters(detail) {
  const metadata = Object.fromEntries(Object.entries(detail.metadata).filter(([name]) => name !== "headers"));
  return [el("h2", { class: "pad" }, "Parameters"), table(detail.parameters, "parameters"), el("h2", { class: "pad" }, "Metadata"), table(metadata, "metadata")];
}

/** What is left of the rate limits, and the recorded fields of both heads. @param {CallDetail} detail */
function drawHeads({ limits, metadata }) {
  const heads = /** @type {any} */ (metadata.headers ?? {});
  const part = (/** @type {string} */ title, /** @type {any} */ fields) => fields && [el("h2", { class: "pad" }, title), table(fields, title)];
  return [
    limits.length > 0 && el("h2", { class: "pad" }, "Left of the rate limits"),
    limits.length > 0 && table(Object.fromEntries(limits.map(({ name, left, remaining, limit, reset }) => [
      line(name), [`${Math.round(100 * left)} %`, remaining != null && limit != null && `${exact(remaining)} of ${exact(limit)}`, reset && `reset ${line(reset)}`].filter(Boolean).join(" · "),
    ])), "limits"),
    part("Request", heads.request), part("Answer", heads.response),
    heads.left_out > 0 && el("p", { class: "dim pad" }, `Not recorded: ${plural(heads.left_out, "more field")}.`),
  ];
}

/** @param {CallDetail} detail */
function drawTiming(detail) {
  const { timing: known, tokens, cost } = detail;
  const rows = /** @type {[string, string][]} */ ([
    ["first token", duration(known.ttft_ms)], ["first content", duration(known.first_content_ms)], ["whole call", duration(known.duration_ms)],
    ["longest pause", known.longest_pause_ms == null ? NONE : `${duration(known.longest_pause_ms)}${known.longest_pause_chunk == null ? "" : `, at chunk ${exact(known.longest_pause_chunk)}`}`],
    ["mean pause", duration(known.mean_pause_ms)], ["chunks", exact(known.chunks)], ["request", bytes(known.request_bytes)], ["response", bytes(known.response_bytes)],
    ["prompt tokens", exact(tokens.prompt)], ["of them cached", exact(tokens.cached)], ["written to the cache", exact(tokens.written)],
    ["completion tokens", exact(tokens.completion)], ["of them reasoning", exact(tokens.reasoning)],
    ["cost", cost?.total == null ? NONE : `$${cost.total.toPrecision(4)}${cost.prompt == null ? "" : `: prompt $${cost.prompt.toPrecision(3)}, completion $${(cost.completion ?? 0).toPrecision(3)}`}`],
  ]);
  return [el("div", { class: "pad" }, timing(detail)), el("table", { class: "pairs" }, el("caption", { class: "hidden" }, "Times, sizes and tokens"),
    el("tbody", null, rows.filter(([, words]) => words !== NONE).map(([name, words]) => el("tr", null, el("th", { scope: "row" }, name), el("td", null, words))))),
  el("p", { class: "dim pad" }, rows.some(([, words]) => words === NONE) && `Not known: ${rows.filter(([, words]) => words === NONE).map(([name]) => name).join(", ")}.`)];
}

