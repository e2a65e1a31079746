// @ts-check
/** Notices above the field of the question, one for each subject. */

import { byId, element, iconButton } from "./element.js";

/**
 * @param {string} subject
 * @param {string} words
 * @param {boolean} [canBeHidden] by the person; others go by themselves
 */
export function showNotice(subject, words, canBeHidden = false) {
  const shown = find(subject);
  if (shown) {
    const text = /** @type {HTMLElement} */ (shown.firstElementChild);
    if (text.textContent !== words) text.textContent = words;
    return;
  }
  const settings = { className: "notice", "data-subject": subject };
  const notice = element("div", settings, element("span", {}, words));
  if (canBeHidden) notice.append(iconButton("close", "Hide this", () => hideNotice(subject)));
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
