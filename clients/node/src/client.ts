/** What both clients have in common, whichever library is below them. */

/** The server to talk to, and how. */
export interface ClientOptions {
  /** `host:port`, or `host` with port 1920. Default: `localhost:1920`. */
  target?: string | undefined;
  /** The key that is sent with each call, where the server asks for one; without TLS, in plain text. */
  apiKey?: string | undefined;
  /** `true` for TLS with the roots that Node trusts, or PEM texts of your own. Default: no TLS. */
  tls?: boolean | Tls | undefined;
}

/** PEM texts for TLS, named as in `node:tls`. */
export interface Tls {
  /** The certificates by which the server is trusted, instead of Node's. */
  ca?: string | Buffer | undefined;
  /** The certificate and the key of this client, where the server asks for one. */
  cert?: string | Buffer | undefined;
  key?: string | Buffer | undefined;
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
export interface TextClient extends Disposable {
  /**
   * Answer a question or a conversation, piece by piece.
   *
   * Leaving the loop early, as by `break`, cancels the call.
   *
   * @throws HeadraceError if the call fails.
   */
  streamText(prompt: string | Turn[], options?: ChatOptions): AsyncIterable<string>;
  /** Close the connection for good; what is running ends. Until then Node may not exit. */
  close(): void;
}

const DEFAULT_TARGET = "localhost:1920";
const DEFAULT_PORT = 1920;
// What timers and `grpc-timeout` can hold: from 1 ms to 24 days.
const [SHORTEST_MS, LONGEST_MS] = [1, 2 ** 31 - 1];

/** When a silent connection with calls is asked for a sign of life, and when it is given up then. */
export const KEEPALIVE = { timeMs: 30_000, timeoutMs: 10_000 };

/**
 * The address with its port.
 *
 * @throws TypeError if it is none.
 */
export function addressOf(target: string = DEFAULT_TARGET): string {
  const [, host, port = `:${DEFAULT_PORT}`] =
    /^([^[\]:/\s]+|\[[^\]/\s]+\])(:\d+)?$/.exec(target) ?? [];
  if (host === undefined) throw new TypeError(`target must be host:port, not ${target}`);
  return host + port;
}

/**
 * The metadata by which a key is sent.
 *
 * @throws TypeError if it cannot be. The libraries say so too, with the key in the message.
 */
export function authorizationOf(apiKey: string): string {
  if (!/^[!-~]+$/.test(apiKey)) {
    throw new TypeError("apiKey must be visible ASCII characters without spaces");
  }
  return `Bearer ${apiKey}`;
}

/** The timeout that both libraries understand alike. */
export function boundedTimeoutMs(timeoutMs: number): number {
  return Math.min(Math.max(Math.ceil(timeoutMs), SHORTEST_MS), LONGEST_MS);
}

/** The conversation that a prompt is. */
export function turnsOf(prompt: string | Turn[]): Turn[] {
  return typeof prompt === "string" ? [{ role: "user", content: prompt }] : prompt;
}
