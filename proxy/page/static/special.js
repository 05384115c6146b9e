/**
 * What calls have that are no chats: texts, lists of documents, bodies.
 *
 *   asked(detail) -> children      query and documents, else the request's body; none of a chat
 *   answered(detail) -> children   ranking, verdict, sound, else the answer's body; none of a chat
 */
import { el } from "./dom.js";
import { rawText } from "./raw.js";
import { cut, exact, NONE } from "./words.js";

const MOST_OF_DOCUMENT = 400;

/** @param {CallDetail} detail */
export function asked(detail) {
  const shown = parts(detail, ["query", "documents"]);
  return shown.length || detail.messages.length ? shown : body(detail, "request");
}

/** @param {CallDetail} detail */
export function answered(detail) {
  const shown = parts(detail, ["verdict", "sound", "ranking"]);
  return shown.length || detail.answer.length || (detail.error && detail.call.kind !== "TOOL") ? shown : body(detail, "response");
}

/** @param {CallDetail} detail @param {"request" | "response"} part */
function body({ call, raw }, part) {
  return call.kind !== "LLM" && raw[part] != null ? [el("div", { class: "special pad" }, rawText(call.span_id, part))] : [];
}

/** @param {any} detail @param {string[]} names */
function parts(detail, names) {
  return names.filter((name) => detail[name]?.length).map((name) => el("section", { class: "special" }, el("h2", null, name),
    typeof detail[name] === "string" ? el("p", { class: "text pad" }, detail[name]) : documents(name, detail[name])));
}

/** @param {string} name @param {any[]} listed */
function documents(name, listed) {
  return el("table", { class: "pairs" }, el("caption", { class: "hidden" }, name),
    el("tbody", null, listed.map((one) => el("tr", null, el("th", { scope: "row" }, one.index == null ? NONE : exact(one.index)),
      el("td", { class: "number" }, one.score == null ? "" : Number(one.score).toPrecision(4)), el("td", null, el("div", { class: "text" }, cut(one.preview, MOST_OF_DOCUMENT)))))));
}
