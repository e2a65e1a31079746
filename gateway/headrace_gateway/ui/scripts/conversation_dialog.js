// @ts-check
/** Names, exports and deletes a conversation. */

import { openDialog } from "./dialog.js";
import { byId } from "./element.js";

/**
 * @typedef {object} ConversationChanges
 * @property {(title: string) => void} rename
 * @property {() => void} remove
 * @property {() => void} save as a file
 */

/**
 * @param {string} title
 * @param {ConversationChanges} changes
 */
export function openConversationDialog(title, changes) {
  const field = /** @type {HTMLInputElement} */ (byId("title"));
  field.value = title;
  const dialog = openDialog("conversation", () => changes.rename(field.value.trim() || title));
  byId("delete").onclick = () => {
    dialog.close();
    changes.remove();
  };
  byId("export").onclick = () => {
    dialog.close();
    changes.save();
  };
  field.select();
}
