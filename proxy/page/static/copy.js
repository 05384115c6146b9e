/**
 * Copying: to the clipboard, or shown to be copied by hand where a browser has none.
 *
 * Rule: what is copied went through `words.visible`, whoever wrote it: a clipboard is pasted into
 * terminals, which control characters steer.
 *
 *   copyCall(id, "curl" | "python" | "json")    the call as a command that makes it again
 */
import { get } from "./api.js";
import { announce, dialog, el } from "./dom.js";
import { visible } from "./words.js";

const SHOWN_MS = 2_500;

/** @param {string} id @param {string} as */
export async function copyCall(id, as) {
  try {
    await copyText(visible((await get(`calls/${id}/copy`, { as })).text), as === "json" ? "JSON" : as);
  } catch (error) {
    toast(/** @type {Error} */ (error).message);
  }
}

/** @param {string} words @param {string} what */
async function copyText(words, what) {
  try {
    await navigator.clipboard.writeText(words);
    toast(`Copied as ${what}.`);
  } catch {
    byHand(words, what); // not over plain HTTP from another machine, and not in every browser
  }
}

/** @param {string} words @param {string} what */
function byHand(words, what) {
  const area = el("textarea", { readonly: true, rows: 14, cols: 80, "aria-label": what });
  area.value = words;
  dialog("by-hand", `Copy as ${what}`, area);
  area.select();
}

/** A word at the edge of the page, for a moment. @param {string} words */
function toast(words) {
  document.querySelector(".toast")?.remove();
  const note = el("div", { class: "toast" }, words);
  document.body.append(note);
  announce(words);
  setTimeout(() => note.remove(), SHOWN_MS);
}
