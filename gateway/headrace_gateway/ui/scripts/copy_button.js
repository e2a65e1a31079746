// @ts-check
/** A button that copies a text, and says that it did. */

import { announce } from "./announcer.js";
import { element, icon, iconButton } from "./element.js";

const SHOWN_MILLISECONDS = 1600;

/**
 * @param {string} label
 * @param {() => string} read returns the text
 * @returns {HTMLButtonElement}
 */
export function copyButton(label, read) {
  const button = iconButton("copy", label, async () => {
    const isCopied = await copy(read());
    announce(isCopied ? "Copied." : "This browser does not let the page copy.");
    if (!isCopied) return;
    button.replaceChildren(icon("done"));
    setTimeout(() => button.replaceChildren(icon("copy")), SHOWN_MILLISECONDS);
  });
  return button;
}

/** @param {string} text */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text); // plain HTTP from another machine has no clipboard
  }
}

/** @param {string} text */
function copyBySelection(text) {
  const focused = document.activeElement;
  const field = /** @type {HTMLTextAreaElement} */ (
    element("textarea", { className: "for-readers", value: text, readOnly: true })
  );
  document.body.append(field);
  field.select();
  const isCopied = document.execCommand("copy");
  field.remove();
  if (focused instanceof HTMLElement) focused.focus();
  return isCopied;
}
