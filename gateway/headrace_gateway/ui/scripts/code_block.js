// @ts-check
/** A block of code with its language and a button to copy it. */

import { copyButton } from "./copy_button.js";
import { element } from "./element.js";

/**
 * @param {HTMLPreElement} pre as markdown makes it
 * @returns {HTMLElement}
 */
export function codeBlock(pre) {
  const text = pre.textContent ?? "";
  const language = /(?:^| )language-(\S+)/.exec(pre.firstElementChild?.className ?? "")?.[1] ?? "";
  const code = element("code", {}, text);
  const name = language ? `Code in ${language}` : "Code";
  const frame = element("pre", { tabIndex: 0, role: "group", "aria-label": name }, code);
  const label = element("span", { className: "language" }, language || "code");
  const head = element("div", { className: "code-head" }, label, copyButton("Copy the code", () => text));
  return element("div", { className: "code-block" }, head, frame);
}
