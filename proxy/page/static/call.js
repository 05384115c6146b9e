/**
 * The screen of one call: what is new since the call before it comes first.
 *
 * Address: #/calls/ID/TAB, TAB one of those below, `new` by default; diff?with=ID.
 *
 * - A part that does not change while a reader looks is drawn once; a tab is drawn when it is opened.
 * - An open call shows its text as it comes, and becomes the recorded call when it is in the store.
 */
import { latest } from "./api.js";
import { callHead, liveHead } from "./call_head.js";
import { previous, TABS } from "./call_tabs.js";
import { copyCall } from "./copy.js";
import { announce, el, fill, Screen } from "./dom.js";
import { outcome } from "./icons.js";
import { keys } from "./keys.js";
import { live } from "./live.js";
import { liveText } from "./live_text.js";
import { release, unfold } from "./messages.js";
import { address, back, connection, go, link, setTitle } from "./state.js";
import { tabBar } from "./tabs.js";
import { line } from "./words.js";

const WAIT_FOR_LIVE_MS = 300; // whether a call is open is known once live news have said hello

/** @typedef {import("./api.js").ApiError} ApiError */

class Call extends Screen {
  constructor() {
    super();
    this.callId = "";
    this.tab = "";
    /** @type {CallDetail | null} */
    this.detail = null;
    this.ask = latest();
    this.head = el("div", { class: "call-head" });
    this.panel = el("div", { class: "panel", role: "tabpanel", tabindex: 0, id: "panel" });
    this.tabs = tabBar("Parts of the call", this.panel, (name) => this.open(name));
    this.bar = this.tabs.element;
    this.bar.hidden = true;
    this.leaveLive = () => {};
  }

  connectedCallback() {
    fill(this, el("div", { class: "scrolls" }, this.head, this.bar, this.panel));
    this.stops = [
      this.bindKeys(),
      live.on("end", (news) => news.span_id === this.callId && this.head.classList.add("ending")),
      live.on("recorded", () => this.watched && !live.open.value.has(this.callId) && void this.load()),
      live.open.on((open) => open.has(this.callId) && !this.detail && !this.watched && this.watch()),
      () => this.leave(),
    ];
  }

  get watched() {
    return this.querySelector(".live-text") !== null;
  }

  leave() {
    this.leaveLive();
    this.leaveLive = () => {};
    this.ask.stop();
    release(this.panel);
  }

  /** @param {Address} where */
  show({ path }) {
    const [, id, tab = "new"] = path;
    if (id !== this.callId) {
      this.leave();
      this.callId = id;
      this.detail = null;
      this.tab = "";
      back.chosen = id;
      setTitle(`Call ${id.slice(0, 8)}`);
      fill(this.panel);
      void this.begin();
    } else if (this.detail) this.drawTab(tab);
  }

  async begin() {
    const id = this.callId;
    if (connection.value === "start") {
      await new Promise((done) => {
        const stop = live.on("hello", done);
        setTimeout(() => done(stop()), WAIT_FOR_LIVE_MS);
      });
    }
    if (this.callId !== id || this.watched) return;
    if (live.open.value.has(id)) this.watch();
    else await this.load();
  }

  async load() {
    try {
      const detail = /** @type {CallDetail} */ (await this.ask(`calls/${this.callId}`));
      this.leave();
      this.detail = detail;
      this.draw();
    } catch (error) {
      if (this.watched) return;
      this.bar.hidden = true;
      const fault = /** @type {ApiError} */ (error);
      fill(this.head);
      fill(this.panel, el("section", { class: "notice" },
        el("h1", null, fault.code === "not_found" ? "There is no such call" : "The call cannot be shown"), el("p", null, fault.message),
        fault.code === "not_found" && el("p", { class: "dim" }, "It may have been deleted with the oldest, or not be recorded yet."),
        el("button", { onclick: () => void this.load() }, "Try again")));
    }
  }

  draw() {
    const detail = /** @type {CallDetail} */ (this.detail);
    setTitle(`${line(detail.call.model)} ${this.callId.slice(0, 8)}`);
    fill(this.head, callHead(detail));
    this.head.classList.remove("ending");
    this.bar.hidden = false;
    const shown = TABS.filter((tab) => tab.holds(detail));
    this.tabs.list(shown.map(({ name, words }) => (
      { name, words: words(detail), href: link(["calls", this.callId, name]) })));
    this.tab = "";
    this.drawTab(address.value.path[2] ?? "new");
    announce(`${outcome(detail.call).words}. ${line(detail.call.what)}`);
  }

  /** @param {string} name */
  drawTab(name) {
    const detail = /** @type {CallDetail} */ (this.detail);
    const other = address.value.query.with ?? "";
    const tab = TABS.find((one) => one.name === name && one.holds(detail)) ?? TABS[0];
    if (this.tab === `${tab.name} ${other}`) return;
    this.tab = `${tab.name} ${other}`;
    this.tabs.choose(tab.name).scrollIntoView({ block: "nearest", inline: "nearest" });
    release(this.panel);
    fill(this.panel, tab.draw(detail, other || previous(detail) || ""));
    const box = /** @type {Element} */ (this.firstElementChild);
    unfold(box);
    box.scrollTop = Math.min(box.scrollTop, this.bar.offsetTop);
  }

  /** @param {string} name */
  open(name) {
    go(["calls", this.callId, name], {}, true);
  }

  watch() {
    const shown = liveText(this.callId, (call) => fill(this.head, liveHead(call)));
    this.bar.hidden = true;
    fill(this.panel, shown.element);
    this.leaveLive = () => {
      shown.stop();
      shown.element.remove();
    };
  }

  /** To the next or the previous message. @param {number} step */
  move(step) {
    const all = /** @type {HTMLElement[]} */ ([...this.panel.querySelectorAll(".message")]);
    if (!all.length) return;
    const at = all.findIndex((one) => one.contains(document.activeElement));
    const to = all[at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.max(0, Math.min(all.length - 1, at + step))];
    to.tabIndex = -1;
    to.focus({ preventScroll: true });
    to.scrollIntoView({ block: "nearest" });
  }

  /** @param {"previous" | "next"} way */
  along(way) {
    const id = this.detail?.conversation?.[way];
    if (id) go(["calls", id, ...address.value.path.slice(2, 3)]);
    else announce(`no ${way} call in this conversation`);
  }

  bindKeys() {
    const tabs = Object.fromEntries(TABS.map(({ name, words }, at) => [String(at + 1), /** @type {[string | null, () => any, string]} */ ([
      at === 0 ? "the tabs" : null,
      () => {
        if (!this.detail || !TABS[at].holds(this.detail)) return false;
        this.open(name);
        announce(words(this.detail));
        return true;
      },
      `1 – ${TABS.length}`,
    ])]));
    return keys("Call", {
      j: ["next, previous message", () => this.move(1), "j k"], k: [null, () => this.move(-1)],
      o: ["all of the message", () => {
        const button = /** @type {HTMLElement | null | undefined} */ (document.activeElement?.closest(".message")?.querySelector(".more:not(:disabled, [hidden]), summary"));
        button?.click();
      }],
      ...tabs,
      d: ["difference to the previous call", () => this.detail && previous(this.detail) ? this.open("diff") : announce("no call before it")],
      "[": ["previous, next in its conversation", () => this.along("previous"), "[ ]"], "]": [null, () => this.along("next")],
      y: ["copy as curl", () => void copyCall(this.callId, "curl")],
      Escape: ["back to the list", () => void (location.hash = back.calls)],
    });
  }
}

customElements.define("spantap-call", Call);
