// @ts-check
/** Fills one answer from the API, until it ends or is stopped. */

import { Failure } from "./failure.js";
import { Stopwatch } from "./stopwatch.js";

/** @typedef {import("./conversation.js").Message} Message */

export class Answering {
  /**
   * @param {import("./api.js").Api} api
   * @param {Message} answer
   */
  constructor(api, answer) {
    this._api = api;
    this._answer = answer;
    this._stop = new AbortController();
  }

  /** Closes the connection; the answer ends with the text that it has. */
  stop() {
    this._stop.abort();
  }

  /**
   * @param {object} request
   * @param {() => void} onText called when there is more text
   * @returns {Promise<void>} when the answer has ended, however it did
   */
  async run(request, onText) {
    const answer = this._answer;
    const watch = new Stopwatch();
    let tokens = null;
    try {
      for await (const piece of this._api.streamChat(request, this._stop.signal)) {
        if (piece.text) {
          watch.tick();
          answer.text += piece.text;
          onText();
        }
        if (piece.finishReason) answer.status = piece.finishReason === "length" ? "cut" : "complete";
        tokens = piece.tokens ?? tokens;
      }
    } catch (error) {
      this._endEarly(error);
    }
    answer.pace = watch.read(tokens);
  }

  /** @param {unknown} error */
  _endEarly(error) {
    if (this._stop.signal.aborted) {
      this._answer.status = "stopped";
      return;
    }
    this._answer.status = "failed";
    if (!(error instanceof Failure)) throw error;
    this._answer.failure = error.facts;
  }
}
