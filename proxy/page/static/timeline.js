/**
 * The timeline of a conversation: runs as blocks, lanes for calls at the same time, sub-agents below their tools.
 *
 *   timeline(bars, runs, left, next) -> Element  the whole tab
 *
 * - A block is a run with its sub-agents, or calls in a row that belong to no run; it has at most as many
 *   calls as can be distinguished in the width (MAX_CALLS, MAX_ALONE); a longer one is several blocks.
 * - The time of a tool is an upper bound: it is hatched, and its words say so.
 * - Calls at the same time are in parallel lanes, at most MAX_LANES; more overlap in the last one.
 * - If the place of a bar is not known, its time decides the block.
 */
import { chart, key } from "./charts.js";
import { el } from "./dom.js";
import { outcome } from "./icons.js";
import "./lanes.js";
import { link } from "./state.js";
import { costs, count, cut, duration, exact, line, plural, seconds } from "./words.js";

const MAX_LANES = 24;
const MAX_NESTED = 8; // agents below one another; deeper ones stand beside the deepest
const IDLE_MS = 1_000;
const MAX_CALLS = 60;
const MAX_ALONE = 20; // between these is idle time, which is folded

/** @typedef {{ run: number | null, agent: any, bars: any[], below: Group[], start: number, end: number, part?: number[] | null }} Group */
/** @typedef {{ run: number | null, agent: any, part?: number[] | null, turns: [number, number], start: number, end: number, bars: any[], rows: any[], boxes: any[] }} Block */

/** @param {any[]} bars @returns {Group[]} */
function group(bars) {
  /** @type {Map<any, any>} */
  const byId = new Map(bars.map((one) => [one.span_id, one]));
  /** @type {Map<string, Group>} */
  const groups = new Map();
  /** @type {Map<any, Group>} */
  const home = new Map();
  let lone = 0;
  let wasLone = false;
  for (const one of bars) {
    if (one.kind === "MARKER" || one.kind === "CHAIN") continue;
    const isBelow = one.run == null && byId.has(one.parent_span_id);
    const isLone = one.run == null && !isBelow;
    if (isLone && !wasLone) lone += 1;
    if (isLone || !(one.depth > 1)) wasLone = isLone;
    const name = one.run != null ? `run ${one.run}` : isBelow ? `call ${one.span_id}` : `alone ${lone}`;
    /** @type {Group} */
    const mine = groups.get(name) ?? { run: one.run, agent: null, bars: [], below: [], start: one.start_ms, end: one.end_ms };
    groups.set(name, mine);
    home.set(one, mine);
    if (one.kind === "AGENT") mine.agent = one;
    else mine.bars.push(one);
    mine.start = Math.min(mine.start, one.start_ms);
    mine.end = Math.max(mine.end, one.end_ms);
  }
  /** @type {Group[]} */
  const outer = [];
  for (const mine of [...groups.values()].sort((one, other) => one.start - other.start)) {
    const above = byId.get((mine.agent ?? (mine.run == null ? mine.bars[0] : null))?.parent_span_id);
    let place = above && home.get(above);
    const least = Math.min(...mine.bars.map((one) => one.depth));
    if (!place && least > 1) place = outer.findLast((one) => one.start <= mine.start); // by its time
    if (place && place !== mine) place.below.push(mine);
    else outer.push(mine);
  }
  return outer;
}

/** Parts of a group that is too long for one block, each beginning with a call. @param {Group} mine @returns {Group[]} */
function split(mine) {
  const most = mine.run == null ? MAX_ALONE : MAX_CALLS;
  const calls = mine.bars.filter((one) => one.kind !== "TOOL");
  const starts = calls.filter((_, at) => at > 0 && at % most === 0).map((one) => one.start_ms);
  const bounds = [-Infinity, ...starts, Infinity];
  return [-Infinity, ...starts].map((from, at) => {
    const isIn = (/** @type {number} */ time) => time >= from && time < bounds[at + 1];
    const bars = mine.bars.filter((one) => isIn(one.start_ms));
    return {
      ...mine, bars, below: mine.below.filter((one) => isIn(one.start)),
      start: at ? from : mine.start, end: Math.max(...bars.map((one) => one.end_ms)), part: starts.length ? [at + 1, starts.length + 1] : null,
    };
  });
}

/** Bars in as few lanes as possible. @param {any[]} bars by start */
function inLanes(bars) {
  /** @type {number[]} */
  const ends = [];
  return bars.map((one) => {
    let lane = ends.findIndex((end) => end <= one.start_ms);
    if (lane < 0) lane = Math.min(ends.length, MAX_LANES - 1);
    ends[lane] = Math.max(ends[lane] ?? 0, one.end_ms);
    return lane;
  });
}

/** @param {any} one */
function shape(one) {
  const isTool = one.kind === "TOOL";
  const isBad = one.status === "ERROR";
  const name = isBad && !isTool ? outcome(one).words : line(one.what) || (isTool ? "tool" : "");
  return {
    start: one.start_ms, end: Math.max(one.start_ms, one.end_ms), first: one.ttft_ms == null ? null : one.start_ms + one.ttft_ms,
    kind: isBad ? "error" : isTool ? "tool" : "a", words: `${isBad ? "✗ " : ""}${cut(name, 32)}`.trim(), took: seconds(one.end_ms - one.start_ms), bar: one,
  };
}

/** @param {Group} mine @param {Block} block @param {number} level @param {Set<Group>} seen */
function lay(mine, block, level, seen) {
  if (seen.has(mine)) return; // whatever the rows say, there is no circle
  seen.add(mine);
  for (const [words, isTool] of /** @type {[string, boolean][]} */ ([["calls", false], ["tools", true]])) {
    const own = mine.bars.filter((one) => (one.kind === "TOOL") === isTool).sort((one, other) => one.start_ms - other.start_ms);
    if (!own.length) continue;
    const first = block.rows.length;
    const lanes = inLanes(own);
    const most = Math.max(...lanes);
    for (let lane = 0; lane <= most; lane += 1) block.rows.push({ words: lane ? "" : words, level });
    own.forEach((one, at) => block.bars.push({ ...shape(one), row: first + lanes[at] }));
  }
  for (const child of mine.below) {
    if (level >= MAX_NESTED) {
      lay(child, block, level, seen);
      continue;
    }
    const from = block.rows.length;
    const name = line(child.agent?.name ?? "");
    block.rows.push({ words: "", level: level + 1 });
    lay(child, block, level + 1, seen);
    const asked = line(child.agent?.preview ?? child.bars[0]?.preview ?? "");
    const words = [name && name !== "agent" ? `sub-agent ${name}` : "sub-agent", asked && `“${cut(asked, 60)}”`].filter(Boolean).join(" ");
    block.boxes.push({ from, to: block.rows.length - 1, start: child.start, end: child.end, words });
  }
}

/** Who stands where. @param {any[]} bars @returns {Block[]} */
function blocks(bars) {
  return group([...bars].sort((one, other) => one.start_ms - other.start_ms)).flatMap(split).filter((one) => one.bars.length || one.below.length).map((mine) => {
    const turns = mine.bars.map((one) => one.turn).filter((one) => one != null);
    /** @type {Block} */
    const block = {
      run: mine.run, agent: mine.agent, part: mine.part, turns: [Math.min(...turns), Math.max(...turns)],
      start: mine.start, end: mine.end, bars: [], rows: [], boxes: [],
    };
    lay(mine, block, 0, new Set());
    block.bars.sort((one, other) => one.start - other.start || one.row - other.row);
    block.end = Math.max(block.end, ...block.bars.map((one) => one.end));
    return block;
  });
}

/** The costs of some calls, with the part at list price. @param {any[]} calls */
function sumCosts(calls) {
  const priced = calls.filter((one) => one.cost_usd != null);
  const add = (/** @type {any[]} */ some) => some.reduce((sum, one) => sum + one.cost_usd, 0);
  return { cost_usd: priced.length ? add(priced) : null, list_usd: add(priced.filter((one) => one.cost_basis === "list")) };
}

/** Tokens of a call in words. @param {any} one */
export function tokenWords(one) {
  return [
    one.prompt_tokens != null && `${count(one.prompt_tokens)} in${one.cached_tokens ? ` (${count(one.cached_tokens)} cached)` : ""}`,
    one.completion_tokens != null && `${count(one.completion_tokens)} out`,
    one.cost_usd != null && costs(sumCosts([one])),
  ].filter(Boolean).join(", ");
}

/** A run by its place in its conversation; its number is the title. @param {number} number @param {any} run */
export function runLink(number, run) {
  return el("a", { class: "dim", href: link(["runs", number]), title: `run ${number}` }, run?.run_place == null ? `run ${number}` : `run ${run.run_place} of ${run.runs}`);
}

/** How long models and tools took. @param {any[]} runs */
export function spentWords(runs) {
  const sum = (/** @type {string} */ name) => runs.reduce((all, { time }) => all + time[name], 0);
  return runs.length > 0 && `model ${duration(sum("model_ms"))} · tools ${duration(sum("tools_ms"))}`;
}

/** Where the time of a run went, and its longest step. @param {any} time */
function timeWords({ model_ms: model, tools_ms: tools, longest }) {
  return [`model ${duration(model)}`, tools > 0 && `tools ${duration(tools)}`, longest && tools > 0 && `longest: ${longest.kind === "TOOL" ? "" : "the answer to "}${cut(line(longest.what) || "call", 60)} ${duration(longest.duration_ms)}`].filter(Boolean).join(" · ");
}

/** @param {any} one a bar of the API */
function barWords(one) {
  const took = one.end_ms - one.start_ms;
  if (one.kind === "TOOL") {
    return `${line(one.what) || "tool"} · at most ${duration(took)}${one.status === "ERROR" ? " · failed" : ""}`;
  }
  return [
    line(one.model ?? one.name), line(one.what), `${duration(took)}${one.ttft_ms == null ? "" : `, first output after ${duration(one.ttft_ms)}`}`, tokenWords(one),
    one.status === "ERROR" ? outcome(one).words : line(one.finish_reason),
    one.tools?.length ? `→ ${one.tools.map(line).join(", ")}` : "",
  ].filter(Boolean).join(" · ");
}

/** @param {any[]} bars @param {any[]} runs @param {number} left @param {string | null} further address of the bars left out */
export function timeline(bars, runs, left, further) {
  const all = blocks(bars);
  const known = new Map(runs.map((one) => [one.run, one]));
  const parts = all.flatMap((block, at) => {
    const idle = at ? block.start - Math.max(...all.slice(0, at).map((one) => one.end)) : 0;
    return [idle > IDLE_MS && el("p", { class: "idle" }, el("span", null, `idle ${duration(idle)}`)), section(block, known.get(block.run), bars)];
  });
  return el(
    "div", { class: "timeline" },
    key([["wait", "waiting for the first output"], ["a", "output"], ["tool", "tool, at most so long: from the call to its result"], ["error", "failed"]]),
    all.length ? parts : el("p", { class: "nothing" }, "Nothing is left of this conversation's calls."),
    left > 0 && el("p", { class: "idle" }, el(
      "span", null, `${plural(left, "bar")} more ${left === 1 ? "was" : "were"} left out`,
      further && [" ", el("a", { href: further }, "show the next ones")],
    )),
  );
}

/** @param {Block} block @param {any} run @param {any[]} bars */
function section(block, run, bars) {
  const [first, last] = block.turns;
  const turns = first === last ? `turn ${first}` : `turns ${first}–${last}`;
  const title = `${Number.isFinite(first) ? turns : "calls"}${block.run != null && block.part ? `, ${block.part.join(" of ")}` : ""}`;
  const asked = line(run?.preview ?? block.agent?.preview ?? (block.run == null && first !== last ? "" : block.bars[0]?.bar.preview));
  const calls = block.bars.filter((one) => one.bar.kind !== "TOOL");
  const tools = block.bars.length - calls.length;
  const cost = sumCosts(calls.map((one) => one.bar));
  const number = block.run == null ? null : [runLink(block.run, run), " · "];
  const sums = [duration(block.end - block.start), plural(calls.length, "call"), tools && plural(tools, "tool"), cost.cost_usd != null && costs(cost), run?.open && "still open"];
  const callOf = new Map(bars.map((one) => [one.span_id, one]));
  const to = (/** @type {any} */ { bar }) => link(["calls", (bar.kind === "TOOL" ? caller(bar, block, callOf) : bar).span_id]);
  return el(
    "section", { class: "block" },
    el("h3", null, el("span", { class: "tag" }, title), asked && el("span", { class: "asked" }, asked), el("span", { class: "sums" }, number, sums.filter(Boolean).join(" · "))),
    run?.time.longest && !block.part && el("p", { class: "dim spent" }, timeWords(run.time)),
    chart("spantap-lanes", {
      label: `${title}: ${plural(block.bars.length, "bar")} over time`, bars: block.bars, rows: block.rows, boxes: block.boxes,
      tell: (/** @type {any} */ { bar, start }) => `${barWords(bar)} · ${start > block.start ? `${duration(start - block.start)} after the start` : "at the start"}`,
      href: to,
      listing: () => ({
        head: ["After", "What", "New", "Took", "First output", "In", "Cached", "Out", "Cost", "Outcome"],
        rows: block.bars.map((one) => [
          duration(one.start - block.start), el("a", { href: to(one) }, line(one.bar.kind === "TOOL" ? one.bar.name : (one.bar.model ?? one.bar.name)) || "call"), line(one.bar.what),
          `${one.bar.kind === "TOOL" ? "≤ " : ""}${duration(one.end - one.start)}`, duration(one.bar.ttft_ms), exact(one.bar.prompt_tokens), exact(one.bar.cached_tokens),
          exact(one.bar.completion_tokens), costs(sumCosts([one.bar])), one.bar.status === "ERROR" ? outcome(one.bar).words : line(one.bar.finish_reason ?? "–"),
        ]),
      }),
    }),
  );
}

/** The call whose answer called a tool: the last one of its run that ended before. @param {any} tool @param {Block} block @param {Map<string, any>} byId */
function caller(tool, block, byId) {
  const calls = block.bars.filter((one) => one.bar.kind !== "TOOL" && one.bar.run === tool.run && one.end <= tool.start_ms + 1);
  return calls.at(-1)?.bar ?? byId.get(tool.parent_span_id) ?? tool;
}

