/**
 * The JSON API of the page (docs/page.md).
 *
 *   await get("calls", { filter, limit: 100 }, { signal })   JSON; throws ApiError
 *   await blob(`calls/${id}/images/0`, { of: "input" })       for images; revoke its object URL
 *   href("calls/ID/raw", { part: "span" })                    an address, for a download
 *   await sendToken(token)                                    true where it is right
 *   latest()                                                  each call of the result aborts the one before
 *
 * ApiError: code (`token`, `filter`, `not_found`, `store`, `busy`, …; `gone` where nobody answers),
 * message for people, position within a filter. A wrong token sets `connection`.
 */
import { connection } from "./state.js";

export class ApiError extends Error {
  /** @param {string} code @param {string} message @param {number | null} [position] */
  constructor(code, message, position = null) {
    super(message);
    this.code = code;
    this.position = position;
  }
}

/** @param {string} path @param {Record<string, any>} [query] */
export function href(path, query = {}) {
  const members = Object.entries(query).filter(([, value]) => value != null && value !== "");
  const words = new URLSearchParams(members).toString();
  return `/api/${path}${words && `?${words}`}`;
}

/** @param {string} path @param {Record<string, any>} [query] @param {RequestInit} [options] */
async function ask(path, query, options = {}) {
  let response;
  try {
    response = await fetch(href(path, query), { credentials: "same-origin", ...options });
  } catch (error) {
    if (/** @type {Error} */ (error).name === "AbortError") throw error;
    throw new ApiError("gone", "Nobody answers: the page's process has ended, or the machine is out of reach.");
  }
  if (response.ok) return response;
  const said = await response.json().catch(() => null);
  const fault = said?.error ?? {};
  if (response.status === 401) connection.set("token");
  const message = fault.message ?? `The answer was HTTP ${response.status}.`;
  throw new ApiError(fault.code ?? "http", message, fault.position ?? null);
}

/** @param {string} path @param {Record<string, any>} [query] @param {RequestInit} [options] @returns {Promise<any>} */
export async function get(path, query, options) {
  return (await ask(path, query, options)).json();
}

/** @param {string} path @param {Record<string, any>} [query] */
export async function blob(path, query) {
  return (await ask(path, query)).blob();
}

/** @param {string} token */
export async function sendToken(token) {
  try {
    const headers = { "Content-Type": "application/json" };
    await ask("token", {}, { method: "POST", headers, body: JSON.stringify({ token }) });
  } catch (error) {
    if (/** @type {ApiError} */ (error).code === "token") return false;
    throw error;
  }
  if (connection.value === "token") connection.set("start");
  return true;
}

/** Ask so that only the newest answer comes: the one before is aborted and its promise never settles. */
export function latest() {
  let last = new AbortController();
  /** @param {string} path @param {Record<string, any>} [query] @returns {Promise<any>} */
  const asking = async (path, query) => {
    last.abort();
    const mine = (last = new AbortController());
    try {
      const answer = await get(path, query, { signal: mine.signal });
      return mine.signal.aborted ? new Promise(() => {}) : answer;
    } catch (error) {
      if (mine.signal.aborted) return new Promise(() => {});
      throw error;
    }
  };
  asking.stop = () => last.abort();
  return asking;
}
