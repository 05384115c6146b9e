/**
 * The page: token, rail, footer, and which screen is shown.
 *
 * A screen is a module that registers a custom element:
 *   class Calls extends Screen { show(address) {…}  connectedCallback() {…} }
 *   customElements.define("spantap-calls", Calls)
 * `show` is called once it stands in the page, and again on each change of its address (see state.js).
 * What it subscribed to it must let go of when it goes: by its `stops` (dom.js).
 */
import { get, sendToken } from "./api.js";
import "./call.js";
import "./calls.js";
import "./compare.js";
import "./conversation.js";
import "./conversations.js";
import { announce, el, fill } from "./dom.js";
import "./failures.js";
import "./groups.js";
import { icon } from "./icons.js";
import { keys, showKeys } from "./keys.js";
import { live } from "./live.js";
import "./overview.js";
import "./run.js";
import "./settings.js";
import { address, connection, go, link, setTitle, status } from "./state.js";
import { exact, plural } from "./words.js";

/**
 * By the first word of an address: what it is called, the screen of its list, and that of one thing of it.
 * One without a list, or a second one of a list, stands in the rail as another word: `under`.
 * @type {Map<string, { words: string, list?: string, one: string, under?: string }>}
 */
const SCREENS = new Map([
  ["calls", { words: "Calls", list: "calls", one: "call" }],
  ["conversations", { words: "Conversations", list: "conversations", one: "conversation" }],
  ["sessions", { words: "Sessions", list: "groups", one: "groups" }],
  ["users", { words: "Users", list: "groups", one: "groups", under: "sessions" }],
  ["overview", { words: "Overview", list: "overview", one: "overview" }],
  ["settings", { words: "Settings", list: "settings", one: "settings" }],
  ["failures", { words: "What failed", list: "failures", one: "failures", under: "calls" }],
  ["compare", { words: "Two calls", one: "compare", under: "calls" }],
  ["runs", { words: "Run", one: "run", under: "conversations" }],
]);
const STATUS_MS = 5_000;
const FIRST_STATUS_MS = 300; // the rows come first
const PREFIX_MS = 1_500; // within which a key counts as one behind `g`

const main = /** @type {HTMLElement} */ (document.getElementById("main"));
const rail = /** @type {HTMLElement} */ (document.getElementById("rail"));
const foot = /** @type {HTMLElement} */ (document.getElementById("foot"));
/** @type {(HTMLElement & { show?: (address: Address) => void }) | null} */
let screen = null;

/** @param {Address} where */
function route(where) {
  const [first, second] = where.path;
  if (first.startsWith("token=")) return void begin(); // pasted into a tab that is open already
  const found = SCREENS.get(first);
  if (!found || !(found.list || second)) return go([found?.under ?? "calls"], {}, true);
  drawRail(found.under ?? first);
  const name = `spantap-${second ? found.one : found.list}`;
  if (screen?.localName !== name) {
    setTitle(found.words);
    screen = document.createElement(name);
    fill(main, screen);
    main.scrollTop = 0;
    announce(found.words);
  }
  screen?.show?.(where);
}

/** @param {string} shown the first word of the address */
function drawRail(shown) {
  const links = [...SCREENS].filter(([, { under }]) => !under).map(([name, { words }]) =>
    el("li", null, el("a", { href: link([name]), "aria-current": name === shown ? "page" : null }, icon(name), el("span", null, words))));
  fill(
    rail, el("a", { class: "brand", href: link(["calls"]) }, "spantap"), el("ul", null, links),
    el("button", { class: "plain keys-button", onclick: showKeys }, el("kbd", null, "?"), el("span", null, "Keys")),
  );
}

function drawFoot() {
  const now = status.value;
  if (!now) return;
  fill(
    foot,
    el("span", null, plural(now.calls, "call"), " in the store"),
    now.pending > 0 && el("span", { title: "Spans that the tracing backend has not taken yet" }, `${exact(now.pending)} waiting for the backend`),
    now.rejected > 0 && el("span", { class: "bad" }, `${exact(now.rejected)} rejected by the backend`),
    (now.lost ?? 0) > 0 && el("span", { class: "bad", title: "Spans that were given up or lost since the proxy began" }, `${exact(now.lost)} lost`),
    now.websockets != null && now.websockets > 0 && el("span", { title: "WebSockets that are open, whether anything passes on them or not" }, plural(now.websockets, "WebSocket"), " open"),
    el("span", { class: "store", title: now.store }, now.store),
    el("span", null, `spantap ${now.version}`),
  );
}

/** @param {string} title @param {string} words @param {...any} more */
function notice(title, words, ...more) {
  return el("section", { class: "notice" }, el("h1", null, title), el("p", null, words), more);
}

/** @param {boolean} [isWrong] whether one was shown already */
function askToken(isWrong = false) {
  const field = el("input", { type: "password", id: "token", autocomplete: "off", required: true, "aria-describedby": "token-help" });
  const no = "That is not the token of this page.";
  const wrong = el("p", { class: "wrong", role: "alert" }, isWrong && no);
  const form = el(
    "form", { class: "notice", onsubmit: (/** @type {Event} */ event) => {
      event.preventDefault();
      void sendToken(field.value.trim()).then(
        (right) => (right ? begin() : fill(wrong, no)),
        (error) => fill(wrong, error.message),
      );
    } },
    el("h1", null, "This page needs its token"),
    el("p", { id: "token-help" }, el("code", null, "spantap page"), " prints the link, on the machine and with the ", el("code", null, "--store"),
      " of this proxy. Or paste the token here."),
    el("label", { for: "token" }, "Token"), el("div", { class: "line" }, field, el("button", { class: "primary" }, "Open")), wrong,
  );
  screen = null;
  setTitle("Token");
  fill(main, form);
  fill(foot);
  field.focus();
}

let routed = () => {};
async function begin() {
  const token = /^#token=(.*)$/.exec(location.hash)?.[1];
  if (token !== undefined) {
    history.replaceState(null, "", "#/calls"); // it stays in no bookmark and no history
    address.set({ path: ["calls"], query: {} });
    try {
      if (!(await sendToken(decodeURIComponent(token)))) {
        connection.set("token");
        return askToken(true);
      }
    } catch (error) {
      return fill(main, notice("Nobody answers", /** @type {Error} */ (error).message, el("button", { onclick: () => location.reload() }, "Try again")));
    }
  }
  routed();
  routed = address.on(route);
  live.start();
  asked = Date.now(); // no news shall ask before
  setTimeout(refresh, FIRST_STATUS_MS);
}

connection.on((now) => now === "token" && askToken());
status.on(drawFoot);
connection.on(drawFoot);
for (const name of ["recorded", "dropped", "websockets", "lost"]) live.on(name, () => Date.now() - asked > 1000 && refresh());
live.on("hello", (data) => data.live && status.value?.live === false && refresh()); // where the proxy is
let asked = 0;
async function refresh() {
  asked = Date.now();
  try {
    status.set(await get("status"));
  } catch {
    // live.js says who does not answer
  }
}
setInterval(() => !document.hidden && connection.value !== "token" && refresh(), STATUS_MS);

let stopLeading = () => {};
/** @param {string} name @returns {import("./keys.js").Binding} */
const leadingTo = (name) => [null, () => {
  stopLeading();
  go([name]);
}];
/** Keys behind `g`, before those of the screen. */
function lead() {
  stopLeading();
  const stop = keys("Everywhere", {
    c: leadingTo("calls"), n: leadingTo("conversations"), u: leadingTo("sessions"), o: leadingTo("overview"), s: leadingTo("settings"),
  });
  const timer = setTimeout(() => stopLeading(), PREFIX_MS);
  stopLeading = () => {
    clearTimeout(timer);
    stop();
  };
}
keys("Everywhere", { g: ["then c, n, u, o or s: Calls, Conversations, Sessions, Overview, Settings", lead] });
addEventListener("unhandledrejection", (event) => {
  if (event.reason?.code) event.preventDefault(); // an ApiError is shown where it happened
});
void begin();
