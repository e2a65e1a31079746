// @ts-check
/** One message on the page. */

import { copyButton } from "./copy_button.js";
import { element, icon, iconButton } from "./element.js";
import { messageBody } from "./message_body.js";
import { paceInWords } from "./stopwatch.js";

/**
 * @typedef {import("./conversation.js").Message} Message
 *
 * @typedef {object} MessageActions
 * @property {() => void} edit the last question
 * @property {() => void} answerAgain the last question
 */

/** @type {Record<string, string>} */
const ENDINGS = { cut: "Reached the maximum of tokens", stopped: "Stopped" };

export class MessageView {
  /**
   * @param {Message} message
   * @param {MessageActions} actions
   */
  constructor(message, actions) {
    this.message = message;
    this._actions = actions;
    this._body = messageBody(message);
    this._foot = element("footer", { className: "message-foot" });
    this._footState = "";
    const speaker = message.role === "user" ? "You" : message.model || "Answer";
    this.root = element(
      "article",
      { className: `message ${message.role}`, "aria-label": speaker },
      element("h2", { className: "for-readers" }, speaker),
      ...this._body.parts,
      this._foot,
    );
  }

  /** @param {boolean} isLast of its role */
  update(isLast) {
    const { text, status } = this.message;
    this._body.update();
    this.root.setAttribute("aria-busy", String(status === "running"));
    this.root.classList.toggle("is-waiting", status === "running" && text === "");
    // A foot that is made anew loses the focus; while the answer grows there is nothing to do.
    const state = `${status} ${isLast}`;
    if (status === "running" || state === this._footState) return;
    this._footState = state;
    this._foot.replaceChildren(...this._footParts(isLast));
  }

  /** @param {boolean} isLast */
  _footParts(isLast) {
    const { text, role, failure } = this.message;
    const buttons = text ? [copyButton("Copy the text", () => this.message.text)] : [];
    if (isLast && role === "user") buttons.push(iconButton("edit", "Edit the question", this._actions.edit));
    if (isLast && role === "assistant" && !failure) {
      buttons.push(iconButton("again", "Answer again", this._actions.answerAgain));
    }
    const actions = element("div", { className: "actions" }, ...buttons);
    const facts = element("span", { className: "facts" }, this._facts().join(" · "));
    return failure ? [this._failure(isLast), actions] : [actions, facts];
  }

  _facts() {
    const { status, pace } = this.message;
    const ending = ENDINGS[status];
    return [...(ending ? [ending] : []), ...(pace ? paceInWords(pace) : [])];
  }

  /** @param {boolean} isLast */
  _failure(isLast) {
    const { title, detail } = /** @type {import("./failure.js").FailureFacts} */ (this.message.failure);
    const words = element("div", {}, element("strong", {}, title), element("p", {}, detail));
    const box = element("div", { className: "failure" }, words);
    if (isLast) {
      box.role = "alert";
      const again = element("button", { type: "button", className: "button" }, icon("again"), "Try again");
      again.addEventListener("click", this._actions.answerAgain);
      box.append(again);
    }
    return box;
  }
}
