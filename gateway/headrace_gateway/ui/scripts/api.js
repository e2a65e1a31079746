// @ts-check
/** The HTTP API that this page is served beside. */

import { readEvents } from "./event_stream.js";
import { connectionLost, Failure, failureFrom, failureOf, keyNeeded, unfinished } from "./failure.js";

/**
 * @typedef {object} Piece of an answer as it arrives; what is not in it is undefined
 * @property {string} [text]
 * @property {string} [reasoning] what the model thinks before it answers
 * @property {string} [finishReason]
 * @property {number} [tokens] of the whole answer
 */

export class Api {
  /** @param {() => string} readKey returns the API key, or "" */
  constructor(readKey) {
    this._readKey = readKey;
  }

  /**
   * @returns {Promise<string[]>} the names that questions may use
   * @throws {Failure}
   */
  async listModels() {
    const response = await this._fetch("v1/models", {});
    const list = await response.json();
    return list.data.map((/** @type {{id: string}} */ model) => model.id);
  }

  /**
   * @param {object} request the body, without what makes it a stream
   * @param {AbortSignal} signal closes the connection, which ends the work in the engine
   * @returns {AsyncGenerator<Piece>}
   * @throws {Failure}
   */
  async *streamChat(request, signal) {
    const response = await this._fetch("v1/chat/completions", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ ...request, stream: true, stream_options: { include_usage: true } }),
      signal,
    });
    if (!response.body) throw unfinished();
    try {
      for await (const data of readEvents(response.body)) {
        if (data === "[DONE]") return;
        yield pieceOf(JSON.parse(data));
      }
    } catch (error) {
      throw error instanceof Failure || signal.aborted ? error : connectionLost();
    }
    throw unfinished();
  }

  /**
   * @param {string} path relative to the page, so that it may be served below another path
   * @param {RequestInit} options
   */
  async _fetch(path, options) {
    const key = this._readKey();
    // A header cannot carry anything else, and no server has such a key.
    if (!/^[!-~]*$/.test(key)) throw keyNeeded(true);
    const headers = { ...options.headers, ...(key && { Authorization: `Bearer ${key}` }) };
    let response;
    try {
      response = await fetch(path, { ...options, headers, cache: "no-store" });
    } catch (error) {
      throw options.signal?.aborted ? error : connectionLost();
    }
    if (!response.ok) throw await failureOf(response, key !== "");
    return response;
  }
}

/**
 * @param {any} chunk of a streamed chat
 * @returns {Piece}
 */
function pieceOf(chunk) {
  if (chunk.error) throw failureFrom(chunk.error, 0);
  const choice = chunk.choices[0];
  return {
    text: choice?.delta?.content ?? "",
    reasoning: choice?.delta?.reasoning_content ?? "",
    finishReason: choice?.finish_reason ?? undefined,
    tokens: chunk.usage?.completion_tokens,
  };
}
