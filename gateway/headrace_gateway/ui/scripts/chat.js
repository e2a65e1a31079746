// @ts-check
/** The conversations at work: what each action of the person does to them. */

import { Answering } from "./answering.js";
import {
  addAnswer,
  addQuestion,
  newConversation,
  removeFromLast,
  requestFor,
} from "./conversation.js";

/** @typedef {import("./conversation.js").Conversation} Conversation */

const SAVE_MILLISECONDS = 1000;

/**
 * @typedef {object} ChatParts
 * @property {import("./api.js").Api} api
 * @property {import("./shelf.js").Shelf} shelf
 * @property {() => string} model the name of the one that is chosen
 * @property {() => void} onChange something changed that is shown
 * @property {() => void} onText the answer that is shown has grown
 * @property {(answer: import("./conversation.js").Message) => void} onEnd the answer that is shown has ended
 */

export class Chat {
  /** @param {ChatParts} parts */
  constructor(parts) {
    this._parts = parts;
    this.current = newConversation({});
    this.isEditing = false;
    /** @type {Map<Conversation, Answering>} */
    this._running = new Map();
  }

  /** @param {Conversation} conversation that may be answered in the background */
  isRunning(conversation) {
    return this._running.has(conversation);
  }

  /** @param {Conversation} conversation to be shown */
  open(conversation) {
    this.current = conversation;
    this.isEditing = false;
    this._parts.onChange();
  }

  /**
   * @param {string} text
   * @returns {boolean} whether it was taken
   */
  ask(text) {
    if (this.isRunning(this.current)) return false;
    if (this.isEditing) removeFromLast(this.current, "user");
    this.isEditing = false;
    addQuestion(this.current, text.trim());
    this._answer(this.current);
    return true;
  }

  /** Answers the last question once more, in place of its answer. */
  answerAgain() {
    if (this.isRunning(this.current)) return;
    removeFromLast(this.current, "assistant");
    this._answer(this.current);
  }

  /** @returns {boolean} whether there was an answer to stop */
  stop() {
    this._running.get(this.current)?.stop();
    return this.isRunning(this.current);
  }

  /** @param {boolean} isEditing whether the next question takes the place of the last one */
  edit(isEditing) {
    this.isEditing = isEditing;
    this._parts.onChange();
  }

  /** @param {Conversation} conversation */
  remove(conversation) {
    this._running.get(conversation)?.stop();
    this._parts.shelf.remove(conversation);
    if (conversation === this.current) this.current = newConversation(conversation.parameters);
    this._parts.onChange();
  }

  /** @param {Conversation} conversation */
  async _answer(conversation) {
    const { api, shelf, model, onChange, onEnd } = this._parts;
    const request = requestFor(conversation, model());
    const answer = addAnswer(conversation, model());
    const answering = new Answering(api, answer);
    this._running.set(conversation, answering);
    shelf.put(conversation);
    onChange();
    const saving = setInterval(() => shelf.put(conversation), SAVE_MILLISECONDS);
    try {
      await answering.run(request, () => conversation === this.current && this._parts.onText());
    } finally {
      clearInterval(saving);
      this._running.delete(conversation);
      if (shelf.has(conversation)) shelf.put(conversation);
      onChange();
    }
    if (conversation === this.current) onEnd(answer);
  }
}
