/**
 * The bodies as they were recorded, and the answer as it came: downloads, and a look at them in slices.
 *
 * Rule: a slice is read from the answer when it is asked for; the server sends no more meanwhile.
 */
import { href } from "./api.js";
import { el, fill, text } from "./dom.js";
import { icon } from "./icons.js";
import { showStream } from "./stream.js";
import { bytes } from "./words.js";

const SLICE_BYTES = 64 * 1024;
const WORDS = /** @type {Record<string, string>} */ ({ request: "Request, as it was recorded", response: "Answer, put together from the record", stream: "Answer, as it came", span: "Span, as the backend gets it" });

/** @param {CallDetail} detail */
export function rawView(detail) {
  return Object.entries(detail.raw).map(([part, size]) => {
    const address = href(`calls/${detail.call.span_id}/raw`, { part });
    const place = el("div", { class: "words" });
    return el("section", { class: "raw" },
      el("header", null, el("h2", null, WORDS[part] ?? part, el("span", { class: "dim" }, size != null ? bytes(size) : part === "stream" ? "not kept: see SPANTAP_RAW in the settings" : "not recorded")),
        size != null && el("button", { onclick: (/** @type {Event} */ event) => {
          /** @type {Element} */ (event.currentTarget).remove();
          void (part === "stream" ? showStream(place, detail.call.span_id) : look(place, address));
        } }, "Show"),
        size != null && el("a", { class: "button", href: address, download: true }, icon("down"), "Download")), place);
  });
}

/** A body in slices, at once. @param {string} id @param {"request" | "response"} part */
export function rawText(id, part) {
  const place = el("div", { class: "words" });
  void look(place, href(`calls/${id}/raw`, { part }));
  return place;
}

/** @param {Element} place @param {string} address */
async function look(place, address) {
  const body = el("div", { class: "text mono", tabindex: 0, role: "group", "aria-label": "The body" });
  const more = el("button", { class: "more" }, "more");
  fill(place, body, more);
  try {
    const response = await fetch(address);
    if (!response.ok || !response.body) throw new Error(`The answer was HTTP ${response.status}.`);
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    const read = async () => {
      more.disabled = true;
      let size = 0;
      let words = "";
      let done = false;
      while (!done && size < SLICE_BYTES) {
        const { value, done: end } = await reader.read();
        done = end;
        size += value?.length ?? 0;
        words += decoder.decode(value, { stream: !end });
      }
      body.append(text(words));
      more.disabled = false;
      more.hidden = done;
      fill(more, "show 64 KiB more");
    };
    more.onclick = () => void read();
    await read();
  } catch (error) {
    fill(place, el("p", { class: "wrong" }, /** @type {Error} */ (error).message));
  }
}
