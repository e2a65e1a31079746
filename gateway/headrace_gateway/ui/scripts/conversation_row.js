// @ts-check
/** A conversation in the list. */

import { element, iconButton } from "./element.js";

/** @typedef {import("./conversation.js").Conversation} Conversation */

export class ConversationRow {
  /**
   * @param {Conversation} conversation
   * @param {import("./sidebar.js").SidebarActions} actions
   */
  constructor(conversation, actions) {
    this._conversation = conversation;
    this._title = element("button", { type: "button", className: "title" });
    this._title.addEventListener("click", () => actions.open(conversation));
    this._more = iconButton("more", "", () => actions.change(conversation));
    this.root = element("li", {}, this._title, this._more);
  }

  /**
   * @param {boolean} isCurrent
   * @param {boolean} isRunning
   */
  update(isCurrent, isRunning) {
    const { title } = this._conversation;
    const state = element("span", { className: "for-readers" }, ", being answered");
    this._title.replaceChildren(title, ...(isRunning ? [state] : []));
    this._title.ariaCurrent = isCurrent ? "page" : null;
    this._more.ariaLabel = this._more.title = `Change “${title}”`;
    const classes = ["row", isCurrent && "is-current", isRunning && "is-running"];
    this.root.className = classes.filter(Boolean).join(" ");
  }
}
