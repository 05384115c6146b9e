/**
 * The text of an open call, as it comes.
 *
 *   const shown = liveText(id, (call) => …)     shown.element, shown.stop()
 *
 * - New text is appended to a text node; the text before it is not touched.
 * - A reader at the end stays there; a reader who scrolled up stays where they are.
 * - A screen reader hears how much there is, at most every two seconds, never the text itself.
 * - A text that comes again from its beginning (at 0) replaces what was shown of it.
 * - Beyond MAX_CHARS the beginning is removed: the record will soon have the whole text.
 */
import { announce, el } from "./dom.js";
import { live } from "./live.js";
import { exact, line, visible } from "./words.js";

const MAX_CHARS = 400_000;
const NEAR_PX = 40;
const TICK_MS = 500;
const TITLES = /** @type {Record<string, string>} */ ({ reasoning: "reasoning", refusal: "refusal" });

/**
 * @param {string} id
 * @param {(call: Open) => void} told what is known of the call besides: now, and again as its time goes on
 */
export function liveText(id, told) {
  const element = el("div", { class: "live-text" }, el("p", { class: "dim empty" }, live.hasText
    ? "Text is shown here as it comes." : "What is said is shown once the call is recorded: the settings hide or mask parts of it."));
  /** @type {Map<number, Text>} */
  const parts = new Map();
  const off = live.on("text", (news) => {
    if (news.span_id !== id) return;
    element.querySelector(".empty")?.remove();
    const box = scroller(element);
    const stay = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_PX;
    let node = parts.get(news.part);
    if (!node) {
      node = document.createTextNode("");
      parts.set(news.part, node);
      const title = news.kind === "arguments" ? `⚙ ${line(news.name) || "tool"}` : (TITLES[news.kind] ?? "answer");
      element.append(el("section", { class: news.kind }, el("h3", null, title), el("div", { class: "text" }, node)));
    }
    if (news.at === 0) node.data = ""; // it comes again from its beginning
    node.appendData(visible(news.text));
    if (node.length > MAX_CHARS) node.deleteData(0, node.length - MAX_CHARS / 2);
    if (stay) box.scrollTop = box.scrollHeight;
    announce(`${exact([...parts.values()].reduce((sum, one) => sum + one.length, 0))} characters so far`);
  });
  live.want({ text: [id] });
  const tick = () => {
    const call = live.open.value.get(id);
    if (call) told(call);
  };
  tick();
  const timer = setInterval(tick, TICK_MS);
  return {
    element,
    stop() {
      clearInterval(timer);
      off();
      live.want({ text: [] });
    },
  };
}

/** @param {HTMLElement} element @returns {Element} */
function scroller(element) {
  return element.closest(".scrolls") ?? document.documentElement;
}
