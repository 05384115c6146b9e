/**
 * Messages as heads (a preview of each part), whose rest comes on demand.
 *
 *   message(head, { call: ID, of: "input" | "answer" }, { fresh, open })  -> <li>
 *       `fresh` marks it as new, `open` shows its previews unclamped
 *   listInSteps("message", things, step, make)  -> <ol>; make(thing) -> <li>
 *   unfold(element)                  shows all of its texts, the last ones first, as long as it needs no scrolling
 *   formattedToggle()                  the switch "formatted", for the top of a list
 *   release(element)                   lets go of the images below an element: call it when it goes
 *
 * - A message takes some six elements: 200 of them, 475 KB of text, stay below 3,000 nodes.
 * - Text comes in slices of 64 KiB, each on demand; at most MAX_SHOWN of one text.
 */
import { blob, get, href } from "./api.js";
import { el, fill, text } from "./dom.js";
import { formatted } from "./formatted.js";
import { cell } from "./state.js";
import { bytes, cut, exact, line, plural } from "./words.js";

const MAX_WORDS = 120; // of a folded text
const MAX_SHOWN = 1_000_000; // a browser lays out a million characters in a second or so; beyond it, the download
const CLAMP_CHARS = 700;
const CLAMP_LINES = 9;
const ROLES = ["system", "developer", "user", "assistant", "tool"]; // others are `other`
const STORED = "spantap.formatted";

/** Whether texts are shown formatted; kept for the next visit. */
const isFormatted = cell(remembered());

function remembered() {
  try {
    return localStorage.getItem(STORED) === "yes";
  } catch {
    return false; // no storage, no memory
  }
}

export function formattedToggle() {
  const box = el("input", {
    type: "checkbox", checked: isFormatted.value,
    onchange: () => {
      try {
        localStorage.setItem(STORED, box.checked ? "yes" : "no");
      } catch {
        // it holds for this visit
      }
      isFormatted.set(box.checked);
    },
  });
  return el("label", { class: "toggle" }, box, "formatted");
}

/** @typedef {{ call: string, of: "input" | "answer" }} Source */

/** @param {Head} head @param {Source} source @param {{ fresh?: boolean, open?: boolean }} [options] */
export function message(head, source, { fresh = false, open = false } = {}) {
  const role = head.role ?? "message";
  const who = role === "tool" ? `⤷ ${line(head.step ?? head.name) || "result"}` : head.name ? `${role} ${line(head.name)}` : role;
  const failed = head.failed === true;
  const calls = head.tool_calls.length;
  const images = head.parts.filter((part) => part.image).length;
  const size = head.chars || !(calls || images) ? plural(head.chars, "character") : calls ? plural(calls, "tool call") : plural(images, "picture");
  const parts = () => head.parts.map((part, index) => partView(part, head, source, index, open || failed));
  const kind = `message ${ROLES.includes(role) ? role : "other"}${fresh ? " fresh" : ""}${failed ? " failed" : ""}`;
  if (!open && isAside(head)) {
    return el("li", { class: kind }, folded([el("b", null, who), el("span", null, `${line(asideName(head))} ${size}`)], parts));
  }
  // The words of an error that is JSON have their line breaks in `error`.
  const isWritten = failed && head.parts[0]?.preview !== head.error && head.error;
  return el(
    "li", { class: kind },
    el("div", { class: "who" }, el("b", null, who, head.failed != null && (failed ? " ✗" : " ✓")), failed && el("span", { class: "tag error" }, "failed"), el("span", null, size)),
    isWritten ? [el("div", { class: "text" }, isWritten), folded(el("span", null, "as it was sent"), parts)] : parts(),
    head.tool_calls.map((call, index) => toolCall(call, source, head.index, index)),
  );
}

/** Whether a message is instructions, or has only what an agent put around the user's words. @param {Head} head */
function isAside(head) {
  if (head.role === "system" || head.role === "developer") return true;
  return head.role === "user" && head.parts.length > 0 && head.parts.every((part) => part.own === "");
}

/** What is folded: the name of its tag, else its first words. @param {Head} head */
function asideName(head) {
  const text = head.parts.at(-1)?.preview ?? "";
  return /^\s*<([\w-]+)>/.exec(text)?.[1] ?? cut(text.trimStart().split("\n", 1)[0], MAX_WORDS);
}

/** A line that unfolds what is made when it is first opened. @param {import("./dom.js").Child} words @param {() => import("./dom.js").Child} make */
function folded(words, make) {
  const details = el("details", { class: "aside", ontoggle: () => {
    if (details.open && !details.children[1]) details.append(el("div", null, make()));
  } }, el("summary", { class: "who" }, words));
  return details;
}

/**
 * A list, so many at a time: thousands would block the browser for seconds.
 * @template T @param {string} noun @param {T[]} things @param {number} step @param {(thing: T) => Element} make
 */
export function listInSteps(noun, things, step, make) {
  const items = el("ol", { class: "messages" });
  const button = el("button", { class: "more", onclick: () => draw() });
  const rest = el("li", { class: "message" }, button);
  let drawn = 0;
  const draw = () => {
    rest.remove();
    items.append(...things.slice(drawn, drawn + step).map(make));
    drawn = Math.min(things.length, drawn + step);
    fill(button, `show ${exact(Math.min(step, things.length - drawn))} of ${plural(things.length - drawn, `more ${noun}`)}`);
    if (drawn < things.length) items.append(rest);
  };
  draw();
  return items;
}

/** @param {Part} part @param {Head} head @param {Source} source @param {number} index @param {boolean} open */
function partView(part, head, source, index, open) {
  const path = `calls/${source.call}/messages/${head.index}`;
  if (part.image) return picture(part, source, head.index, index);
  if (part.url != null) return el("p", { class: "medium" }, `${part.kind}: `, el("code", null, part.url), el("span", { class: "dim" }, " not loaded: it lies elsewhere"));
  const whole = () => textView(part.preview, part.chars, path, { of: source.of, part: index }, open);
  if (part.own != null && !open) {
    return [folded(el("span", null, `${/^\s*<([\w-]+)>/.exec(part.preview)?.[1] ?? "added by the agent"}, ${plural(part.chars, "character")}`), whole), part.own && textView(part.own, [...part.own].length, path, {})];
  }
  const body = whole();
  if (part.kind === "text") return body;
  if (part.kind === "reasoning") return el("details", { class: "reasoning", open }, el("summary", null, `reasoning, ${plural(part.chars, "character")}`), body);
  return el("div", { class: "kind" }, el("span", { class: "tag" }, part.kind), body);
}

/**
 * A text, its rest behind a button.
 * @param {string} preview @param {number} chars @param {string} path @param {Record<string, any>} query @param {boolean} [open]
 */
export function textView(preview, chars, path, query, open = false) {
  let said = preview;
  let told = [...preview].length; // the server counts whole characters, `length` halves of pairs
  let next = /** @type {number | null} */ (chars > told ? told : null);
  const long = preview.length > CLAMP_CHARS || preview.split("\n", CLAMP_LINES + 2).length > CLAMP_LINES;
  let clamped = long && !open;
  const body = el("div", { class: "text" });
  const button = el("button", { class: "more" });
  const draw = () => {
    body.classList.toggle("clamp", clamped);
    body.classList.toggle("formatted", isFormatted.value);
    fill(body, isFormatted.value ? formatted(said) : text(said));
    button.hidden = !clamped && next === null;
    const rest = chars - told;
    if (said.length >= MAX_SHOWN) fill(button, `${exact(rest)} more characters: see raw`);
    else fill(button, clamped && next === null ? "show all" : `show ${rest > 65_536 ? `64 KiB of ${exact(rest)} more` : `all ${exact(chars)}`} characters`);
    button.disabled = said.length >= MAX_SHOWN;
  };
  button.onclick = async () => {
    if (next !== null) {
      button.disabled = true;
      try {
        const more = await get(path, { ...query, from: next });
        said += more.text;
        next = more.next;
        told = next ?? chars;
      } catch (error) {
        button.disabled = false;
        return fill(button, `${/** @type {Error} */ (error).message} Try again`);
      }
    }
    clamped = false;
    draw();
  };
  draw();
  redrawn.set(body, draw);
  unfolded.set(body, () => {
    clamped = false;
    draw();
  });
  return el("div", { class: "words" }, body, !button.hidden && button);
}

/** @type {WeakMap<Element, () => void>} */
const redrawn = new WeakMap();
/** @type {WeakMap<Element, () => void>} */
const unfolded = new WeakMap();

/** @param {Element} box which scrolls if it has to */
export function unfold(box) {
  for (const body of [...box.querySelectorAll(".text.clamp")].reverse()) {
    if (box.scrollHeight > box.clientHeight) return;
    unfolded.get(body)?.();
  }
}

isFormatted.on(() => {
  for (const body of document.querySelectorAll(".words > .text")) redrawn.get(body)?.();
});

/** @param {ToolCall} call @param {Source} source @param {number} index @param {number} n */
function toolCall(call, source, index, n) {
  const path = `calls/${source.call}/messages/${index}`;
  return el(
    "div", { class: "tool-call" }, el("b", null, `⚙ ${line(call.name) || "tool"}`),
    textView(call.arguments ?? "", call.chars, path, { of: source.of, part: `call-${n}` }),
  );
}

/** @param {Part} part @param {Source} source @param {number} message @param {number} index */
function picture(part, source, message, index) {
  const { type, bytes: size, digest, left_out } = /** @type {NonNullable<Part["image"]>} */ (part.image);
  const words = size == null ? type ?? "image" : `${type ?? "image"}, ${bytes(size)}`;
  if (left_out != null) return el("p", { class: "medium" }, `${words}: `, el("span", { class: "dim" }, `not kept: ${left_out}`));
  const image = el("img", { alt: `image of the ${source.of === "input" ? "request" : "answer"}: ${words}`, class: "picture", loading: "lazy" });
  const caption = el("figcaption", null, words);
  image.onload = () => fill(caption, `${words}, ${image.naturalWidth} × ${image.naturalHeight}`);
  /** @param {string} why */
  const fail = (why) => {
    image.remove();
    fill(caption, `${words}: ${why}`);
  };
  if (digest != null) {
    image.onerror = () => fail("it could not be loaded, or is damaged");
    image.src = href(`calls/${source.call}/pictures/${digest}`);
  } else {
    void blob(`calls/${source.call}/images/${message}`, { of: source.of, part: index }).then((found) => {
      image.src = URL.createObjectURL(found);
    }, (error) => fail(error.message));
  }
  return el("figure", null, image, caption);
}

/** @param {Element} element */
export function release(element) {
  for (const image of element.querySelectorAll("img")) if (image.src.startsWith("blob:")) URL.revokeObjectURL(image.src);
}
