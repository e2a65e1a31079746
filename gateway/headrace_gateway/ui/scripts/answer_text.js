// @ts-check
/** The text of an answer as it grows; blocks that do not change stay as they are. */

import { codeBlock } from "./code_block.js";
import { element } from "./element.js";
import { readBlocks } from "./markdown.js";

export class AnswerText {
  constructor() {
    this.root = element("div", { className: "answer-text" });
    /** @type {string[]} the sources of the blocks that are shown */
    this._sources = [];
  }

  /** @param {string} text all of it; what is nested too deeply for the browser stays text */
  show(text) {
    try {
      this._showBlocks(text);
    } catch (error) {
      if (!(error instanceof RangeError)) console.error(error);
      this.root.replaceChildren(element("div", { className: "block plain" }, text));
      this._sources = [];
    }
  }

  /** @param {string} text */
  _showBlocks(text) {
    const blocks = readBlocks(text);
    const same = blocks.findIndex(({ source }, index) => source !== this._sources[index]);
    const first = same < 0 ? blocks.length : same;
    const fresh = blocks.slice(first).map((block) => shell(block.render()));
    while (this.root.children.length > first) this.root.lastElementChild?.remove();
    this.root.append(...fresh);
    this._sources = blocks.map(({ source }) => source);
  }
}

/** @param {DocumentFragment} content of one block, which may be several elements or none */
function shell(content) {
  for (const pre of content.querySelectorAll("pre")) pre.replaceWith(codeBlock(pre));
  for (const table of content.querySelectorAll("table")) {
    const settings = { className: "table-frame", tabIndex: 0, role: "group", "aria-label": "Table" };
    const frame = element("div", settings);
    table.replaceWith(frame);
    frame.append(table);
  }
  return element("div", { className: "block" }, content);
}
