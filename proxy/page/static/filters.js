/**
 * Filters that the page writes itself (the language: docs/terminal.md).
 *
 *   condition("model", "gpt-5.1")    `model:gpt-5.1`; of what is not known `-model:*`
 *   all("a:b", "", "c:d")            words that must all hold
 *   asksText("grep tool:grep")       whether words are among them that are searched in what was said
 *   fitsOpen(filter, call)           whether an open call can be told to fit: by what is known of it
 */

/** @param {string} key @param {string | null | undefined} value */
export function condition(key, value) {
  if (!value) return `-${key}:*`;
  const safe = value.replace(/[\\"*]/g, "\\$&");
  return `${key}:${/\s/.test(safe) ? `"${safe}"` : safe}`;
}

/** @param {...(string | null | undefined | false)} words */
export const all = (...words) => words.filter(Boolean).join(" ");

/** An open call fits by its model, client, upstream and API; where more is asked, it waits for its end. @param {string} filter @param {any} call */
export function fitsOpen(filter, call) {
  return filter.split(/\s+/).filter(Boolean).every((word) => {
    const [, not, key, value] = /^(-?)(model|client|upstream|api):([^"*]*)\*?$/.exec(word) ?? [];
    if (!key) return false;
    const own = String(call[key] ?? "").toLowerCase();
    const wanted = value.toLowerCase();
    return (word.endsWith("*") ? own.startsWith(wanted) : own === wanted) !== Boolean(not);
  });
}

/** @param {string} filter */
export const asksText = (filter) => /(^|\s)-?("|[^\s:<>=]+(?=\s|$))/.test(filter.replace(/[:<>=]"[^"]*"/g, ":x"));
