/**
 * Text with headings, lists, code and emphasis shown as such, built from nodes.
 *
 * - HTML and links stay text: only the forms above are formatted.
 * - JSON is shown indented.
 * - At most MAX_BLOCKS blocks are formatted; the rest is plain text, so that no text makes the page slow.
 *
 *   formatted(string) -> DocumentFragment
 */
import { el, text } from "./dom.js";

const MAX_BLOCKS = 400;
const MAX_JSON = 200_000;
const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+-]*)/;
const HEADING = /^(#{1,6})\s+(.+?)\s*#*$/;
const ITEM = /^(\s*)(?:[-*+]|(\d{1,4})[.)])\s+(.*)$/;

/** @param {string} string */
export function formatted(string) {
  const whole = document.createDocumentFragment();
  const json = indented(string);
  if (json !== null) {
    whole.append(el("pre", null, json));
    return whole;
  }
  const lines = string.replaceAll("\r\n", "\n").split("\n");
  let at = 0;
  for (let blocks = 0; at < lines.length; blocks += 1) {
    if (blocks >= MAX_BLOCKS) {
      whole.append(el("p", null, lines.slice(at).join("\n")));
      break;
    }
    const [block, next] = readBlock(lines, at);
    if (block) whole.append(block);
    at = next;
  }
  return whole;
}

/** @param {string} string @returns {string | null} */
function indented(string) {
  const start = string.trimStart()[0];
  if ((start !== "{" && start !== "[") || string.length > MAX_JSON) return null;
  try {
    return JSON.stringify(JSON.parse(string), null, 2);
  } catch {
    return null;
  }
}

/** @param {string[]} lines @param {number} at @returns {[Element | null, number]} the block, and where the next begins */
function readBlock(lines, at) {
  const first = lines[at];
  if (!first.trim()) return [null, at + 1];
  const fence = FENCE.exec(first);
  if (fence) return readCode(lines, at, fence[1]);
  const heading = HEADING.exec(first);
  if (heading) {
    // Bold, and no heading: those of others have no place among the page's own.
    return [el("p", { class: `level-${heading[1].length}` }, el("strong", null, inline(heading[2]))), at + 1];
  }
  if (/^ {0,3}([-*_])( *\1){2,} *$/.test(first)) return [el("hr"), at + 1];
  if (ITEM.test(first)) return readList(lines, at);
  if (first.startsWith(">")) {
    const quoted = take(lines, at, (one) => one.startsWith(">"));
    return [el("blockquote", null, inline(quoted.map((one) => one.replace(/^> ?/, "")).join("\n"))), at + quoted.length];
  }
  const plain = take(lines, at, (one, n) => one.trim() !== "" && (n === 0 || !(FENCE.test(one) || HEADING.test(one) || ITEM.test(one))));
  return [el("p", null, inline(plain.join("\n"))), at + plain.length];
}

/** @param {string[]} lines @param {number} at @param {(one: string, n: number) => boolean} holds */
function take(lines, at, holds) {
  let end = at;
  while (end < lines.length && holds(lines[end], end - at)) end += 1;
  return lines.slice(at, end);
}

/** @param {string[]} lines @param {number} at @param {string} fence @returns {[Element, number]} */
function readCode(lines, at, fence) {
  const inside = take(lines, at + 1, (one) => !one.trimStart().startsWith(fence));
  return [el("pre", null, inside.join("\n")), at + inside.length + 2];
}

/** @param {string[]} lines @param {number} at @returns {[Element, number]} */
function readList(lines, at) {
  const first = /** @type {RegExpExecArray} */ (ITEM.exec(lines[at]));
  const list = first[2] ? el("ol", { start: first[2] }) : el("ul");
  const found = take(lines, at, (one, n) => n === 0 || ITEM.test(one) || /^\s+\S/.test(one));
  let words = /** @type {string[]} */ ([]);
  let depth = 0;
  const close = () => {
    if (words.length) list.append(el("li", depth ? { style: { "--depth": depth } } : null, inline(words.join("\n"))));
  };
  for (const one of found) {
    const item = ITEM.exec(one);
    if (!item) {
      words.push(one.trim());
      continue;
    }
    close();
    depth = Math.min(6, Math.floor((item[1].length - first[1].length) / 2));
    words = [item[3]];
  }
  close();
  return [list, at + found.length];
}

/** Code and emphasis within a line. @param {string} string @returns {Node[]} */
function inline(string) {
  const found = /** @type {Node[]} */ ([]);
  let from = 0;
  for (const match of string.matchAll(/(`+)([^`][^]*?)\1(?!`)|(\*\*|__)(?=\S)([^\n]+?)(?<=\S)\3|(?<![\w*])\*(?=[^\s*])([^\n*]+?)(?<=\S)\*(?![\w*])/g)) {
    if (match.index > from) found.push(text(string.slice(from, match.index)));
    if (match[1]) found.push(el("code", null, match[2].trim()));
    else if (match[3]) found.push(el("strong", null, match[4]));
    else found.push(el("em", null, match[5]));
    from = match.index + match[0].length;
  }
  if (from < string.length) found.push(text(string.slice(from)));
  return found;
}
