/**
 * Live news (server-sent events): one stream for the whole page.
 *
 *   const stop = live.on("recorded", (data) => …)   hello, open, progress, text, end, recorded,
 *                                                   conversation, dropped, websockets, lost
 *   live.want({ filter: "…" })                      what the current screen listens to
 *   live.want({ text: [ID] })                       whose text, at most eight
 *   live.open                                       cell: Map of span id to open call, kept up to date
 *
 * - A hidden tab has no stream: browsers open six connections to a host. When it is shown again, the page continues
 *   from the newest seq that it saw.
 * - A stream that breaks is opened again, soon at first, later every 15 seconds; the clock shows that the
 *   machine has slept.
 */
import { get, href } from "./api.js";
import { cell, connection } from "./state.js";

/** @typedef {import("./api.js").ApiError} ApiError */
const EVENTS = ["hello", "open", "progress", "text", "end", "recorded", "conversation", "dropped", "websockets", "lost"];
const HIDE_MS = 5_000; // to look at another tab for a moment costs no new stream
const MAX_WAIT_MS = 15_000;
const BEAT_MS = 10_000;
const STILL_MS = 1_000;

/** @typedef {(data: any) => void} Listener */
/** @type {Map<string, Set<Listener>>} */
const listeners = new Map(EVENTS.map((name) => [name, new Set()]));
/** @type {{ filter: string, text: string[] }} */
let wanted = { filter: "", text: [] };
/** @type {EventSource | null} */
let source = null;
let seq = /** @type {number | null} */ (null);
let started = false;
let tries = 0;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let hiding;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let proxyless;

export const live = {
  /** Whether texts come where somebody asks for them. */
  hasText: true,

  /** @type {ReturnType<typeof cell<Map<string, Open>>>} */
  open: cell(new Map()),

  /** @param {string} name @param {Listener} listener @returns {() => void} */
  on(name, listener) {
    listeners.get(name)?.add(listener);
    return () => listeners.get(name)?.delete(listener);
  },

  /** @param {{ filter?: string, text?: string[] }} changes */
  want(changes) {
    const next = { ...wanted, ...changes };
    next.text = next.text.slice(0, 8);
    if (JSON.stringify(next) === JSON.stringify(wanted)) return;
    wanted = next;
    if (started && !document.hidden) later(30);
  },

  start() {
    started = true;
    connect();
  },
};

/** @param {number} wait */
function later(wait) {
  clearTimeout(timer);
  timer = setTimeout(connect, wait);
}

function close() {
  clearTimeout(timer);
  clearTimeout(proxyless);
  source?.close();
  source = null;
}

function connect() {
  close();
  if (document.hidden) return connection.set("quiet");
  const mine = new EventSource(href("live", { filter: wanted.filter, text: wanted.text.join(","), after: seq }));
  source = mine;
  for (const name of EVENTS) {
    mine.addEventListener(name, (event) => {
      if (typeof event.data !== "string") return; // `open` is also what an EventSource says of itself
      if (event.lastEventId) seq = Math.max(seq ?? 0, Number(event.lastEventId));
      tell(name, JSON.parse(event.data));
    });
  }
  mine.onerror = () => {
    if (source === mine) void again();
  };
}

async function again() {
  close();
  try {
    await get("status"); // EventSource does not say why: a wrong token, a filter, or nobody there
    if (connection.value === "live") connection.set("start");
  } catch (error) {
    if (/** @type {ApiError} */ (error).code === "token") return;
    connection.set("gone");
    live.open.set(new Map());
  }
  tries += 1;
  later(Math.min(MAX_WAIT_MS, 500 * 2 ** tries));
}

/** @param {string} name @param {any} data */
function tell(name, data) {
  if (["hello", "open", "progress", "end"].includes(name)) live.open.set(follow(name, data));
  for (const listener of [...(listeners.get(name) ?? [])]) listener(data);
}

/** The open calls after a piece of news. @param {string} name @param {any} data */
function follow(name, data) {
  const open = new Map(live.open.value);
  if (name === "hello") {
    tries = 0;
    live.hasText = data.live_text ?? true;
    clearTimeout(proxyless);
    if (data.live ?? true) connection.set("live");
    else proxyless = setTimeout(() => connection.set("still"), STILL_MS); // the proxy is asked first
    open.clear();
    for (const call of data.open) open.set(call.span_id, { ...call, received: performance.now() });
    if (seq === null) seq = data.seq;
  } else if (name === "open") open.set(data.span_id, { ...data, received: performance.now() });
  else if (name === "progress") {
    const call = open.get(data.span_id);
    if (call) open.set(data.span_id, { ...call, ...data });
  } else if (name === "end") open.delete(data.span_id);
  return open;
}

document.addEventListener("visibilitychange", () => {
  clearTimeout(hiding);
  if (!started) return;
  if (!document.hidden) {
    if (!source) connect();
  } else {
    hiding = setTimeout(() => {
      close();
      connection.set("quiet");
    }, HIDE_MS);
  }
});
// A page that the browser keeps for "back" would keep one of its six connections, too.
addEventListener("pagehide", close);
addEventListener("pageshow", (event) => event.persisted && started && connect());
addEventListener("online", () => started && connect());

let beat = Date.now();
setInterval(() => {
  const slept = Date.now() - beat > 3 * BEAT_MS;
  beat = Date.now();
  if (slept && started && !document.hidden) connect(); // the machine has slept
}, BEAT_MS);
