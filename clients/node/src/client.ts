/** What both clients have in common, whichever library is below them. */

/** The server to talk to, and how. */
export interface ClientOptions {
  /** `host:port`, or `host` with port 1920. Default: `localhost:1920`. */
  target?: string | undefined;
  /** The key that is sent with each call, where the server asks for one. */
  apiKey?: string | undefined;
  /** `true` for TLS with the roots that Node trusts, or files of your own. Default: no TLS. */
  tls?: boolean | Tls | undefined;
}

/** PEM texts for TLS. */
export interface Tls {
  /** The certificates by which the server is trusted, instead of Node's. */
  caCerts?: Buffer | undefined;
  /** The certificate and the key of this client, where the server asks for one. */
  cert?: Buffer | undefined;
  key?: Buffer | undefined;
}

/** The bounds of one call. */
export interface CallOptions {
  /** Cancels the call. What was waiting for it then throws the signal's reason, as `fetch` does. */
  signal?: AbortSignal | undefined;
  /** The longest time for the whole call. */
  timeoutMs?: number | undefined;
}

/** The wishes for an answer; `client.generate` has all that the contract offers. */
export interface ChatOptions extends CallOptions {
  /** Default: the model that the server serves. */
  model?: string | undefined;
  /** The largest number of tokens of the answer. */
  maxTokens?: number | undefined;
  /** From 0 to 2; 0 always takes the most likely token. */
  temperature?: number | undefined;
}

/** One turn of a conversation. */
export interface Turn {
  role: "system" | "user" | "assistant";
  content: string;
}

/** A client that streams answers. Both `Client` classes are one. */
export interface TextClient {
  /**
   * Answer a question or a conversation, piece by piece.
   *
   * Leaving the loop early, as by `break`, cancels the call.
   *
   * @throws HeadraceError if the call fails.
   */
  streamText(prompt: string | Turn[], options?: ChatOptions): AsyncIterable<string>;
  /** Close the connection; what is running ends. Until then Node does not exit. */
  close(): void;
}

const DEFAULT_TARGET = "localhost:1920";
const DEFAULT_PORT = 1920;

/** The address with its port. */
export function addressOf(target: string = DEFAULT_TARGET): string {
  return /:\d+$/.test(target) ? target : `${target}:${DEFAULT_PORT}`;
}

/** The conversation that a prompt is. */
export function turnsOf(prompt: string | Turn[]): Turn[] {
  return typeof prompt === "string" ? [{ role: "user", content: prompt }] : prompt;
}
