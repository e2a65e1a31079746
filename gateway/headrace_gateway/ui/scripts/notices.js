// @ts-check
/** Notices above the field of the question, one for each subject. */

import { byId, element, iconButton } from "./element.js";

/**
 * @param {string} subject
 * @param {string} words
 */
export function showNotice(subject, words) {
  const shown = find(subject);
  if (shown) {
    const text = /** @type {HTMLElement} */ (shown.firstElementChild);
    if (text.textContent !== words) text.textContent = words;
    return;
  }
  const notice = element(
    "p",
    { className: "notice", "data-subject": subject },
    element("span", {}, words),
    iconButton("close", "Hide this", () => hideNotice(subject)),
  );
  byId("notices").append(notice);
}

/** @param {string} subject */
export function hideNotice(subject) {
  find(subject)?.remove();
}

/** @param {string} subject */
function find(subject) {
  return byId("notices").querySelector(`[data-subject="${subject}"]`);
}
