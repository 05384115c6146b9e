/**
 * What differs from another call, by default the one before it in its conversation.
 */
import { get } from "./api.js";
import { el, fill } from "./dom.js";
import { message } from "./messages.js";
import { link } from "./state.js";
import { line, plural } from "./words.js";

const SIGNS = /** @type {Record<string, string>} */ ({ added: "+ added", removed: "− removed", changed: "~ changed" });

/** @param {CallDetail} detail @param {string} other the call it is compared with */
export function difference(detail, other) {
  const place = el("div", { class: "difference" }, el("p", { class: "dim pad" }, "Comparing…"));
  void load(place, detail, other);
  return place;
}

/** @param {Element} place @param {CallDetail} detail @param {string} other */
async function load(place, detail, other) {
  try {
    const [found, before] = await Promise.all([get(`calls/${detail.call.span_id}/diff`, { with: other }), get(`calls/${other}`)]);
    const operations = /** @type {Operation[]} */ (found.operations);
    const changed = operations.filter((one) => one.op !== "same").length;
    fill(place, el("p", { class: "pad dim" }, "Compared with ", el("a", { href: link(["calls", other]) }, other.slice(0, 8)), `: ${plural(found.same, "message")} the same, ${plural(changed, "difference")}.`),
      el("ol", { class: "messages" }, operations.map((one) => operation(one, detail, before))));
  } catch (error) {
    fill(place, el("p", { class: "wrong pad" }, /** @type {Error} */ (error).message));
  }
}

/** @param {Operation} one @param {CallDetail} detail @param {CallDetail} before */
function operation(one, detail, before) {
  if (one.op === "same") return el("li", { class: "message same" }, `${plural(one.count, "message")} the same`);
  const sign = el("span", { class: `tag op ${one.op}` }, SIGNS[one.op]);
  if (one.words) {
    return el("li", { class: `message ${one.op}` }, el("div", { class: "who" }, sign, el("b", null, line(one.role) || "message")),
      el("div", { class: "text" }, one.words.map(([op, words]) => (op === "added" ? el("ins", null, words) : op === "removed" ? el("del", null, words) : words))));
  }
  const [from, index] = one.op === "removed" ? [before, one.with_index] : [detail, one.index];
  const heads = from.messages.filter((head) => index != null && head.index >= index && head.index < index + Math.max(1, one.count));
  return heads.map((head) => {
    const item = message(head, { call: from.call.span_id, of: "input" });
    item.classList.add(one.op);
    item.firstElementChild?.prepend(sign.cloneNode(true));
    return item;
  });
}
