/**
 * Keys: what each does, and the list of them all under `?`.
 *
 *   const stop = keys("Calls", { j: ["down, up", down, "j k"], k: [null, up] })
 *
 * - Keys do nothing in a field, with Ctrl, Alt or Meta, or if something else has handled them.
 * - The newest group that has the key handles it; a function that returns false leaves it to the next one
 *   and to the browser.
 * - A key without words is not listed: it is another name of a listed one.
 */
import { dialog, el } from "./dom.js";

/** @typedef {[string | null, (event: KeyboardEvent) => any, string?]} Binding words, what is done, and the key as it is listed */
/** @type {{ title: string, bindings: Record<string, Binding> }[]} */
const groups = [];

/** @param {string} title @param {Record<string, Binding>} bindings @returns {() => void} */
export function keys(title, bindings) {
  const group = { title, bindings };
  groups.push(group);
  return () => {
    const at = groups.indexOf(group);
    if (at >= 0) groups.splice(at, 1);
  };
}

/** @param {EventTarget | null} target */
function isField(target) {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || target.matches("input:not([type=checkbox]), textarea, select"))
  );
}

addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey || event.isComposing) return;
  if (isField(event.target) || document.querySelector("dialog[open]")) return;
  const name = event.key === " " ? "Space" : event.key;
  for (const { bindings } of groups.toReversed()) {
    const binding = bindings[name];
    if (binding && binding[1](event) !== false) {
      event.preventDefault();
      return;
    }
  }
});

/** Show all keys that do something now. */
export function showKeys() {
  const titles = [...new Set(groups.map(({ title }) => title))].reverse();
  const lists = titles.map((title) => {
    const listed = groups.filter((one) => one.title === title).flatMap(({ bindings }) => Object.entries(bindings)).filter(([, [words]]) => words);
    return el(
      "section", null, el("h3", null, title),
      el("dl", null, listed.map(([key, [words, , shown]]) =>
        el("div", null, el("dt", null, (shown ?? key).split(" ").map((one) => el("kbd", null, one))), el("dd", null, words)))),
    );
  });
  dialog("keys", "Keys", el("div", { class: "columns" }, lists));
}

keys("Everywhere", { "?": ["all keys", showKeys] });
