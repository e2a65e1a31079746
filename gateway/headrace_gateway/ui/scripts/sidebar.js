// @ts-check
/** The list of conversations; on a narrow screen it slides in. */

import { byId, element, iconButton } from "./element.js";

/** @typedef {import("./conversation.js").Conversation} Conversation */

/**
 * @typedef {object} SidebarActions
 * @property {() => void} create
 * @property {(conversation: Conversation) => void} open
 * @property {(conversation: Conversation) => void} change
 */

const NARROW = "(max-width: 50rem)";

export class Sidebar {
  /** @param {SidebarActions} actions */
  constructor(actions) {
    this._actions = actions;
    this._root = byId("sidebar");
    this._opener = byId("open-sidebar");
    this._narrow = matchMedia(NARROW);
    this._narrow.addEventListener("change", () => this._slide(false));
    this._opener.addEventListener("click", () => this._slide(true));
    byId("close-sidebar").addEventListener("click", () => this.close());
    byId("backdrop").addEventListener("click", () => this.close());
    byId("new-conversation").addEventListener("click", () => {
      this._slide(false);
      actions.create();
    });
    this._slide(false);
  }

  /**
   * @param {Conversation[]} conversations
   * @param {Conversation} current
   * @param {(conversation: Conversation) => boolean} isRunning
   */
  show(conversations, current, isRunning) {
    const rows = conversations.map((each) => this._row(each, each === current, isRunning(each)));
    byId("conversations").replaceChildren(...rows);
  }

  /** @returns {boolean} whether it covered the page */
  close() {
    const wasOpen = this._root.classList.contains("is-open");
    this._slide(false);
    if (wasOpen) this._opener.focus();
    return wasOpen;
  }

  /**
   * @param {Conversation} conversation
   * @param {boolean} isCurrent
   * @param {boolean} isRunning
   */
  _row(conversation, isCurrent, isRunning) {
    const title = element("button", { type: "button", className: "title" }, conversation.title);
    if (isCurrent) title.setAttribute("aria-current", "page");
    if (isRunning) title.append(element("span", { className: "for-readers" }, ", being answered"));
    title.addEventListener("click", () => {
      this._slide(false);
      this._actions.open(conversation);
    });
    const more = iconButton("more", `Change “${conversation.title}”`, () => this._actions.change(conversation));
    const classes = ["row", isCurrent && "is-current", isRunning && "is-running"].filter(Boolean);
    return element("li", { className: classes.join(" ") }, title, more);
  }

  /** @param {boolean} isOpen */
  _slide(isOpen) {
    this._root.classList.toggle("is-open", isOpen);
    this._root.inert = this._narrow.matches && !isOpen;
    byId("page").inert = isOpen;
    byId("backdrop").hidden = !isOpen;
    this._opener.setAttribute("aria-expanded", String(isOpen));
    if (isOpen) byId("new-conversation").focus();
  }
}
