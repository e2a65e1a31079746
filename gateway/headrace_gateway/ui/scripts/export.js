// @ts-check
/** Conversations as a file of JSON. */

import { element } from "./element.js";

/** @param {import("./conversation.js").Conversation[]} conversations */
export function exportConversations(conversations) {
  const json = JSON.stringify({ format: "headrace-conversations-1", conversations }, null, 2);
  const href = URL.createObjectURL(new Blob([json], { type: "application/json" }));
  const [first] = conversations;
  const name = conversations.length === 1 ? slug(first.title) : "conversations";
  element("a", { href, download: `${name || "conversation"}.json` }).click();
  URL.revokeObjectURL(href);
}

/** @param {string} title */
function slug(title) {
  return title.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "");
}
