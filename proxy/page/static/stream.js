/**
 * The true bytes of an answer as they came: a line each, with its time and the wait for it.
 *
 * - A line that came together with the one before it has no time.
 * - The bar behind a wait is its part of the time of the whole stream.
 */
import { get } from "./api.js";
import { el, fill } from "./dom.js";
import { bytes, duration, exact, plural } from "./words.js";

const LONG_MS = 1000;

/** @param {Element} place @param {string} id */
export async function showStream(place, id) {
  const rows = el("tbody");
  const more = el("button", { class: "more" }, "show more lines");
  const head = el("p", { class: "dim" });
  const rest = el("p", { class: "dim" });
  fill(place, head, el("div", { class: "mono", tabindex: 0, role: "group", "aria-label": "The stream" },
    el("table", { class: "as-came" }, el("caption", { class: "hidden" }, "The answer as it came"),
      el("thead", { class: "hidden" }, el("tr", null, ["time", "wait", "line"].map((name) => el("th", { scope: "col" }, name)))), rows)), more, rest);
  let from = 0;
  const read = async () => {
    more.disabled = true;
    try {
      const told = await get(`calls/${id}/stream`, { from });
      fill(head, [told.content_type, told.content_encoding, plural(told.reads, "read"), duration(told.duration_ms)].filter(Boolean).join(" · "));
      rows.append(...told.lines.map((/** @type {any} */ one) => drawLine(one, told.duration_ms)));
      from = told.next;
      more.hidden = told.next == null;
      fill(rest, told.next == null && told.left_bytes > 0 && `${bytes(told.left_bytes)} more came, and are not kept: the limit is 1 MiB of an answer.`);
    } catch (error) {
      fill(rest, el("span", { class: "wrong" }, /** @type {Error} */ (error).message));
    }
    more.disabled = false;
  };
  more.onclick = () => void read();
  await read();
}

/** @param {any} one @param {number} whole */
function drawLine({ at_ms: at, wait_ms: wait, text, chars, bytes: size }, whole) {
  const came = wait != null;
  const part = came && whole > 0 ? Math.max(0, Math.min(1, wait / whole)) : 0;
  const cut = text != null && chars > text.length && el("span", { class: "dim" }, ` … ${exact(chars - text.length)} more characters`);
  return el("tr", { class: came && wait >= LONG_MS ? "long" : null },
    el("td", null, came && `${(at / 1000).toFixed(3)} s`),
    el("td", { style: { "--part": `${100 * part}%` } }, came && `+${(wait / 1000).toFixed(3)}`),
    el("td", null, text ?? `[${exact(size)} bytes]`, cut));
}
