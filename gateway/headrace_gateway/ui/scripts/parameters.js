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

/** What JavaScript counts exactly. */
const SAFE = { min: Number.MIN_SAFE_INTEGER, max: Number.MAX_SAFE_INTEGER };

/** @type {Field[]} */
export const FIELDS = [
  lines("system", "System prompt", "Tells the model how to answer."),
  number("temperature", "Temperature", "0 to 2; 0 is the most likely", { min: 0, max: 2 }),
  number("top_p", "Top p", "Above 0, up to 1", { min: 0, max: 1 }),
  number("max_tokens", "Maximum tokens", "By default all there is room for", { min: 1, step: "1" }),
  number("seed", "Seed", "The same one, the same answer", { ...SAFE, step: "1" }),
  lines("stop", "Stop at", "One text per line; the answer ends before it."),
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

/**
 * @param {string} name
 * @param {string} label
 * @param {string} hint
 * @returns {Field}
 */
function lines(name, label, hint) {
  return { name, label, hint, kind: "lines" };
}

/**
 * @param {string} name
 * @param {string} label
 * @param {string} hint
 * @param {{min: number, max?: number, step?: string}} range
 * @returns {Field}
 */
function number(name, label, hint, range) {
  return { name, label, hint, kind: "number", step: "any", ...range };
}
