/**
 * Two calls side by side: what both asked, and how they differ in it.
 *
 * Address: #/compare/A/B.
 *
 * - The left column is A, the right one B. What is the same takes one line.
 * - Of thousands of differences STEP are drawn at a time.
 */
import { get, latest } from "./api.js";
import { el, fill, Screen } from "./dom.js";
import { mark } from "./icons.js";
import { keys } from "./keys.js";
import { live } from "./live.js";
import { listInSteps, message, release } from "./messages.js";
import { address, back, go, link, setTitle } from "./state.js";
import { facts } from "./timing.js";
import { topBar } from "./top.js";
import { exact, line, moment, plural } from "./words.js";

const STEP = 200;

class Compare extends Screen {
  /** @type {string[]} */
  ids = [];
  ask = latest();
  body = el("div", { class: "compare scrolls", tabindex: 0, role: "region", "aria-label": "The two calls" });

  connectedCallback() {
    this.stops = [() => this.ask.stop(), () => release(this.body), keys("Two calls", {
      w: ["swap them", () => this.swap()], Escape: ["back to the list", () => void (location.hash = back.calls)],
    })];
  }

  /** @param {Address} where */
  show({ path: [, first, second = ""] }) {
    if (this.ids.join() === [first, second].join()) return;
    this.ids = [first, second];
    setTitle("Two calls");
    live.want({ filter: "", text: [] });
    void this.load();
  }

  swap() {
    go(["compare", ...this.ids.toReversed()], {}, true);
  }

  async load() {
    const [first, second] = this.ids;
    const top = topBar({ title: "Two calls", filter: false, extra: el("span", { class: "extra" },
      el("button", { onclick: () => this.swap() }, "Swap"), el("a", { class: "button", href: back.calls }, "Back to the list")) });
    fill(this.body, el("p", { class: "tail-end" }, "Comparing…"));
    fill(this, top.element, this.body);
    top.show(address.value);
    try {
      const found = await this.ask(`calls/${second}/diff`, { with: first });
      const both = /** @type {CallDetail[]} */ (await Promise.all([get(`calls/${first}`), get(`calls/${second}`)]));
      if (this.ids[0] !== first || this.ids[1] !== second) return;
      fill(this.body, sides(both.map(head)), parameters(both), tools(both), messages(found, both), heading("Answers"), sides(both.map((one) => list(one, one.answer, "answer"))));
    } catch (error) {
      fill(this.body, el("section", { class: "notice" }, el("h2", null, "These cannot be compared"), el("p", null, /** @type {Error} */ (error).message)));
    }
  }
}

/** @param {any[]} both */
const sides = (both) => el("div", { class: "sides" }, both.map((one) => el("div", null, one)));

/** @param {string} title @param {string} [more] */
const heading = (title, more) => el("h2", { class: "pad" }, title, more && el("span", { class: "dim" }, ` ${more}`));

/** @param {CallDetail} detail @param {number} at */
function head(detail, at) {
  const { call } = detail;
  return el("section", { class: "side-head" },
    el("h2", null, el("span", { class: "tag" }, "AB"[at]), mark(call), el("a", { href: link(["calls", call.span_id]) }, line(call.model) || line(call.name) || "call"), el("span", { class: "dim" }, moment(call.start_time))),
    el("p", null, line(call.what)), facts(detail, true));
}

/** @param {CallDetail} detail @param {Head[]} heads @param {"input" | "answer"} of */
const list = (detail, heads, of) => el("ul", { class: "messages" }, heads.map((one) => message(one, { call: detail.call.span_id, of })));

/** What has another value, as a table. @param {string} title @param {string} word @param {[string, string, string][]} rows name, and both values */
function table(title, word, rows) {
  const changed = rows.filter(([, one, other]) => one !== other);
  const same = rows.length - changed.length;
  return [
    heading(title, `${plural(same, word)} the same`),
    changed.length > 0 && el("table", { class: "pairs" }, el("caption", { class: "hidden" }, `${title} that differ`),
      el("thead", null, el("tr", null, ["Name", "A", "B"].map((words) => el("th", { scope: "col" }, words)))),
      el("tbody", null, changed.map(([name, ...both]) => el("tr", null, el("th", { scope: "row" }, line(name)), both.map((one) => el("td", null, el("div", { class: "text" }, one || "–"))))))),
  ];
}

/** @param {CallDetail[]} both */
function parameters(both) {
  const values = both.map((one) => /** @type {Record<string, unknown>} */ ({ model: one.call.model, ...one.parameters }));
  const names = [...new Set(values.flatMap(Object.keys))];
  const written = (/** @type {unknown} */ value) => (value == null ? "" : typeof value === "string" ? value : JSON.stringify(value));
  return table("Parameters", "parameter", names.map((name) => [name, written(values[0][name]), written(values[1][name])]));
}

/** @param {CallDetail[]} both */
function tools(both) {
  const known = both.map((one) => new Map(one.tools.map((tool) => [line(tool.name), `${plural(tool.chars, "character")}: ${line(tool.description)}`])));
  const names = [...new Set(known.flatMap((one) => [...one.keys()]))];
  return names.length > 0 && table("Tools", "tool", names.map((name) => [name, known[0].get(name) ?? "", known[1].get(name) ?? ""]));
}

/** @param {{ operations: Operation[], same: number, left_out: number }} found @param {CallDetail[]} both */
function messages({ operations, same, left_out: left }, both) {
  return [heading("Messages", `${exact(same)} the same`), listInSteps("difference", operations, STEP, (one) => pair(one, both)), left > 0 && el("p", { class: "dim pad" }, `${plural(left, "difference")} more were left out.`)];
}

/** @param {Operation} one @param {CallDetail[]} both */
function pair(one, both) {
  if (one.op === "same") return el("li", { class: "message same" }, `${plural(one.count, "message")} the same`);
  const places = [one.with_index, one.index];
  return el("li", { class: `sides ${one.op}` }, both.map((detail, at) => {
    const { words } = one;
    if (words) {
      const own = at ? "added" : "removed";
      return el("div", { class: "message" }, el("div", { class: "who" }, el("b", null, line(one.role) || "message")),
        el("div", { class: "text" }, words.map(([op, text]) => (op === own ? el(at ? "ins" : "del", null, text) : op === "same" ? text : null))));
    }
    const index = places[at];
    return el("div", null, index == null ? el("p", { class: "dim pad" }, "not in this one") : list(detail, detail.messages.filter((head) => head.index === index), "input"));
  }));
}

customElements.define("spantap-compare", Compare);
