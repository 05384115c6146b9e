/**
 * The text of an open call, as it comes.
 *
 *   const shown = liveText(id)     shown.element, shown.stop()
 *
 * Rules:
 * 1. What comes is appended to a text node; nothing that stands there is touched.
 * 2. A reader who is at the end stays there; one who scrolled up stays where they are.
 * 3. A screen reader hears how much there is, at most every two seconds, never the text itself.
 * 4. Beyond MAX_CHARS the beginning is let go: the whole stands in the record in a moment.
 */
import { announce, el } from "./dom.js";
import { live } from "./live.js";
import { exact, visible } from "./words.js";

const MAX_CHARS = 400_000;
const NEAR_PX = 40;
const TITLES = /** @type {Record<string, string>} */ ({ reasoning: "reasoning", arguments: "⚙ arguments of a tool", text: "answer" });

/** @param {string} id */
export function liveText(id) {
  const element = el("div", { class: "live-text" }, el("p", { class: "dim empty" }, "Text is shown here as it comes."));
  let kind = "";
  let node = /** @type {Text | null} */ (null);
  let chars = 0;
  const off = live.on("text", (news) => {
    if (news.span_id !== id) return;
    element.querySelector(".empty")?.remove();
    const box = scroller(element);
    const stay = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_PX;
    if (news.kind !== kind || !node) {
      kind = news.kind;
      node = document.createTextNode("");
      element.append(el("section", { class: kind }, el("h3", null, TITLES[kind] ?? "answer"), el("div", { class: "text" }, node)));
    }
    node.appendData(visible(news.text));
    chars += news.text.length;
    if (node.length > MAX_CHARS) node.deleteData(0, node.length - MAX_CHARS / 2);
    if (stay) box.scrollTop = box.scrollHeight;
    announce(`${exact(chars)} characters so far`);
  });
  live.want({ text: [id] });
  return {
    element,
    stop() {
      off();
      live.want({ text: [] });
    },
  };
}

/** @param {HTMLElement} element @returns {Element} */
function scroller(element) {
  return element.closest(".scrolls") ?? document.documentElement;
}
