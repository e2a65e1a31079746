// @ts-check
/** What a person may set for the answers; the server checks and knows the defaults. */

/**
 * @typedef {Record<string, string>} Parameters the texts of the fields by name; "" is the default
 *
 * @typedef {object} Field
 * @property {string} name of the API, but for `system`
 * @property {string} label
 * @property {string} hint
 * @property {"lines" | "number"} kind
 * @property {number} [min]
 * @property {number} [max]
 * @property {string} [step]
 */

/** @type {Field[]} */
export const FIELDS = [
  { name: "system", label: "System prompt", hint: "Tells the model how to answer.", kind: "lines" },
  { name: "temperature", label: "Temperature", hint: "0 to 2; 0 is the most likely", kind: "number", min: 0, max: 2, step: "any" },
  { name: "top_p", label: "Top p", hint: "Above 0, up to 1", kind: "number", min: 0, max: 1, step: "any" },
  { name: "max_tokens", label: "Maximum tokens", hint: "Of an answer", kind: "number", min: 1, step: "1" },
  { name: "seed", label: "Seed", hint: "The same one, the same answer", kind: "number", step: "1" },
  { name: "stop", label: "Stop at", hint: "One text per line; the answer ends before it.", kind: "lines" },
];

/**
 * @param {Parameters} parameters
 * @returns {object} their part of a request
 */
export function requestPart(parameters) {
  /** @type {Record<string, unknown>} */
  const part = {};
  for (const { name, kind } of FIELDS) {
    const text = parameters[name] ?? "";
    if (name === "system" || text.trim() === "") continue;
    part[name] = kind === "number" ? Number(text) : text.split("\n").filter((line) => line !== "");
  }
  return part;
}
