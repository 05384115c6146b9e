/**
 * What a newcomer sees before the first call: how to send one through the proxy.
 */
import { el } from "./dom.js";

/** @param {boolean} isStill whether no proxy runs with this store @param {Status | null} status */
export function emptyStore(isStill, status) {
  const option = status?.store_option ? ` ${status.store_option}` : "";
  if (isStill) {
    return el("section", { class: "notice" }, el("h2", null, "No calls in this store"),
      el("p", null, "No proxy is running with it. Start one, and its calls appear here:"), el("pre", null, `spantap serve${option}`));
  }
  return el(
    "section", { class: "notice" }, el("h2", null, "Waiting for the first call"),
    el("p", null, "Every call that goes through spantap appears here while it happens. Two ways to send one:"),
    el("ol", null,
      el("li", null, "Start your program through it; nothing in the program changes:", el("pre", null, `spantap run${option} -- python script.py`)),
      status?.proxy_url && el("li", null, "Or point a client at the running proxy:", el("pre", null, `export OPENAI_BASE_URL=${status.proxy_url}/v1`),
        status.asks_for_key && ["It wants one of its inbound keys too, for example in the field ", el("code", null, "x-spantap-key"), "."])),
    el("p", { class: "dim" }, "No key at hand? ", el("code", null, "spantap upstream"), " is a model to try with, and costs nothing. ", el("kbd", null, "?"), " shows all keys."),
  );
}
