// @ts-check
/** The conversations of this page, the newest first, each kept as it changes. */

import { MAX_CONVERSATIONS } from "./library.js";
import { showNotice } from "./notices.js";

/** @typedef {import("./conversation.js").Conversation} Conversation */

export class Shelf {
  /** @param {import("./library.js").Library} library */
  constructor(library) {
    this._library = library;
    /** @type {Conversation[]} */
    this.conversations = [];
  }

  /** Reads what was kept. */
  async load() {
    if (!(await this._library.open())) warn("This browser keeps nothing for this page.");
    this.conversations = await this._library.readAll();
  }

  /** @param {Conversation} conversation */
  has(conversation) {
    return this.conversations.includes(conversation);
  }

  /** @param {string} id */
  find(id) {
    return this.conversations.find((conversation) => conversation.id === id);
  }

  /**
   * Keeps a conversation as it is now; the one that was not used for longest may give way.
   *
   * @param {Conversation} conversation
   */
  async put(conversation) {
    const others = this.conversations.filter((other) => other !== conversation);
    this.conversations = [conversation, ...others].sort((a, b) => b.updated - a.updated);
    for (const old of this.conversations.splice(MAX_CONVERSATIONS)) this._library.remove(old.id);
    if (!(await this._library.write(conversation))) warn("This browser has no room for more.");
  }

  /** @param {Conversation} conversation */
  async remove(conversation) {
    this.conversations = this.conversations.filter((other) => other !== conversation);
    await this._library.remove(conversation.id);
  }
}

/** @param {string} reason */
function warn(reason) {
  const advice = "Conversations last until the page is closed; export what you need.";
  showNotice("storage", `${reason} ${advice}`, true);
}
