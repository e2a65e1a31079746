// @ts-check
/** What went wrong, in words for the person at the page. */

/**
 * @typedef {object} FailureFacts as they are kept with an answer
 * @property {string} title what happened, a few words
 * @property {string} detail what to do, and what the server said
 * @property {string} code OpenAI's word for it, or ""
 */

/** @type {Record<number, string>} */
const TITLES = {
  400: "The server refused the question",
  403: "The server does not allow this",
  404: "This model is not served",
  413: "The conversation is too large",
  429: "The server is busy",
  503: "The server is not ready",
  504: "The answer took too long",
};

/** @type {Record<string, string>} */
const HINTS = {
  context_length_exceeded: "Begin a new conversation, or ask for fewer tokens in the settings.",
  model_not_found: "Choose another model above.",
};

export class Failure extends Error {
  /**
   * @param {FailureFacts} facts
   * @param {number | null} [retrySeconds] when to try again, where the server says so
   */
  constructor(facts, retrySeconds = null) {
    super(facts.title);
    this.facts = facts;
    this.retrySeconds = retrySeconds;
  }
}

/**
 * @param {Response} response with a status that is no success
 * @param {boolean} hadKey whether the request had an API key
 * @returns {Promise<Failure>}
 */
export async function failureOf(response, hadKey) {
  const body = await response.json().catch(() => null);
  if (response.status === 401) return keyNeeded(hadKey);
  const seconds = Number.parseFloat(response.headers.get("retry-after") ?? "");
  return failureFrom(body?.error ?? {}, response.status, Number.isFinite(seconds) ? seconds : null);
}

/**
 * @param {{message?: unknown, code?: unknown}} error of the API
 * @param {number} status 0 for an error that came within an answer
 * @param {number | null} [retrySeconds]
 * @returns {Failure}
 */
export function failureFrom(error, status, retrySeconds = null) {
  const code = typeof error.code === "string" ? error.code : "";
  const title = TITLES[status] ?? (status === 0 ? "The answer broke off" : "The server failed");
  const said = typeof error.message === "string" ? error.message : `HTTP status ${status}.`;
  const words = [said, HINTS[code] ?? "", retrySeconds === null ? "" : again(retrySeconds)];
  return new Failure({ title, detail: words.filter(Boolean).join(" "), code }, retrySeconds);
}

/**
 * The API's own words are for programs, which send a key in a header.
 *
 * @param {boolean} hadKey
 * @returns {Failure}
 */
export function keyNeeded(hadKey) {
  const title = hadKey ? "The API key is wrong" : "The server asks for an API key";
  const detail = hadKey ? "Enter the right one in the settings." : "Enter it in the settings.";
  return new Failure({ title, detail, code: "invalid_api_key" });
}

/** @returns {Failure} for a connection that could not be made, or broke */
export function connectionLost() {
  const detail = "Is the server running, and the network up? Then try again.";
  return new Failure({ title: "The connection was lost", detail, code: "" });
}

/** @returns {Failure} for an answer without an end */
export function unfinished() {
  const detail = "The connection ended before the answer did. Try again.";
  return new Failure({ title: "The answer broke off", detail, code: "" });
}

/**
 * @param {unknown} error that nothing here foresaw; the browser's console has it
 * @returns {Failure}
 */
export function pageFault(error) {
  console.error(error);
  const detail = "The browser's console tells more. Try again, or load the page anew.";
  return new Failure({ title: "The page failed", detail, code: "" });
}

/** @param {number} seconds */
function again(seconds) {
  return `Try again in ${seconds} ${seconds === 1 ? "second" : "seconds"}.`;
}
