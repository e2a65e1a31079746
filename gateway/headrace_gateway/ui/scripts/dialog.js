// @ts-check
/** Dialogs: the browser holds the focus in them and gives it back, and Esc closes them. */

import { byId } from "./element.js";

/**
 * @param {string} id
 * @param {() => void} onSubmit
 * @returns {HTMLDialogElement}
 */
export function openDialog(id, onSubmit) {
  const dialog = /** @type {HTMLDialogElement} */ (byId(id));
  dialog.returnValue = "";
  dialog.onclose = () => {
    if (dialog.returnValue) onSubmit();
  };
  dialog.onclick = ({ target }) => {
    const isCloser = target instanceof Element && target.closest("[data-close]");
    if (target === dialog || isCloser) dialog.close("");
  };
  dialog.showModal();
  return dialog;
}
