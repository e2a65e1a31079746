// @ts-check
/** Fills one answer from the API, until it ends or is stopped. */

import { Failure, pageFault } from "./failure.js";
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
    /** @type {import("./conversation.js").Status} */
    let status = "complete";
    try {
      for await (const piece of this._api.streamChat(request, this._stop.signal)) {
        if (piece.text || piece.reasoning) {
          watch.tick();
          answer.text += piece.text ?? "";
          if (piece.reasoning) answer.reasoning = (answer.reasoning ?? "") + piece.reasoning;
          onText();
        }
        if (piece.finishReason === "length") status = "cut";
        tokens = piece.tokens ?? tokens;
      }
    } catch (error) {
      status = this._endEarly(error);
    }
    answer.pace = watch.read(tokens);
    answer.status = status;
  }

  /**
   * @param {unknown} error
   * @returns {import("./conversation.js").Status}
   */
  _endEarly(error) {
    if (this._stop.signal.aborted) return "stopped";
    const failure = error instanceof Failure ? error : pageFault(error);
    this._answer.failure = failure.facts;
    return "failed";
  }
}
