/**
 * Two calls that somebody marked, in any list, to compare them.
 *
 *   marked                           a cell: the ids, in the order in which they were marked, two at most
 *   toggleMark(id)                   mark a call, or take its mark away; a third one takes the place of the first
 *   const bar = markBar()            what is marked, and where it leads; bar.element, bar.stop
 *   letter(id)                       "A", "B", or "" of a call without a mark
 */
import { announce, el, fill } from "./dom.js";
import { cell, link } from "./state.js";

export const marked = cell(/** @type {string[]} */ ([]));

/** @param {string} id */
export const letter = (id) => "AB"[marked.value.indexOf(id)] ?? "";

/** @param {string} id */
export function toggleMark(id) {
  const others = marked.value.filter((one) => one !== id);
  marked.set(others.length < marked.value.length ? others : [...others.slice(-1), id]);
  announce(letter(id) ? `marked as ${letter(id)}` : "no longer marked");
}

export function markBar() {
  const element = el("div", { class: "mark-bar" });
  const stop = marked.on(([first, second]) => {
    element.hidden = !first;
    fill(element, el("span", null, second ? "Two calls are marked." : "One call is marked: mark another (x)."),
      second && el("a", { class: "button primary", href: link(["compare", first, second]) }, "Compare them"),
      el("button", { onclick: () => marked.set([]) }, "Clear"));
  });
  return { element, stop };
}
