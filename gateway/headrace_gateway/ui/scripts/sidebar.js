// @ts-check
/** The list of conversations; on a narrow screen it slides in. */

import { ConversationRow } from "./conversation_row.js";
import { byId } from "./element.js";

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
    this._actions = { ...actions, open: this._closing(actions.open) };
    /** @type {Map<Conversation, ConversationRow>} */
    this._rows = new Map();
    this._root = byId("sidebar");
    this._opener = byId("open-sidebar");
    this._narrow = matchMedia(NARROW);
    this._narrow.addEventListener("change", () => this._slide(false));
    this._opener.addEventListener("click", () => this._slide(true));
    byId("close-sidebar").addEventListener("click", () => this.close());
    byId("backdrop").addEventListener("click", () => this.close());
    byId("new-conversation").addEventListener("click", this._closing(actions.create));
    this._slide(false);
  }

  /**
   * Shows the list; rows that stay are not made anew, since one of them may have the focus.
   *
   * @param {Conversation[]} conversations
   * @param {Conversation} current
   * @param {(conversation: Conversation) => boolean} isRunning
   */
  show(conversations, current, isRunning) {
    const list = byId("conversations");
    for (const [conversation, row] of this._rows) {
      if (conversations.includes(conversation)) continue;
      row.root.remove();
      this._rows.delete(conversation);
    }
    conversations.forEach((each, index) => {
      const row = this._rows.get(each) ?? new ConversationRow(each, this._actions);
      this._rows.set(each, row);
      row.update(each === current, isRunning(each));
      if (list.children[index] !== row.root) list.insertBefore(row.root, list.children[index]);
    });
  }

  /** @returns {boolean} whether it covered the page */
  close() {
    const wasOpen = this._root.classList.contains("is-open");
    this._slide(false);
    if (wasOpen) this._opener.focus();
    return wasOpen;
  }

  /**
   * @template T
   * @param {(argument: T) => void} action that is seen on the page
   * @returns {(argument: T) => void}
   */
  _closing(action) {
    return (argument) => {
      this._slide(false);
      action(argument);
    };
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
