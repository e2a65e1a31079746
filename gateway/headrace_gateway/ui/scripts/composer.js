// @ts-check
/** Where questions are written. */

import { byId, icon } from "./element.js";

/**
 * @typedef {object} ComposerActions
 * @property {(text: string) => boolean} send returns whether the question was taken
 * @property {() => void} stop
 * @property {() => void} cancelEditing
 */

const touch = matchMedia("(pointer: coarse)");

export class Composer {
  /** @param {ComposerActions} actions */
  constructor(actions) {
    this._actions = actions;
    this._isRunning = false;
    this._field = /** @type {HTMLTextAreaElement} */ (byId("question"));
    this._button = /** @type {HTMLButtonElement} */ (byId("submit"));
    this._field.addEventListener("keydown", (event) => this._onKey(event));
    this._field.addEventListener("input", () => this._fit());
    byId("cancel-editing").addEventListener("click", () => actions.cancelEditing());
    byId("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this._submit();
    });
    this._fit();
  }

  /** @param {boolean} isRunning whether the button stops an answer */
  showRunning(isRunning) {
    this._isRunning = isRunning;
    const label = isRunning ? "Stop" : "Send";
    if (this._button.getAttribute("aria-label") === label) return;
    this._button.setAttribute("aria-label", label);
    this._button.replaceChildren(icon(label.toLowerCase()));
    this._button.classList.toggle("is-stop", isRunning);
    this._fit();
  }

  /** @param {boolean} isEditing whether the next question takes the place of the last one */
  showEditing(isEditing) {
    byId("editing").hidden = !isEditing;
  }

  /** @param {string} text to be changed */
  fill(text) {
    this._field.value = text;
    this._fit();
    this.focus();
  }

  focus() {
    this._field.focus();
  }

  /** @param {KeyboardEvent} event */
  _onKey(event) {
    // A phone has no Shift and Enter; its button sends.
    if (touch.matches) return;
    // Enter also ends a word that is being composed, as in Japanese.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    if (!this._isRunning) this._send();
  }

  _submit() {
    if (this._isRunning) this._actions.stop();
    else this._send();
    // On a phone the keyboard would cover the answer.
    if (!touch.matches) this.focus();
  }

  _send() {
    if (this._field.value.trim() === "" || !this._actions.send(this._field.value)) return;
    this._field.value = "";
    this._fit();
  }

  /** Makes the field as high as its text, and the button tell whether there is one. */
  _fit() {
    this._button.disabled = !this._isRunning && this._field.value.trim() === "";
    if (CSS.supports("field-sizing", "content")) return;
    this._field.style.height = "auto";
    this._field.style.height = `${this._field.scrollHeight}px`;
  }
}
