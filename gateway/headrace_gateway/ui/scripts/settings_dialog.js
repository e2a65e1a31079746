// @ts-check
/** The settings: what the answers are like, and what this browser knows. */

import { openDialog } from "./dialog.js";
import { byId, element } from "./element.js";
import { FIELDS } from "./parameters.js";
import { isPreferenceKept, readPreference, writePreference } from "./preferences.js";

/** @typedef {import("./parameters.js").Parameters} Parameters */

export const API_KEY = "api-key";

/** Makes the fields of the parameters. */
export function installSettings() {
  byId("parameters").append(...FIELDS.map(makeField));
}

/**
 * @param {Parameters} parameters to begin with
 * @param {(parameters: Parameters) => void} onSave
 */
export function openSettings(parameters, onSave) {
  for (const { name } of FIELDS) fieldOf(name).value = parameters[name] ?? "";
  const key = /** @type {HTMLInputElement} */ (byId("api-key"));
  const keep = /** @type {HTMLInputElement} */ (byId("keep-key"));
  key.value = readPreference(API_KEY);
  keep.checked = isPreferenceKept(API_KEY);
  openDialog("settings", () => {
    writePreference(API_KEY, key.value.trim(), keep.checked);
    onSave(Object.fromEntries(FIELDS.map(({ name }) => [name, fieldOf(name).value])));
  });
}

/** @param {import("./parameters.js").Field} field */
function makeField({ name, label, hint, kind, min, max, step }) {
  const id = `parameter-${name}`;
  const common = { id, "aria-describedby": `${id}-hint`, autocomplete: "off" };
  const control =
    kind === "lines"
      ? element("textarea", { ...common, rows: 2 })
      : element("input", { ...common, type: "number", placeholder: "Default", step });
  if (min !== undefined) control.setAttribute("min", String(min));
  if (max !== undefined) control.setAttribute("max", String(max));
  const hintLine = element("p", { id: `${id}-hint`, className: "hint" }, hint);
  const title = element("label", { htmlFor: id }, label);
  return element("div", { className: `field ${kind}` }, title, control, hintLine);
}

/**
 * @param {string} name
 * @returns {HTMLInputElement}
 */
function fieldOf(name) {
  return byId(`parameter-${name}`);
}
