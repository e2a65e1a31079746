// @ts-check
/** The messages of the conversation that is open. */

import { element } from "./element.js";
import { MessageView } from "./message_view.js";

/** @typedef {import("./conversation.js").Conversation} Conversation */

export class ThreadView {
  /**
   * @param {HTMLElement} root
   * @param {import("./message_view.js").MessageActions} actions
   */
  constructor(root, actions) {
    this._root = root;
    this._actions = actions;
    /** @type {MessageView[]} */
    this._views = [];
  }

  /**
   * Shows a conversation; of its messages those that are on the page already stay there.
   *
   * @param {Conversation} conversation
   */
  show({ messages }) {
    const kept = new Map(this._views.map((view) => [view.message, view]));
    this._views = messages.map((message) => kept.get(message) ?? new MessageView(message, this._actions));
    for (const [message, view] of kept) if (!messages.includes(message)) view.root.remove();
    this._root.querySelector(".welcome")?.remove();
    if (messages.length === 0) this._root.replaceChildren(welcome());
    this._views.forEach((view, index) => {
      if (this._root.children[index] !== view.root) this._root.append(view.root);
      const isLast = !messages.slice(index + 1).some(({ role }) => role === view.message.role);
      view.update(isLast);
    });
  }

  /** Shows what has been added to the last message. */
  grow() {
    this._views.at(-1)?.update(true);
  }

  /** @returns {string} the last message as it is read */
  lastWords() {
    return this._root.lastElementChild?.querySelector(".answer-text")?.textContent ?? "";
  }
}

function welcome() {
  return element(
    "div",
    { className: "welcome" },
    element("h2", {}, "What is on your mind?"),
    element("p", {}, "What you write goes to this server alone, and is kept in this browser."),
  );
}
