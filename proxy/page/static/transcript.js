/**
 * The transcript of a conversation: what each call added, with its answer.
 *
 *   const script = transcript(number, after)     the tab; `after` is a seq, or null: from the beginning
 *   script.element; script.know(bars, runs)      which calls are sub-agents of which; again when there are more
 *   script.grow()                                there may be new calls
 *   script.stop()
 *
 * - Calls come in slices of PAGE as the reader scrolls; at most MAX_TURNS are in the page (some 3,000
 *   nodes), then a link leads on.
 * - Long texts are folded, and come in slices on demand (messages.js).
 * - A sub-agent's calls stand indented below the call that started it; those of another conversation come
 *   when they are unfolded.
 */
import { get } from "./api.js";
import { el, fill } from "./dom.js";
import { outcome } from "./icons.js";
import { message, release } from "./messages.js";
import { link } from "./state.js";
import { runLink, tokenWords } from "./timeline.js";
import { clock, duration, line, plural } from "./words.js";

const PAGE = 20;
const MAX_TURNS = 100;
const MAX_LEVEL = 4;

/** @typedef {{ agent: any, tool: any, calls: any[], tools: number }} SubAgent */

/** Agents below tools, by their first calls. @param {any[]} bars @param {Map<string, any>} byId @returns {SubAgent[]} */
function findSubs(bars, byId) {
  const isTool = (/** @type {any} */ one) => one.kind === "TOOL";
  const agents = bars.filter((one) => one.kind === "AGENT" && byId.get(one.parent_span_id)?.kind === "TOOL");
  const lone = bars.filter((one) => one.run == null && byId.get(one.parent_span_id)?.kind === "TOOL");
  return [
    ...agents.map((agent) => {
      const own = bars.filter((one) => one.run === agent.run && one.kind !== "AGENT");
      return { agent, tool: byId.get(agent.parent_span_id), calls: own.filter((one) => !isTool(one)), tools: own.filter(isTool).length };
    }),
    ...lone.map((one) => ({ agent: null, tool: byId.get(one.parent_span_id), calls: [one], tools: 0 })),
  ];
}

/** @param {number} number @param {string | null} after */
export function transcript(number, after) {
  const list = el("ol", { class: "transcript" });
  const end = el("p", { class: "tail-end" });
  const element = el("div", null, after != null && el("p", { class: "tail-end" }, el("a", { href: link(["conversations", number, "transcript"]) }, "from the beginning")), list, end);
  const signal = new AbortController();
  /** @type {Map<string, any>} */
  let bars = new Map();
  /** @type {any[]} */
  let agents = [];
  /** @type {SubAgent[]} */
  let subs = [];
  /** @type {Map<number, any>} */
  let runs = new Map();
  let next = after;
  let isBusy = false;
  let isDone = false;
  let count = 0;
  /** @type {number | null | undefined} */
  let lastRun;
  /** @type {Set<string>} */
  const told = new Set();

  /** @param {any} bar */
  const level = (bar) => {
    let depth = 0;
    for (let one = bar; one && depth < MAX_LEVEL; depth += 1) {
      const agent = agents.find((other) => other.run === one.run);
      const above = bars.get((agent ?? (one.run == null ? one : null))?.parent_span_id);
      if (!above || above.kind !== "TOOL") break;
      one = above;
    }
    return depth;
  };

  /** Sub-agents of other conversations that began before this call, each once. @param {any} bar */
  const between = (bar) => subs.filter((one) => {
    const [first] = one.calls;
    const isDue = first && one.tool.run === bar.run && first.start_ms < bar.start_ms && !told.has(first.span_id);
    if (isDue) told.add(first.span_id);
    return isDue;
  }).map((one) => el("li", null, subAgent(one)));

  /** @param {any} turn */
  const add = (turn) => {
    told.add(turn.span_id);
    const bar = bars.get(turn.span_id);
    if (bar) list.append(...between(bar));
    if (bar && bar.run !== lastRun && level(bar) === 0) {
      const run = runs.get(bar.run);
      if (bar.run != null) list.append(el("li", { class: "run-head" }, el("h3", null, el("span", { class: "tag" }, turn.turn == null ? "run" : `turn ${turn.turn}`), line(run?.preview), runLink(bar.run, run))));
      lastRun = bar.run;
    }
    list.append(el("li", { class: `turn level-${bar ? level(bar) : 0}` }, turnView(turn, bar, Boolean(bar) && level(bar) > 0)));
  };

  const more = async () => {
    if (isBusy || isDone || count >= MAX_TURNS) return;
    isBusy = true;
    try {
      const answer = await get(`conversations/${number}/transcript`, { after: next, limit: PAGE }, { signal: signal.signal });
      for (const turn of answer.turns) add(turn);
      count += answer.turns.length;
      isDone = answer.next === null;
      next = answer.next ?? answer.turns.at(-1)?.seq ?? next;
      if (isDone) fill(end, count ? "" : "Nothing is left of this conversation's calls.");
      else if (count >= MAX_TURNS) fill(end, el("a", { href: link(["conversations", number, "transcript"], { after: next }) }, "go on with the next calls"));
      else fill(end, "…");
    } catch (error) {
      if (signal.signal.aborted) return;
      isDone = true;
      fill(end, /** @type {Error} */ (error).message, " ", el("button", { onclick: () => { isDone = false; void more(); } }, "Try again"));
    }
    isBusy = false;
    if (isNear()) void more();
  };
  const isNear = () => element.isConnected && end.getBoundingClientRect().top < innerHeight + 800;
  const watch = new IntersectionObserver(([seen]) => seen.isIntersecting && void more(), { rootMargin: "800px" });
  watch.observe(end);

  return {
    element,
    /** @param {any[]} newBars @param {any[]} newRuns */
    know(newBars, newRuns) {
      bars = new Map(newBars.map((one) => [one.span_id, one]));
      agents = newBars.filter((one) => one.kind === "AGENT");
      subs = findSubs(newBars, bars);
      runs = new Map(newRuns.map((one) => [one.run, one]));
    },
    grow() {
      if (!isDone) return;
      isDone = false;
      if (isNear()) void more();
    },
    stop() {
      signal.abort();
      watch.disconnect();
      release(element);
    },
  };
}

/** @param {any} turn @param {any} bar @param {boolean} [isBelow] of a sub-agent */
function turnView(turn, bar, isBelow = false) {
  const heads = (/** @type {"input" | "answer"} */ of, /** @type {any[]} */ list) => list.map((head) => message(head, { call: turn.span_id, of }));
  return el(
    "article", { class: "card" },
    el("h4", null, isBelow && el("span", null, "sub-agent"), el("a", { href: link(["calls", turn.span_id]) }, "call ", el("code", null, turn.span_id.slice(0, 8))),
      el("span", { class: "dim" }, [turn.turn != null && `turn ${turn.turn}`, clock(turn.start_time), duration(turn.duration_ms), bar && line(bar.model), bar && tokenWords(bar)].filter(Boolean).join(" · ")),
      bar?.status === "ERROR" && el("span", { class: "tag error" }, `✗ ${outcome(bar).words}`)),
    el("ul", { class: "messages" }, heads("input", turn.new), heads("answer", turn.answer)),
    !turn.new.length && !turn.answer.length && el("p", { class: "nothing" }, "Nothing of what was said is recorded."),
  );
}

/** A sub-agent, its calls when they are unfolded. @param {SubAgent} sub */
function subAgent({ agent, calls, tools }) {
  const body = el("div", { class: "sub-body" });
  const name = line(agent?.name);
  const [first] = calls;
  const took = duration(Math.max(...calls.map((one) => one.end_ms)) - first.start_ms);
  const unfold = async () => {
    if (!folded.open || body.firstChild) return;
    fill(body, "…");
    try {
      const shown = await Promise.all(calls.slice(0, PAGE).map((one) => get(`calls/${one.span_id}`)));
      const rest = shown[0].conversation;
      fill(body, shown.map((one, at) => turnView({ ...one.call, new: one.messages.slice(one.new_from), answer: one.answer }, calls[at])),
        rest && el("a", { href: link(["conversations", rest.number, "transcript"]) }, `Conversation ${rest.number}, its own`));
    } catch (error) {
      fill(body, /** @type {Error} */ (error).message);
    }
  };
  const folded = el(
    "details", { class: "sub-agent", ontoggle: unfold },
    el("summary", null, el("b", null, name && name !== "agent" ? `sub-agent ${name}` : "sub-agent"), " ", el("span", { class: "asked" }, line(agent?.preview ?? first.preview)),
      el("span", { class: "dim" }, ` ${[plural(calls.length, "call"), tools && plural(tools, "tool"), took].filter(Boolean).join(" · ")}`)), body,
  );
  return folded;
}
