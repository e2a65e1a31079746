// @ts-check
/** The models that can be chosen; asks again while the server is not ready. */

import { byId, element } from "./element.js";
import { Failure } from "./failure.js";
import { hideNotice, showNotice } from "./notices.js";
import { readPreference, writePreference } from "./preferences.js";

const RETRY_SECONDS = 3;

export class Models {
  /** @param {import("./api.js").Api} api */
  constructor(api) {
    this._api = api;
    this._select = /** @type {HTMLSelectElement} */ (byId("model"));
    this._select.addEventListener("change", () => writePreference("model", this._select.value));
    this._retry = 0;
  }

  /** @returns {string} "" while none is known; the server then takes its own */
  get current() {
    return this._select.value;
  }

  /** Asks which there are, until the server says so. */
  async refresh() {
    clearTimeout(this._retry);
    try {
      this._show(await this._api.listModels());
      hideNotice("models");
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      this._explain(error);
    }
  }

  /** @param {string[]} names */
  _show(names) {
    const chosen = readPreference("model");
    this._select.replaceChildren(...names.map((name) => element("option", { value: name }, name)));
    if (names.includes(chosen)) this._select.value = chosen;
    this._select.disabled = names.length === 0;
  }

  /** @param {Failure} failure */
  _explain({ facts, retrySeconds }) {
    showNotice("models", `${facts.title}. ${facts.detail}`);
    // A wrong key does not become right.
    if (facts.code === "invalid_api_key") return;
    this._retry = setTimeout(() => this.refresh(), (retrySeconds ?? RETRY_SECONDS) * 1000);
  }
}
