/**
 * The head of a call: which it is, how it went, what it cost, why it took so long, what came before.
 */
import { copyCall } from "./copy.js";
import { el } from "./dom.js";
import { icon, mark, outcome } from "./icons.js";
import { back, link } from "./state.js";
import { elapsed } from "./table.js";
import { errorBox, facts, notes, timing } from "./timing.js";
import { exact, line, moment, plural, seconds } from "./words.js";

const COPIES = [["curl", "curl"], ["python", "Python"], ["json", "JSON"]];

/** @param {Row | Open} call @param {...any} more */
function titleLine(call, ...more) {
  const { kind, words } = outcome(call);
  return el(
    "header", null,
    el("a", { class: "button back", href: back.calls, "aria-label": "Back to the calls" }, icon("left"), "Calls"),
    el("h1", null, mark(call), " ", line(call.model) || ("kind" in call && call.kind === "TOOL" && line(call.what)) || line("name" in call ? call.name : "") || "call"),
    kind !== "ok" && el("span", { class: `tag ${kind}` }, words),
    el("span", { class: "dim", title: "API, upstream, client, time" }, [line(call.api), line(call.upstream), line(call.client), moment(call.start_time)].filter(Boolean).join(" · ")),
    el("code", { class: "dim id", title: "span id" }, call.span_id), more,
  );
}

/** @param {CallDetail} detail */
export function callHead(detail) {
  const { call } = detail;
  const copies = el("div", { class: "group", role: "group", "aria-label": "Copy as" }, el("span", { class: "dim" }, icon("copy"), "copy as"),
    COPIES.map(([as, words]) => el("button", { onclick: () => void copyCall(call.span_id, as) }, words)));
  return [titleLine(call, copies), place(detail), errorBox(detail), el("div", { class: "figures" }, facts(detail), timing(detail)), notes(detail)];
}

/** Where the call stands in its conversation. @param {CallDetail} detail */
function place({ conversation, call }) {
  if (!conversation) return null;
  const step = (/** @type {"previous" | "next"} */ way, /** @type {string} */ name, /** @type {string} */ key) => {
    const id = conversation[way];
    const words = `${way} call`;
    return id
      ? el("a", { class: "button", href: link(["calls", id]), "aria-label": words, title: `${words} (${key})` }, icon(name))
      : conversation.calls > 1 && el("button", { disabled: true, "aria-label": `no ${words}` }, icon(name));
  };
  return el(
    "p", { class: "place" }, step("previous", "left", "["), step("next", "right", "]"),
    el("span", null, `call ${exact(conversation.position)} of ${exact(conversation.calls)} in `,
      el("a", { href: link(["conversations", conversation.number]) }, `conversation #${conversation.number}`),
      conversation.turn != null && ` · turn ${conversation.turn}`,
      conversation.run != null && [" · ", el("a", { href: link(["runs", conversation.run], { call: call.span_id }), title: `run ${conversation.run}` }, conversation.run_place == null ? `run ${conversation.run}` : `run ${conversation.run_place} of ${conversation.runs}`)], conversation.link && el("span", { class: "dim" }, ` · ${conversation.link}`)),
    call.retry != null && el("span", { class: "tag" }, `retry ${call.retry}`),
  );
}

/** @param {Open} call */
export function liveHead(call) {
  const said = [seconds(elapsed(call)), call.chars != null && plural(call.chars, "character"), call.chunks != null && plural(call.chunks, "chunk"),
    call.ttft_ms != null && `first token after ${seconds(call.ttft_ms)}`].filter(Boolean);
  return [titleLine(call), el("p", { class: "live-line" }, said.join(" · "))];
}
