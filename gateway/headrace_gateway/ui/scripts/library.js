// @ts-check
/** The conversations as this browser keeps them, in IndexedDB. */

import { revived } from "./conversation.js";

/** @typedef {import("./conversation.js").Conversation} Conversation */

const DATABASE = "headrace";
const STORE = "conversations";

/** Those that were used last are kept: more than a list can show, and bounded. */
export const MAX_CONVERSATIONS = 200;

export class Library {
  constructor() {
    /** @type {IDBDatabase | null} */
    this._database = null;
  }

  /**
   * Opens the database; one that cannot be opened leaves nothing to be read, and nothing is kept.
   *
   * @returns {Promise<boolean>} whether it could be opened
   */
  async open() {
    try {
      const opening = indexedDB.open(DATABASE, 1);
      opening.onupgradeneeded = () => opening.result.createObjectStore(STORE, { keyPath: "id" });
      this._database = await outcome(opening);
    } catch {
      this._database = null; // a private window, or storage is forbidden
    }
    return this._database !== null;
  }

  /** @returns {Promise<Conversation[]>} the newest first */
  async readAll() {
    if (!this._database) return [];
    const kept = await outcome(this._store("readonly").getAll());
    return kept.map(revived).sort((a, b) => b.updated - a.updated);
  }

  /**
   * @param {Conversation} conversation
   * @returns {Promise<boolean>} whether there was room
   */
  async write(conversation) {
    if (!this._database) return false;
    try {
      await outcome(this._store("readwrite").put(structuredClone(conversation)));
      return true;
    } catch {
      return false; // the quota of the browser
    }
  }

  /** @param {string} id */
  async remove(id) {
    if (this._database) await outcome(this._store("readwrite").delete(id));
  }

  /** @param {IDBTransactionMode} mode */
  _store(mode) {
    const database = /** @type {IDBDatabase} */ (this._database);
    return database.transaction(STORE, mode).objectStore(STORE);
  }
}

/**
 * @template T
 * @param {IDBRequest<T>} request
 * @returns {Promise<T>}
 */
function outcome(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}
