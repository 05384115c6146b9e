/**
 * The settings of the program that serves the page: the value of each, where it comes from, and how to set it.
 */
import { latest } from "./api.js";
import { el, fill, Screen } from "./dom.js";
import { live } from "./live.js";
import { topBar } from "./top.js";

/** @typedef {{ name: string, value: string | null, source: string, variable: string, flag: string }} Setting */

class Settings extends Screen {
  ask = latest();

  connectedCallback() {
    this.top = topBar({ title: "Settings", filter: false });
    this.body = el("div", { class: "scroller survey settings", tabindex: "0", role: "region", "aria-label": "Settings" });
    fill(this, this.top.element, this.body);
    this.stops = [() => this.ask.stop()];
    void this.load();
  }

  /** @param {Address} where */
  show(where) {
    this.top?.show(where);
    live.want({ filter: "", text: [] });
  }

  async load() {
    const body = /** @type {HTMLElement} */ (this.body);
    try {
      const settings = /** @type {Setting[]} */ ((await this.ask("settings")).settings);
      const isDefault = (/** @type {Setting} */ one) => one.source === "default";
      fill(
        body,
        el("p", { class: "dim" }, "What the program that serves this page was started with. A setting is a variable, ", el("code", null, "name = value"),
          " in the TOML file, and some have a flag; ", el("code", null, "spantap help settings"), " says what each does."),
        table("Set", settings.filter((one) => !isDefault(one)), true), table("Defaults", settings.filter(isDefault), false),
      );
    } catch (error) {
      const { code, message } = /** @type {import("./api.js").ApiError} */ (error);
      if (code !== "token") fill(body, el("p", { class: "tail-end" }, message, " ", el("button", { onclick: () => void this.load() }, "Try again")));
    }
  }
}

/** @param {string} title @param {Setting[]} settings @param {boolean} hasSource */
function table(title, settings, hasSource) {
  const columns = ["Setting", "Value", ...(hasSource ? ["From"] : []), "Set by"];
  return el("section", null, el("h2", null, title), settings.length === 0 ? el("p", { class: "dim" }, "Nothing: every setting has its default.") : el(
    "table", { class: "sheet" },
    el("thead", null, el("tr", null, columns.map((words) => el("th", { scope: "col" }, words)))),
    el("tbody", null, settings.map((one) => el(
      "tr", null, el("th", { scope: "row", class: "mono" }, one.name),
      el("td", { class: one.value === null ? "dim" : "mono" }, one.value ?? "not set"), hasSource && el("td", null, one.source),
      el("td", { class: "dim mono" }, one.variable, one.flag && ` or ${one.flag}`),
    ))),
  ));
}

customElements.define("spantap-settings", Settings);
