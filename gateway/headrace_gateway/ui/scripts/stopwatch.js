// @ts-check
/** How fast an answer came. */

/**
 * @typedef {object} Pace
 * @property {number | null} tokens of the answer, where the server told
 * @property {number | null} firstSeconds from the question to the first text (TTFT)
 * @property {number | null} perSecond tokens per second after the first
 */

/** What comes within less came at once, and tells nothing of the pace. */
const LEAST_SECONDS = 0.02;

export class Stopwatch {
  /** @param {() => number} [now] the time in milliseconds */
  constructor(now = () => performance.now()) {
    this._now = now;
    this._start = now();
    /** @type {number | null} */
    this._first = null;
    this._last = this._start;
  }

  /** Takes note that text has come. */
  tick() {
    this._last = this._now();
    this._first ??= this._last;
  }

  /**
   * @param {number | null} tokens
   * @returns {Pace}
   */
  read(tokens) {
    if (this._first === null) return { tokens, firstSeconds: null, perSecond: null };
    const seconds = (this._last - this._first) / 1000;
    const isPaced = tokens !== null && tokens > 1 && seconds >= LEAST_SECONDS;
    const perSecond = isPaced ? (tokens - 1) / seconds : null;
    return { tokens, firstSeconds: (this._first - this._start) / 1000, perSecond };
  }
}

/**
 * @param {Pace} pace
 * @returns {string[]} what is known, each in words
 */
export function paceInWords({ tokens, firstSeconds, perSecond }) {
  const words = [];
  if (tokens !== null) words.push(`${tokens} ${tokens === 1 ? "token" : "tokens"}`);
  if (perSecond !== null) words.push(`${perSecond.toFixed(perSecond < 100 ? 1 : 0)} tokens/s`);
  if (firstSeconds !== null) words.push(`first token after ${duration(firstSeconds)}`);
  return words;
}

/** @param {number} seconds */
function duration(seconds) {
  return seconds < 1 ? `${Math.round(seconds * 1000)} ms` : `${seconds.toFixed(1)} s`;
}
