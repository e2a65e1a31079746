// @ts-check
/** Light, dark, or as the system has it. */

import { icon } from "./element.js";
import { readPreference, writePreference } from "./preferences.js";

const THEMES = ["system", "light", "dark"];

/** @param {HTMLButtonElement} button goes from one theme to the next */
export function installTheme(button) {
  show(button, readPreference("theme"));
  button.addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(current()) + 1) % THEMES.length];
    writePreference("theme", next);
    show(button, next);
  });
}

/**
 * @param {HTMLButtonElement} button
 * @param {string} wanted
 */
function show(button, wanted) {
  const theme = THEMES.includes(wanted) ? wanted : THEMES[0];
  document.documentElement.dataset.theme = theme;
  button.replaceChildren(icon(theme));
  button.title = `Theme: ${theme}`;
  button.setAttribute("aria-label", button.title);
}

function current() {
  return document.documentElement.dataset.theme ?? THEMES[0];
}
