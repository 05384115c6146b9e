/**
 * Small pictures, drawn here, in the colour of the text; and the mark of how a call went.
 *
 *   icon("search")                   one of the names below, hidden from screen readers
 *   mark(row)                        ◌ open, ✓ well, ✗ error, ◐ cut short: shape, colour and hidden words
 *   outcome(row)                     { kind: "open" | "ok" | "error" | "cut", words }
 */
import { el, svg } from "./dom.js";
import { line } from "./words.js";

const PATHS = /** @type {Record<string, string>} */ ({
  calls: "M2.5 4h11M2.5 8h11M2.5 12h7",
  conversations: "M2.5 3.5h8v5h-5l-3 2.5zM12.5 6v4.5h1v3l-2.8-2.5H7.5",
  sessions: "M2.5 5.5h11v8h-11zM4 3h8M8 8.5v2M6 9.5h4",
  overview: "M3 13V8.5M6.5 13V5M10 13V9.5M13.5 13V3",
  settings: "M2.5 4.5h6M12 4.5h1.5M8.5 4.5a1.75 1.75 0 1 0 3.5 0 1.75 1.75 0 0 0-3.5 0M2.5 11.5H4M7.5 11.5h6M4 11.5a1.75 1.75 0 1 0 3.5 0 1.75 1.75 0 0 0-3.5 0",
  ok: "M3.5 8.5l3 3 6-7",
  error: "M4 4l8 8M12 4l-8 8",
  open: "M8 2.5a5.5 5.5 0 1 1-5.5 5.5",
  cut: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM8 2.5v11",
  search: "M7 2.8a4.2 4.2 0 1 0 0 8.4 4.2 4.2 0 0 0 0-8.4zM10.2 10.2l3.3 3.3",
  copy: "M5.5 5.5h7.5v7.5H5.5zM3 10.5V3h7.5",
  down: "M8 3v8M4.5 8L8 11.5 11.5 8M3 13.5h10",
  close: "M4.5 4.5l7 7M11.5 4.5l-7 7",
  left: "M9.5 3.5L5 8l4.5 4.5",
  right: "M6.5 3.5L11 8l-4.5 4.5",
  info: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM8 7v4M8 5v.5",
  note: "M8 2.5l6 10.5H2zM8 6.5v3M8 11v.5",
});

/** @param {string} name */
export function icon(name) {
  return svg(
    "svg", { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true" },
    svg("path", { d: PATHS[name] ?? "" }),
  );
}

/** @param {Row | Open} row @returns {{ kind: string, words: string }} */
export function outcome(row) {
  if ("open" in row) {
    if ((row.http_status ?? 0) >= 400) return { kind: "error", words: `open, HTTP ${row.http_status}` };
    return { kind: "open", words: row.http_status == null ? "waiting" : "streaming" };
  }
  const said = line(row.outcome ?? "").replaceAll("_", " ");
  if (row.status === "ERROR") {
    const status = row.http_status && row.http_status >= 400 ? String(row.http_status) : "";
    const type = line(row.error_type ?? "");
    if (status && (!type || type === status)) return { kind: "error", words: `HTTP ${status}` };
    return { kind: "error", words: `${status} ${(type !== "error" && type) || (said !== "completed" && said) || "failed"}`.trim() };
  }
  if (said && said !== "completed") return { kind: "cut", words: said };
  if (row.finish_reason === "length") return { kind: "cut", words: "cut at the token limit" };
  return { kind: "ok", words: "completed" };
}

/** @param {Row | Open} row */
export function mark(row) {
  const { kind, words } = outcome(row);
  return el("span", { class: `mark ${kind}`, title: words }, icon(kind), el("span", { class: "hidden" }, words));
}
