/**
 * Tabs above a panel, each an address, and the switch "formatted" beside them.
 *
 *   const tabs = tabBar("Parts of the call", panel, (name) => go(…))     what is done to open a tab
 *   tabs.element                          put it before the panel, which has an id
 *   tabs.list([{ name, words, href }])    which there are
 *   tabs.choose(name, hasTexts)           which of them is open; gives its link
 */
import { el, fill } from "./dom.js";
import { formattedToggle } from "./messages.js";

/** @param {string} label @param {HTMLElement} panel @param {(name: string) => void} open */
export function tabBar(label, panel, open) {
  /** @type {string[]} */
  let names = [];
  let at = 0;

  /** @param {KeyboardEvent} event */
  const turn = (event) => {
    const last = names.length - 1;
    const to = { ArrowRight: at < last ? at + 1 : 0, ArrowLeft: at > 0 ? at - 1 : last, Home: 0, End: last }[event.key];
    if (to === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    open(names[to]);
    /** @type {HTMLElement} */ (tabs.children[to]).focus();
  };
  const tabs = el("div", { class: "tabs", role: "tablist", "aria-label": label, onkeydown: turn });

  const formattable = formattedToggle();

  return {
    element: el("div", { class: "tab-bar" }, tabs, formattable),

    /** @param {{ name: string, words: string, href: string }[]} shown */
    list(shown) {
      names = shown.map(({ name }) => name);
      fill(tabs, shown.map(({ name, words, href }) => el("a", {
        role: "tab", id: `tab-${name}`, href, "aria-controls": panel.id,
        onclick: (/** @type {MouseEvent} */ event) => {
          if (event.ctrlKey || event.metaKey || event.shiftKey) return;
          event.preventDefault();
          open(name);
        },
      }, words)));
    },

    /** @param {string} name @param {boolean} [hasTexts] which may be shown formatted */
    choose(name, hasTexts = true) {
      at = names.indexOf(name);
      formattable.hidden = !hasTexts;
      [...tabs.children].forEach((tab, place) => {
        tab.setAttribute("aria-selected", String(place === at));
        tab.setAttribute("tabindex", place === at ? "0" : "-1");
      });
      panel.setAttribute("aria-labelledby", `tab-${name}`);
      return tabs.children[at];
    },
  };
}
