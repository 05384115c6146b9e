/**
 * The run of an agent: its sums, and its steps as a tree beside the details of the chosen one.
 *
 * Address: #/runs/N?call=ID (shown beside the tree).
 *
 * - Sums are of all steps, sub-agents too; the last one says what sub-agents have of them.
 * - A run that goes on is read again when one of its conversations changes.
 */
import { latest } from "./api.js";
import { cachedShare } from "./conversations.js";
import { announce, el, fill, Screen, throttle } from "./dom.js";
import { failedLink } from "./failures.js";
import { keys } from "./keys.js";
import { live } from "./live.js";
import { markBar, marked, toggleMark } from "./marks.js";
import { Peek } from "./peek.js";
import { idOf, RunTree } from "./run_tree.js";
import { address, back, change, go, link, setTitle } from "./state.js";
import { topBar } from "./top.js";
import { costNotes, costs, count, duration, exact, line, moment, plural, titleOf } from "./words.js";

const NEWS_MS = 2_000;
const REST = 10; // times what the last answer took, so that a long run is no load
const WIDE = 1_000; // pixels that have room for a tree and a call

class Run extends Screen {
  number = 0;
  /** @type {any} */
  answer = null;
  took = 0;
  ask = latest();
  head = el("header", { class: "conversation-head" });
  end = el("p", { class: "list-end" });
  tree = new RunTree({ choose: (id, by) => this.choose(id, by === "click"), open: (id) => this.open(id) });
  peek = new Peek({ close: () => this.close() });
  marks = markBar();

  connectedCallback() {
    const refresh = throttle(() => Math.max(NEWS_MS, REST * this.took), () => void this.refresh());
    this.stops = [
      () => this.ask.stop(), () => this.peek.hide(), this.bindKeys(), this.marks.stop, marked.on(() => {
        this.tree.draw();
        this.peek.showMark();
      }),
      live.on("conversation", ({ number }) => {
        if (number === null || this.answer?.steps.some((/** @type {any} */ one) => one.conversation === number)) refresh();
      }),
    ];
  }

  /** @param {Address} where */
  show({ path, query }) {
    const number = Number(path[1]);
    back.calls = link(["runs", number], query);
    if (number !== this.number) {
      this.number = number;
      setTitle(`Run ${number}`);
      live.want({ filter: "", text: [] });
      return void this.load();
    }
    this.look(query.call ?? null);
  }

  async load() {
    this.answer = null;
    const { number } = this;
    const top = topBar({ title: `Run ${number}`, filter: false, extra: el("span", { class: "extra" }, el("a", { class: "button", href: link(["calls"], { filter: `run:${number}` }) }, "Its calls")) });
    fill(this, top.element, el("p", { class: "tail-end" }, "…"));
    top.show(address.value);
    try {
      this.answer = await this.ask(`runs/${number}`);
    } catch (error) {
      const { code, message } = /** @type {import("./api.js").ApiError} */ (error);
      if (code === "token") return;
      return fill(this, top.element, el("section", { class: "notice" }, el("h2", null, "Nothing to show"), el("p", null, message), el("button", { onclick: () => void this.load() }, "Try again")));
    }
    fill(this, top.element, this.head, this.marks.element, el("div", { class: "with-peek" }, el("div", { class: "list" }, this.tree.element), this.peek.element));
    this.tree.element.append(this.end);
    this.draw();
    const { steps } = this.answer;
    const seen = new Set(this.tree.seen.map((one) => one.id));
    const first = steps.find((/** @type {any} */ one) => one.status === "ERROR" && one.kind !== "AGENT" && seen.has(idOf(one))) ?? steps[1] ?? steps[0];
    const chosen = address.value.query.call ?? null;
    if (!chosen && first && this.clientWidth >= WIDE) change({ call: idOf(first) }, true);
    else this.look(chosen);
  }

  async refresh() {
    const began = performance.now();
    const answer = await this.ask(`runs/${this.number}`).catch(() => null);
    this.took = performance.now() - began;
    if (!answer || !this.answer || JSON.stringify(answer) === JSON.stringify(this.answer)) return;
    this.answer = answer;
    this.draw();
  }

  draw() {
    const { run, parent_run: parent, steps, complete, too_deep: tooDeep } = this.answer;
    const all = steps[0]?.branch ?? run;
    const others = complete ? all.calls - run.calls : 0;
    /** @type {[string, any, any?][]} */
    const sums = [
      ["took", duration(run.duration_ms), run.open ? "so far" : ""],
      ...spentSums(run.time),
      ["calls", exact(all.calls)],
      ["tools", exact(all.tools), failedLink(all.tool_errors, { run: this.number })],
      ["errors", all.errors ? el("button", { class: "bad", title: "Show the next one (e)", onclick: () => this.toFailed() }, exact(all.errors)) : "0"],
      ["in", count(all.prompt_tokens), cachedShare(all)],
      ["out", count(all.completion_tokens)],
      ["cost", costs(all), costNotes(all).join(", ")],
    ];
    const theirs = { calls: others, priced: all.priced - run.priced, unpriced: all.unpriced - run.unpriced, cost_usd: all.cost_usd - (run.cost_usd ?? 0), list_usd: (all.list_usd ?? 0) - (run.list_usd ?? 0) };
    if (others > 0) sums.push(["by sub-agents", plural(others, "call"), theirs.priced ? [costs(theirs), ...costNotes(theirs)].join(", ") : ""]);
    fill(
      this.head,
      el("h2", null, titleOf(run) || `Run ${run.run}`),
      el("p", { class: "dim" }, [line(run.client), run.open ? "still open" : run.ended_by && `ended: ${line(run.ended_by).replaceAll("_", " ")}`, moment(run.start_time)].filter(Boolean).join(" · "),
        run.conversation != null && [" · ", el("a", { href: link(["conversations", run.conversation, "timeline"]) }, `conversation #${run.conversation}`), run.run_place != null && `, run ${run.run_place} of ${run.runs}`],
        parent != null && [" · started by ", el("a", { href: link(["runs", parent]) }, `run ${parent}`)]),
      el("dl", { class: "amounts" }, sums.map(([name, value, more]) => el("div", null, el("dt", null, name), el("dd", null, value, more && el("small", null, " ", more))))),
    );
    fill(this.end, tooDeep > 0 && `${plural(tooDeep, "step")} more ${tooDeep === 1 ? "has" : "have"} no place in the tree, and ${tooDeep === 1 ? "is" : "are"} in no sum: too deep. `, complete ? "The row of a branch has the sums of all that is below it. The time of a tool is an upper bound: from the answer that calls it to the request with its result."
      : `These are the first ${plural(steps.length, "step")}, and the sums are of these.`);
    this.tree.show(steps);
  }

  /** @param {string | null} id */
  look(id) {
    if (id !== this.tree.chosen) this.tree.choose(id);
    if (!id) return this.peek.hide();
    const step = this.tree.items.get(id)?.step;
    this.peek.show(id, step?.seq === null ? step : undefined, step?.branch && branchWords(step, step.run === this.number ? null : step.run));
  }

  /** @param {string} id @param {boolean} peek */
  choose(id, peek) {
    this.tree.choose(id, true);
    const shown = address.value.query.call;
    if ((peek || shown) && id !== shown) change({ call: id }, Boolean(shown));
  }

  close() {
    change({ call: null });
    this.tree.choose(this.tree.chosen, true);
  }

  /** @param {string} id */
  open(id) {
    const step = this.tree.items.get(id)?.step;
    if (step && step.kind !== "AGENT") go(["calls", id]);
    else this.tree.fold(id, !this.tree.folded.has(id));
  }

  toFailed() {
    const id = this.tree.failed();
    if (id) this.choose(id, true);
    else announce("no step failed");
  }

  bindKeys() {
    const { tree } = this;
    /** @param {() => any} work */
    const inTree = (work) => (/** @type {KeyboardEvent} */ event) => (event.target instanceof Element && event.target.closest(".peek, .top, header") ? false : work());
    const move = (/** @type {number} */ by) => {
      const id = tree.near(by);
      if (id) this.choose(id, false);
    };
    const chosen = (/** @type {(id: string) => any} */ work) => inTree(() => (tree.chosen ? work(tree.chosen) : false));
    return keys("Run", {
      j: ["down, up", () => move(1), "j k"], k: [null, () => move(-1)], ArrowDown: [null, inTree(() => move(1))], ArrowUp: [null, inTree(() => move(-1))],
      PageDown: [null, inTree(() => move(tree.page))], PageUp: [null, inTree(() => move(-tree.page))],
      Home: [null, inTree(() => move(-Infinity))], End: [null, inTree(() => move(Infinity))],
      ArrowLeft: ["fold the branch, or to the one above; unfold it", chosen((id) => {
        const up = tree.items.get(id)?.up;
        if (!tree.fold(id, true) && up) this.choose(up.id, false);
      }), "← →"],
      ArrowRight: [null, chosen((id) => tree.fold(id, false) || (tree.items.get(id)?.below.length && move(1)))],
      Enter: ["open the call", chosen((id) => this.open(id))],
      Space: ["peek", chosen((id) => (address.value.query.call ? this.close() : this.choose(id, true)))],
      Escape: ["close the peek", () => (address.value.query.call ? this.close() : false)],
      x: ["mark a call, to compare two", chosen((id) => (tree.items.get(id)?.step.model ? toggleMark(id) : announce("only a call can be marked")))],
      e: ["the next call or tool that failed", () => this.toFailed()],
    });
  }
}

/** Where the time went. @param {any} time @returns {[string, any, any?][]} */
function spentSums({ model_ms: model, tools_ms: tools, longest }) {
  if (!longest) return [];
  return [["model", duration(model)], ["tools took", duration(tools)],
    ["longest step", duration(longest.duration_ms), el("a", { href: link(["calls", longest.span_id]) }, line(longest.what) || "call")]];
}

/** What a branch comes to. @param {any} step @param {number | null} run another run, which the branch is */
function branchWords({ branch, run: own }, run) {
  /** @type {[string, any, any?][]} */
  const sums = [
    ["calls", exact(branch.calls), branch.errors ? `${exact(branch.errors)} failed` : ""], ["tools", exact(branch.tools), failedLink(branch.tool_errors, { run: own })],
    ["tokens in", exact(branch.prompt_tokens), cachedShare(branch)], ["tokens out", exact(branch.completion_tokens)], ["cost", costs(branch), costNotes(branch).join(", ")], ["took", duration(branch.duration_ms)],
  ];
  return [
    el("h3", null, "All of this branch", run !== null && el("a", { href: link(["runs", run]) }, `run ${run} alone`)),
    el("dl", { class: "facts" }, sums.map(([name, value, more]) => el("div", null, el("dt", null, name), el("dd", null, value, more && el("span", { class: "dim" }, more))))),
  ];
}

customElements.define("spantap-run", Run);
