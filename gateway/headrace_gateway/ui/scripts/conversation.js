// @ts-check
/** Conversations and their messages; no page, no storage. */

import { requestPart } from "./parameters.js";

/**
 * @typedef {"running" | "complete" | "cut" | "stopped" | "failed"} Status
 *   cut: by the maximum of tokens; stopped: by the person, or by closing the page
 *
 * @typedef {object} Message
 * @property {"user" | "assistant"} role
 * @property {string} text
 * @property {string} [reasoning] before the text; the model does not see it again
 * @property {Status} status
 * @property {string} [model] that answered
 * @property {import("./stopwatch.js").Pace} [pace]
 * @property {import("./failure.js").FailureFacts} [failure]
 *
 * @typedef {object} Conversation
 * @property {string} id
 * @property {string} title
 * @property {number} updated milliseconds since 1970
 * @property {import("./parameters.js").Parameters} parameters
 * @property {Message[]} messages
 */

const MAX_TITLE_CHARACTERS = 60;

/**
 * @param {import("./parameters.js").Parameters} parameters
 * @returns {Conversation}
 */
export function newConversation(parameters) {
  return { id: newId(), title: "", updated: Date.now(), parameters: { ...parameters }, messages: [] };
}

/**
 * Adds a question, and the answer that is to be filled.
 *
 * @param {Conversation} conversation
 * @param {string} text
 */
export function addQuestion(conversation, text) {
  conversation.messages.push({ role: "user", text, status: "complete" });
  conversation.title ||= titleFor(text);
}

/**
 * @param {Conversation} conversation
 * @param {string} model
 * @returns {Message} the answer, to be filled
 */
export function addAnswer(conversation, model) {
  /** @type {Message} */
  const answer = { role: "assistant", text: "", status: "running", model };
  conversation.messages.push(answer);
  conversation.updated = Date.now();
  return answer;
}

/**
 * Removes the last message of a role and what follows it.
 *
 * @param {Conversation} conversation
 * @param {Message["role"]} role
 */
export function removeFromLast(conversation, role) {
  const index = conversation.messages.findLastIndex((message) => message.role === role);
  if (index >= 0) conversation.messages.length = index;
}

/**
 * @param {Conversation} conversation whose last message is the answer to be filled
 * @param {string} model "" leaves the choice to the server
 * @returns {object} the body of a request
 */
export function requestFor(conversation, model) {
  const system = conversation.parameters.system?.trim();
  const told = conversation.messages.filter(({ text }) => text !== "");
  const messages = told.map(({ role, text }) => ({ role, content: text }));
  if (system) messages.unshift({ role: /** @type {any} */ ("system"), content: system });
  return { ...(model && { model }), messages, ...requestPart(conversation.parameters) };
}

/**
 * @param {Conversation} conversation as it was kept: what ran then was stopped by closing the page
 * @returns {Conversation}
 */
export function revived(conversation) {
  for (const message of conversation.messages) {
    if (message.status === "running") message.status = "stopped";
  }
  return conversation;
}

/** @param {string} text */
function titleFor(text) {
  const line = text.trim().split("\n")[0].trim();
  const characters = [...line];
  if (characters.length <= MAX_TITLE_CHARACTERS) return line;
  return `${characters.slice(0, MAX_TITLE_CHARACTERS - 1).join("").trimEnd()}…`;
}

/** Not crypto.randomUUID, which plain HTTP has on this machine only. */
function newId() {
  return [...crypto.getRandomValues(new Uint8Array(8))]
    .map((byte) => byte.toString(16).padStart(2, "0"))
    .join("");
}
