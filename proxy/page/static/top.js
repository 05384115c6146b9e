/**
 * The bar above a screen: filter, time range, the sign of life, and whatever the screen adds.
 *
 *   const top = topBar({ title: "Calls", filter: true, extra: node })
 *   top.element                      put it first
 *   top.show(address)                on each change of address
 *   top.fault(error)                 an ApiError about the filter, its place marked; null takes it away
 *   top.focus()                      the filter field
 *
 * What is typed goes into the address (`filter`, `range` or `from` and `to`) on Enter or after a rest;
 * the screen reads it from there. Only the first change of a series is a step back.
 */
import { el, fill, write } from "./dom.js";
import { icon } from "./icons.js";
import { change, connection } from "./state.js";
import { range } from "./words.js";

const REST_MS = 350;
const RANGES = [["", "any time"], ["15m", "last 15 minutes"], ["1h", "last hour"], ["24h", "last 24 hours"], ["7d", "last 7 days"]];
const SIGNS = /** @type {Record<string, [string, string]>} */ ({
  start: ["connecting", "The page asks for live news."],
  live: ["live", "New calls come as they happen."],
  still: ["not live", "No proxy tells this page what it does: calls are shown once they are recorded."],
  quiet: ["paused", "This tab was hidden; it goes on when seen."],
  gone: ["not connected", "Nobody answers; the page tries again."],
  token: ["no access", "The page needs its token."],
});

/** @param {{ title: string, filter?: boolean, placeholder?: string, extra?: any }} options */
export function topBar({ title, filter = true, placeholder, extra }) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let rest;
  let typed = false;
  const field = el("input", {
    type: "search", class: "filter", "aria-label": "Filter", spellcheck: "false", autocomplete: "off",
    placeholder: placeholder ?? "Filter: status:error  model:gpt-5*  dur>5s  \"any text\"",
    oninput: () => {
      clearTimeout(rest);
      rest = setTimeout(apply, REST_MS);
    },
    onkeydown: (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "Enter") apply();
      if (event.key === "Escape") {
        field.value = "";
        apply();
        field.blur();
      }
    },
    onblur: () => {
      typed = false;
    },
  });
  const apply = () => {
    clearTimeout(rest);
    change({ filter: field.value.trim() || null }, typed);
    typed = true;
  };
  const select = el(
    "select", { "aria-label": "Time range", onchange: () => change({ range: select.value || null, from: null, to: null }) },
    RANGES.map(([value, words]) => el("option", { value }, words)),
  );
  const chosen = el("option", { value: "chosen" });
  const wrong = el("p", { class: "wrong", role: "alert", hidden: true });
  const sign = el("span", { class: "sign" });
  let shown = false;
  /** @type {() => void} */
  const stop = connection.on((now) => {
    if (shown && !sign.isConnected) return stop(); // its screen is gone
    const [words, more] = SIGNS[now];
    sign.className = `sign ${now}`;
    sign.title = more;
    write(sign, words);
  });
  const element = el(
    "header", { class: "top" }, el("h1", null, title),
    filter && el("search", { class: "search" }, icon("search"), field, el("kbd", { "aria-hidden": "true" }, "/")),
    filter && select, extra, sign, wrong,
  );
  return {
    element,
    focus() {
      field.focus();
      field.select();
    },
    /** @param {Address} address */
    show({ query }) {
      shown = true;
      if (document.activeElement !== field) field.value = query.filter ?? "";
      if (query.from || query.to) {
        write(chosen, range(query.from ?? null, query.to ?? null));
        select.prepend(chosen);
        select.value = "chosen";
      } else {
        chosen.remove();
        select.value = query.range ?? "";
      }
    },
    /** @param {import("./api.js").ApiError | null} error */
    fault(error) {
      wrong.hidden = error === null;
      field.toggleAttribute("aria-invalid", error !== null);
      if (!error) return;
      const said = field.value;
      const at = error.position;
      fill(
        wrong,
        at != null && at <= said.length && el("code", null, said.slice(0, at), el("mark", null, said.slice(at) || " ")),
        ` ${error.message}`,
      );
    },
  };
}
