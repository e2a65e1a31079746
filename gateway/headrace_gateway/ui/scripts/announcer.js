// @ts-check
/** Says to screen readers what others see. */

import { byId } from "./element.js";

/** @param {string} words */
export function announce(words) {
  const region = byId("announcer");
  // The same words again are no change, which readers would pass over.
  region.textContent = region.textContent === words ? `${words}\u00a0` : words;
}
