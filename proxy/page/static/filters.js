/**
 * Filters that the page writes itself (the language: docs/terminal.md).
 *
 *   condition("model", "gpt-5.1")    `model:gpt-5.1`; of what is not known `-model:*`
 *   all("a:b", "", "c:d")            words that must all hold
 */

/** @param {string} key @param {string | null | undefined} value */
export function condition(key, value) {
  if (!value) return `-${key}:*`;
  const safe = value.replace(/[\\"*]/g, "\\$&");
  return `${key}:${/\s/.test(safe) ? `"${safe}"` : safe}`;
}

/** @param {...(string | null | undefined | false)} words */
export const all = (...words) => words.filter(Boolean).join(" ");
