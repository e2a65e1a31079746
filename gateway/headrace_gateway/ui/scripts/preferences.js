// @ts-check
/** Small settings of this browser; where it keeps nothing, they last as long as the page. */

const PREFIX = "headrace.";

/** @type {Map<string, string>} */
const unkept = new Map();

/**
 * @param {string} name
 * @returns {string} "" where there is none
 */
export function readPreference(name) {
  const key = PREFIX + name;
  for (const storage of ["sessionStorage", "localStorage"]) {
    const value = attempt(() => /** @type {any} */ (window)[storage].getItem(key));
    if (value) return value;
  }
  return unkept.get(key) ?? "";
}

/**
 * @param {string} name
 * @param {string} value
 * @param {boolean} [isKept] beyond the life of this tab
 */
export function writePreference(name, value, isKept = true) {
  const key = PREFIX + name;
  unkept.set(key, value);
  attempt(() => localStorage.removeItem(key));
  attempt(() => sessionStorage.removeItem(key));
  if (value) attempt(() => (isKept ? localStorage : sessionStorage).setItem(key, value));
}

/**
 * @param {string} name
 * @returns {boolean} whether it outlives this tab
 */
export function isPreferenceKept(name) {
  return Boolean(attempt(() => localStorage.getItem(PREFIX + name)));
}

/**
 * @template T
 * @param {() => T} action on a storage, which a browser may forbid
 * @returns {T | null}
 */
function attempt(action) {
  try {
    return action();
  } catch {
    return null;
  }
}
