// @ts-check
/** What stands in a message: a question as it was written, an answer as it is meant to look. */

import { AnswerText } from "./answer_text.js";
import { element } from "./element.js";
import { ReasoningView } from "./reasoning_view.js";

/**
 * @typedef {import("./conversation.js").Message} Message
 *
 * @typedef {object} MessageBody
 * @property {HTMLElement[]} parts
 * @property {() => void} update shows what the message is now
 */

/**
 * @param {Message} message
 * @returns {MessageBody}
 */
export function messageBody(message) {
  return message.role === "user" ? question(message) : answer(message);
}

/**
 * @param {Message} message
 * @returns {MessageBody}
 */
function question({ text }) {
  return { parts: [element("div", { className: "question-text" }, text)], update: () => {} };
}

/**
 * @param {Message} message
 * @returns {MessageBody}
 */
function answer(message) {
  const reasoning = new ReasoningView();
  const text = new AnswerText();
  const update = () => {
    const isThinking = message.status === "running" && message.text === "";
    reasoning.show(message.reasoning ?? "", isThinking);
    text.show(message.text);
  };
  return { parts: [reasoning.root, text.root], update };
}
