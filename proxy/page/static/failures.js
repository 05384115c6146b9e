/**
 * The steps that failed: the tool, the call that called it, the error, and whether a later step corrected it.
 *
 * Address: #/failures?conversation=N | run=N | filter=…&range=…
 */
import { latest } from "./api.js";
import { el, fill, Screen } from "./dom.js";
import { all } from "./filters.js";
import { mark } from "./icons.js";
import { live } from "./live.js";
import { address, link, setTitle, times } from "./state.js";
import { topBar } from "./top.js";
import { exact, line, moment, plural } from "./words.js";

class Failures extends Screen {
  asked = "";
  ask = latest();
  body = el("ol");
  end = el("p", { class: "tail-end" });

  connectedCallback() {
    this.stops = [() => this.ask.stop()];
  }

  /** @param {Address} where */
  show({ query }) {
    const asked = JSON.stringify(query);
    if (asked === this.asked) return;
    this.asked = asked;
    const { run, conversation } = query;
    const of = run ? ["runs", run] : conversation ? ["conversations", conversation] : null;
    const top = topBar({ title: "What failed", filter: !of,
      extra: of && el("span", { class: "extra" }, el("a", { class: "button", href: link(of) }, run ? `Run ${run}` : `Conversation ${conversation}`)) });
    setTitle("What failed");
    live.want({ filter: "", text: [] });
    fill(this, top.element, el("div", { class: "scroller survey failures" }, this.body, this.end));
    top.show(address.value);
    fill(this.body);
    void this.load();
  }

  /** @param {number} [before] */
  async load(before) {
    fill(this.end, "…");
    const { query } = address.value;
    const { run, conversation, filter } = query;
    try {
      const answer = await this.ask("failures", run ? { run, before } : { filter: all(filter, conversation && `conversation:${conversation}`), ...times(query), before });
      this.body.append(...answer.failures.map(step));
      const { length } = this.body.children;
      fill(this.end, answer.next ? el("button", { onclick: () => void this.load(answer.next) }, "More") : length ? `${plural(length, "step")} failed.` : "Nothing failed.");
    } catch (error) {
      fill(this.end, /** @type {Error} */ (error).message, " ", el("button", { onclick: () => void this.load(before) }, "Try again"));
    }
  }
}

/** How many failed, as a link to what did. @param {number} number @param {Record<string, any>} query of the address */
export function failedLink(number, query) {
  return number > 0 && el("a", { class: "bad", href: link(["failures"], query) }, `${exact(number)} failed`);
}

/** @param {any} one */
function step(one) {
  const { corrected_by: later, kind } = one;
  const to = (/** @type {string} */ id, /** @type {any} */ ...words) => el("a", { href: link(["calls", id]) }, words);
  return el(
    "li", null, mark({ ...one, status: "ERROR", outcome: "", error_type: null }),
    el("div", null,
      el("p", null, to(one.span_id, el("b", null, line(one.what) || line(one.model) || "step")),
        el("span", { class: "dim" }, moment(one.start_time), kind === "TOOL" && one.call && [" · called by ", to(one.call, el("code", null, one.call.slice(0, 8)))],
          kind !== "TOOL" && one.model && ` · ${line(one.model)}`)),
      el("p", { class: "text" }, line(one.error) || "no error is recorded"),
      el("p", { class: "dim" }, !later ? "No later step corrected it."
        : later.is_same ? ["✓ corrected: the same ", to(later.span_id, "succeeded later")]
          : ["Nobody knows whether it was corrected: later ", to(later.span_id, line(later.what)), " succeeded"])),
  );
}

customElements.define("spantap-failures", Failures);
