/**
 * The transcript of a conversation: what each call added, with its answer.
 *
 *   const script = transcript(number, after)     the tab; `after` is a seq, or null: from the beginning
 *   script.element; script.know(bars, runs)      who is whose sub-agent; again when there are more
 *   script.grow()                                there may be new calls
 *   script.stop()
 *
 * Rules:
 * 1. Calls come in slices of PAGE, as the reader goes on; at most MAX_TURNS are in the page, then an address
 *    leads on (L2: some 3,000 nodes).
 * 2. Texts are folded where they are long, and come in slices when asked for (messages.js).
 * 3. A sub-agent's calls stand indented below the call that started it; those of another conversation come
 *    when they are unfolded.
 */
import { get } from "./api.js";
import { el, fill, write } from "./dom.js";
import { message, release } from "./messages.js";
import { link } from "./state.js";
import { tokenWords } from "./timeline.js";
import { clock, duration, line, plural } from "./words.js";

const PAGE = 20;
const MAX_TURNS = 100;
const MAX_LEVEL = 4;

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

  /** Sub-agents of other conversations, whose calls were over before this one began. @param {any} bar */
  const between = (bar) => {
    const found = agents.filter((one) => {
      const tool = bars.get(one.parent_span_id);
      const run = runs.get(one.run);
      return tool && tool.run === bar.run && one.run !== bar.run && one.start_ms < bar.start_ms && run && run.conversation !== number && !told.has(one.span_id);
    });
    return found.map((one) => {
      told.add(one.span_id);
      return el("li", null, subAgent(one, runs.get(one.run), bars));
    });
  };

  /** @param {any} turn */
  const add = (turn) => {
    const bar = bars.get(turn.span_id);
    if (bar) list.append(...between(bar));
    if (bar && bar.run !== lastRun && level(bar) === 0) {
      const run = runs.get(bar.run);
      if (bar.run != null) list.append(el("li", { class: "run-head" }, el("h3", null, el("span", { class: "tag" }, `run ${bar.run}`), line(run?.preview))));
      lastRun = bar.run;
    }
    list.append(el("li", { class: `turn level-${bar ? level(bar) : 0}` }, turnView(turn, bar)));
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

/** @param {any} turn @param {any} bar */
function turnView(turn, bar) {
  const heads = (/** @type {"input" | "answer"} */ of, /** @type {any[]} */ list) => list.map((head) => message(head, { call: turn.span_id, of }));
  return el(
    "article", { class: "card" },
    el("h4", null, el("a", { href: link(["calls", turn.span_id]) }, "call ", el("code", null, turn.span_id.slice(0, 8))),
      el("span", { class: "dim" }, [turn.turn != null && `turn ${turn.turn}`, clock(turn.start_time), duration(turn.duration_ms), bar && line(bar.model), bar && tokenWords(bar)].filter(Boolean).join(" · ")),
      bar?.status === "ERROR" && el("span", { class: "tag error" }, `✗ ${line(bar.outcome ?? "error").replaceAll("_", " ")}`)),
    el("ul", { class: "messages" }, heads("input", turn.new), heads("answer", turn.answer)),
    !turn.new.length && !turn.answer.length && el("p", { class: "nothing" }, "Nothing of what was said is recorded."),
  );
}

/** @param {any} agent @param {any} run @param {Map<string, any>} bars */
function subAgent(agent, run, bars) {
  const body = el("div", { class: "sub-body" });
  const name = line(agent.name);
  const words = el("span", { class: "dim" });
  write(words, [plural(run.calls, "call"), run.tools && plural(run.tools, "tool"), duration(run.duration_ms)].filter(Boolean).join(" · "));
  const isOpened = async () => {
    if (!folded.open || body.firstChild) return;
    fill(body, "…");
    try {
      const answer = await get(`conversations/${run.conversation}/transcript`, { limit: PAGE });
      const own = answer.turns.filter((/** @type {any} */ one) => (bars.get(one.span_id)?.run ?? run.run) === run.run);
      fill(body, own.map((/** @type {any} */ one) => turnView(one, bars.get(one.span_id))), el("a", { href: link(["conversations", run.conversation, "transcript"]) }, `all of conversation ${run.conversation}`));
    } catch (error) {
      fill(body, /** @type {Error} */ (error).message);
    }
  };
  const folded = el(
    "details", { class: "sub-agent", ontoggle: isOpened },
    el("summary", null, el("b", null, name && name !== "agent" ? `sub-agent ${name}` : "sub-agent"), " ", el("span", { class: "asked" }, line(run.preview ?? agent.preview)), " ", words), body,
  );
  return folded;
}
