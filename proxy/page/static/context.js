/**
 * The context of a conversation: how its prompt grew, of what, what of it was cached, where it was cut.
 *
 *   context(points) -> Element
 *
 * - The provider's count is exact, its parts are an estimate by characters: the words say so.
 * - A call without a count is left out of the chart.
 */
import "./area.js";
import { chart, key } from "./charts.js";
import { el } from "./dom.js";
import { link } from "./state.js";
import { count, exact, line, moment, plural } from "./words.js";

/** In the order of a prompt, so that the cached beginning shades what it is of. */
const PARTS = [["c", "tools", "tools"], ["b", "system", "system prompt"], ["a", "history", "history"], ["d", "new", "new"]];

/** @param {any[]} points */
export function context(points) {
  const known = points.filter((one) => one.prompt_tokens != null);
  if (!known.length) return el("p", { class: "nothing" }, points.length ? "No provider said how many tokens these prompts had." : "Nothing is left of this conversation's calls.");
  const shown = PARTS.filter(([, name]) => known.some((one) => one.parts?.[name]));
  const series = shown.map(([own, name, words]) => ({ name: own, words, values: known.map((one) => one.parts?.[name] ?? null) }));
  const whole = known.some((one) => !one.parts);
  if (whole) series.push({ name: shown.length ? "wait" : "a", words: shown.length ? "not known of what" : "prompt", values: known.map((one) => (one.parts ? null : one.prompt_tokens)) });
  const cached = known.some((one) => one.cached_tokens != null);
  const most = known.reduce((best, one) => (one.prompt_tokens > best.prompt_tokens ? one : best));
  const cuts = known.filter((one) => one.compacted).length;
  const tell = (/** @type {number} */ at) => {
    const one = known[at];
    const parts = shown.filter(([, name]) => one.parts?.[name]).map(([, name, words]) => `${words} ${count(one.parts[name])}`);
    return [`call ${at + 1} · ${moment(one.start_time)} · ${exact(one.prompt_tokens)} tokens`, parts.length && `about ${parts.join(", ")}`,
      one.cached_tokens != null && `cached ${exact(one.cached_tokens)}`, one.compacted && "cut before this call"].filter(Boolean).join(" · ");
  };
  const to = (/** @type {number} */ at) => link(["calls", known[at].span_id]);
  return el(
    "div", { class: "context" },
    el("h3", null, "Tokens of the prompt, call by call"),
    el("p", { class: "dim" }, `At most ${count(most.prompt_tokens)} in one of ${plural(known.length, "call")}. `,
      cuts ? `The history was cut ${cuts === 1 ? "once" : `${exact(cuts)} times`}. ` : "", shown.length ? "The count is the provider's; how it divides is an estimate by characters." : ""),
    key([...series.map((one) => /** @type {[string, string]} */ ([one.name, one.words])), ...(cached ? [/** @type {[string, string]} */ (["cached", "read from the cache"])] : [])]),
    chart("spantap-area", {
      label: `Tokens of the prompts of ${plural(known.length, "call")}`, series, totals: known.map((one) => one.prompt_tokens),
      shaded: cached ? { words: "cached", values: known.map((one) => one.cached_tokens) } : null,
      marks: known.flatMap((one, at) => (one.compacted ? [{ at, words: "cut" }] : [])), tell, href: to,
      listing: () => ({
        head: ["Call", "Time", "Tokens", ...shown.map(([, , words]) => line(words)), "Cached", "Cut"],
        rows: known.map((one, at) => [el("a", { href: to(at) }, exact(at + 1)), moment(one.start_time), exact(one.prompt_tokens), ...shown.map(([, name]) => exact(one.parts ? (one.parts[name] ?? 0) : null)), exact(one.cached_tokens), one.compacted ? "yes" : ""]),
      }),
    }),
    points.length > known.length && el("p", { class: "dim" }, `Of ${plural(points.length - known.length, "call")} no provider reported the tokens.`),
  );
}
