// @ts-check
/** What a model thinks before it answers: folded, since it is not the answer. */

import { element } from "./element.js";

export class ReasoningView {
  constructor() {
    this._title = element("summary");
    this._text = element("div", { className: "reasoning-text" });
    this.root = element("details", { className: "reasoning", hidden: true }, this._title, this._text);
  }

  /**
   * @param {string} text all of it, or ""
   * @param {boolean} isThinking the answer has not begun
   */
  show(text, isThinking) {
    this.root.hidden = text === "";
    // Setting the same text again would take a selection away.
    if (this._text.textContent !== text) this._text.textContent = text;
    this._title.textContent = isThinking ? "Thinking …" : "Reasoning";
  }
}
