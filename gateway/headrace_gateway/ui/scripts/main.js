// @ts-check
/** The page: joins its parts. */

import { announce } from "./announcer.js";
import { Api } from "./api.js";
import { Chat } from "./chat.js";
import { Composer } from "./composer.js";
import { newConversation } from "./conversation.js";
import { openConversationDialog } from "./conversation_dialog.js";
import { byId } from "./element.js";
import { EndFollower } from "./end_follower.js";
import { exportConversations } from "./export.js";
import { Library } from "./library.js";
import { Models } from "./models.js";
import { readPreference, writePreference } from "./preferences.js";
import { API_KEY, installSettings, openSettings } from "./settings_dialog.js";
import { Shelf } from "./shelf.js";
import { Sidebar } from "./sidebar.js";
import { installTheme } from "./theme.js";
import { ThreadView } from "./thread_view.js";

/** @typedef {import("./conversation.js").Conversation} Conversation */

const PARAMETERS = "parameters";

const api = new Api(() => readPreference(API_KEY));
const models = new Models(api);
const shelf = new Shelf(new Library());
const follower = new EndFollower(byId("scroller"), byId("to-end"));
const chat = new Chat({
  api,
  shelf,
  model: () => models.current,
  onChange: show,
  onText: grow,
  onEnd: tell,
});
const thread = new ThreadView(byId("thread"), { edit, answerAgain });
const composer = new Composer({ send: ask, stop: () => chat.stop(), cancelEditing });
const sidebar = new Sidebar({ create, open, change });
let isGrowing = false;

function show() {
  const { current } = chat;
  thread.show(current);
  follower.follow();
  sidebar.show(shelf.conversations, current, (each) => chat.isRunning(each));
  composer.showRunning(chat.isRunning(current));
  composer.showEditing(chat.isEditing);
  document.title = current.title ? `${current.title} · Headrace` : "Headrace";
  // So that a reload opens it again.
  history.replaceState(null, "", shelf.has(current) ? `#${current.id}` : location.pathname);
}

/** Shows new text once in each frame, however often it comes. */
function grow() {
  if (isGrowing) return;
  isGrowing = true;
  requestAnimationFrame(() => {
    isGrowing = false;
    thread.grow();
    follower.follow();
  });
}

/**
 * Says to screen readers how an answer ended; a failure is an alert of its own.
 *
 * @param {import("./conversation.js").Message} answer
 */
function tell({ status }) {
  if (status === "stopped") announce("Stopped.");
  else if (status !== "failed") announce(`Answer: ${thread.lastWords()}`);
}

/** @param {string} text */
function ask(text) {
  const isTaken = chat.ask(text);
  if (isTaken) follower.goToEnd();
  return isTaken;
}

function edit() {
  const question = chat.current.messages.findLast(({ role }) => role === "user");
  chat.edit(true);
  composer.fill(question?.text ?? "");
}

function answerAgain() {
  chat.answerAgain();
  byId("scroller").focus({ preventScroll: true }); // the button has gone
}

function cancelEditing() {
  chat.edit(false);
  composer.fill("");
}

function create() {
  open(newConversation(lastParameters()));
}

/** @param {Conversation} conversation */
function open(conversation) {
  if (chat.isEditing) composer.fill("");
  chat.open(conversation);
  follower.goToEnd();
  composer.focus();
}

/** @param {Conversation} conversation */
function change(conversation) {
  openConversationDialog(conversation.title, {
    rename: (title) => {
      conversation.title = title;
      shelf.put(conversation);
      show();
    },
    remove: () => {
      chat.remove(conversation);
      byId("new-conversation").focus();
    },
    save: () => exportConversations([conversation]),
  });
}

function changeSettings() {
  openSettings(chat.current.parameters, (parameters) => {
    chat.current.parameters = parameters;
    writePreference(PARAMETERS, JSON.stringify(parameters));
    if (shelf.has(chat.current)) shelf.put(chat.current);
    models.refresh(); // the key may have changed
  });
}

/** @returns {import("./parameters.js").Parameters} those that were set last */
function lastParameters() {
  try {
    return JSON.parse(readPreference(PARAMETERS) || "{}");
  } catch {
    return {}; // another program wrote there
  }
}

/** @param {KeyboardEvent} event */
function onKey(event) {
  const isElsewhere = event.isComposing || document.querySelector("dialog[open]");
  if (event.key !== "Escape" || isElsewhere) return;
  if (sidebar.close() || chat.stop()) return;
  if (chat.isEditing) cancelEditing();
}

async function start() {
  installTheme(byId("theme"));
  installSettings();
  byId("open-settings").addEventListener("click", changeSettings);
  byId("export-all").addEventListener("click", () => exportConversations(shelf.conversations));
  document.addEventListener("keydown", onKey);
  models.refresh();
  await shelf.load();
  open(linked() ?? newConversation(lastParameters()));
  addEventListener("hashchange", () => {
    const conversation = linked();
    if (conversation) open(conversation);
  });
}

/** @returns {Conversation | undefined} the one that the address names */
function linked() {
  return shelf.find(location.hash.slice(1));
}

start();
