/** The page: asks, shows the answer as it comes, and stops it. */

import { Client, HeadraceError, isOfNetwork } from "./headrace.js";

const form = find("form", HTMLFormElement);
const server = find("#server", HTMLInputElement);
const apiKey = find("#api-key", HTMLInputElement);
const model = find("#model", HTMLInputElement);
const prompt = find("#prompt", HTMLTextAreaElement);
const ask = find("#ask", HTMLButtonElement);
const stop = find("#stop", HTMLButtonElement);
const answer = find("#answer", HTMLElement);
const state = find("#state", HTMLElement);
const problem = find("#problem", HTMLElement);

let running = new AbortController();

server.value = new URLSearchParams(location.search).get("server") ?? server.value;
form.addEventListener("submit", (event) => {
  event.preventDefault();
  void show();
});
stop.addEventListener("click", () => running.abort());

async function show(): Promise<void> {
  running = new AbortController();
  begin();
  try {
    const client = new Client({ server: server.value, apiKey: apiKey.value || undefined });
    const options = { signal: running.signal, model: model.value };
    for await (const text of client.streamText(prompt.value, options)) answer.append(text);
    end("Done.");
  } catch (error) {
    if (running.signal.aborted) return end("Stopped.");
    end("");
    problem.textContent = describe(error);
  }
}

function begin(): void {
  answer.replaceChildren();
  problem.textContent = "";
  state.textContent = "Answering…";
  stop.disabled = false;
  swap(ask, stop);
}

function end(how: string): void {
  state.textContent = how;
  ask.disabled = false;
  swap(stop, ask);
}

/** Disable a button; the focus, which would be lost, goes to the other one. */
function swap(from: HTMLButtonElement, to: HTMLButtonElement): void {
  if (document.activeElement === from) to.focus();
  from.disabled = true;
}

function describe(error: unknown): string {
  if (!(error instanceof HeadraceError)) return String(error);
  if (isOfNetwork(error.cause)) {
    return answer.hasChildNodes()
      ? `The connection to ${server.value} was lost amid the answer.`
      : `${server.value} cannot be reached, or does not let pages of ${location.origin} call.`;
  }
  const { reason, code, message, retryDelayMs } = error;
  const retry = retryDelayMs === undefined ? "" : ` Try again in ${retryDelayMs / 1000} s.`;
  return `${reason ?? code}: ${message}${retry}`;
}

function find<Kind extends HTMLElement>(selector: string, kind: new () => Kind): Kind {
  const element = document.querySelector(selector);
  if (!(element instanceof kind)) throw new Error(`the page has no ${selector}`);
  return element;
}
