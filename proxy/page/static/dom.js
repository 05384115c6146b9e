/**
 * Elements and text nodes, and lists that keep what they show.
 *
 * - Nothing is ever parsed as HTML. A string becomes a text node, through `words.visible`: whatever
 *   a model or a client said stays text.
 * - No `style` attribute, because the policy refuses it: `style` takes properties, which are set one by one.
 *
 * For screens:
 *   el("a", { class: "row", href, hidden: false, onclick, style: { "--n": 3 } }, "text", node, [more], null)
 *   svg("rect", { x: 0 })            the same for SVG
 *   text(string)                     a text node
 *   fill(parent, ...children)        in place of its children
 *   write(node, string)              its text, touched only where it differs
 *   keyed(parent, items, key, make, update)   one child per item, in their order; elements stay
 *   dialog(kind, title, ...children) a dialog that is removed when it is closed
 *   class Calls extends Screen       whose `stops` are called when it is left
 *   throttle(wait, work)             at once, then at most every wait() ms, the last call always
 *   announce(words)                  said by a screen reader, at most every two seconds
 */
import { visible } from "./words.js";

/** @typedef {Node | string | number | null | undefined | false | Child[]} Child */
/** @typedef {Record<string, any>} Attributes */

/** A text node, never HTML. @param {string} string */
export function text(string) {
  return document.createTextNode(visible(string));
}

/** @param {Child[]} children @returns {Node[]} */
function nodes(children) {
  return /** @type {any[]} */ (children).flat(Infinity).flatMap((/** @type {any} */ one) => {
    if (one == null || one === false) return [];
    return one instanceof Node ? [one] : [text(String(one))];
  });
}

/** @template {Element} T @param {T} element @param {Attributes} attributes @param {Child[]} children @returns {T} */
function dress(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value == null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") {
      for (const [property, one] of Object.entries(value)) {
        /** @type {any} */ (element).style.setProperty(property, String(one)); // the policy refuses a `style` attribute
      }
    } else element.setAttribute(name, value === true ? "" : visible(String(value)));
  }
  element.append(...nodes(children));
  return element;
}

/**
 * An element.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag @param {Attributes | null} [attributes] @param {...Child} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function el(tag, attributes, ...children) {
  return dress(document.createElement(tag), attributes ?? {}, children);
}

/**
 * An element of SVG.
 * @template {keyof SVGElementTagNameMap} K
 * @param {K} tag @param {Attributes} [attributes] @param {...Child} children
 * @returns {SVGElementTagNameMap[K]}
 */
export function svg(tag, attributes = {}, ...children) {
  return dress(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

/** Put children in place of those of an element. @param {Element} parent @param {...Child} children */
export function fill(parent, ...children) {
  parent.replaceChildren(...nodes(children));
}

/** Set the text of an element, touching it only where it differs. @param {Element} element @param {string} string */
export function write(element, string) {
  const safe = visible(string);
  if (element.textContent !== safe) element.textContent = safe;
}

/**
 * A dialog that is gone once it is closed.
 * @param {string} kind its class @param {string} title @param {...Child} more
 */
export function dialog(kind, title, ...more) {
  const box = el(
    "dialog", { class: kind, "aria-labelledby": `${kind}-title`, onclose: () => box.remove() },
    el("header", null, el("h2", { id: `${kind}-title` }, title),
      el("button", { class: "plain", onclick: () => box.close() }, "Close")),
    more,
  );
  document.body.append(box);
  box.showModal();
}

/** A screen (app.js): what it put into `stops` is called when it goes. */
export class Screen extends HTMLElement {
  /** @type {(() => void)[]} */
  stops = [];

  disconnectedCallback() {
    for (const stop of this.stops) stop();
  }
}

/** @type {WeakMap<Element, Map<any, Element>>} */
const kept = new WeakMap();

/**
 * Keep one child per item, in the order of the items; a child stays as long as its key does, so
 * that focus, selection and what is unfolded stay too.
 * @template I
 * @param {Element} parent has no other children
 * @param {I[]} items
 * @param {(item: I) => any} key
 * @param {(item: I) => Element} make
 * @param {(element: any, item: I) => void} [update] for those that are there already
 */
export function keyed(parent, items, key, make, update) {
  const before = kept.get(parent) ?? new Map();
  const focused = parent.contains(document.activeElement) ? /** @type {HTMLElement} */ (document.activeElement) : null;
  const now = new Map();
  for (const item of items) {
    const name = key(item);
    const old = now.has(name) ? undefined : before.get(name);
    if (old) update?.(old, item);
    now.set(name, old ?? make(item));
  }
  for (const [name, child] of before) if (now.get(name) !== child) child.remove();
  let place = parent.firstElementChild;
  for (const child of now.values()) {
    if (place && child === place) place = place.nextElementSibling;
    else parent.insertBefore(child, place);
  }
  while (place) {
    const next = place.nextElementSibling;
    place.remove();
    place = next;
  }
  kept.set(parent, now);
  // What is moved loses its focus.
  if (focused && focused !== document.activeElement && parent.contains(focused)) focused.focus({ preventScroll: true });
}

/** Call at once, then at most so often; the last call is never lost. @param {() => number} wait in ms @param {() => void} work */
export function throttle(wait, work) {
  let last = -Infinity;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const run = () => {
    timer = undefined;
    last = performance.now();
    work();
  };
  return () => {
    if (timer !== undefined) return;
    const left = last + wait() - performance.now();
    if (left <= 0) run();
    else timer = setTimeout(run, left);
  };
}

let said = "";
const say = throttle(() => 2000, () => {
  const place = document.getElementById("said");
  if (place) write(place, said);
});

/** Have a screen reader say something, at most every two seconds. @param {string} words */
export function announce(words) {
  said = words;
  say();
}
