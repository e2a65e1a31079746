/** A client for pages: gRPC-Web, which a proxy such as Envoy turns into gRPC. */

import { Code, ConnectError, createClient, type Interceptor } from "@connectrpc/connect";
import { createGrpcWebTransport } from "@connectrpc/connect-web";

import {
  BadRequestSchema,
  ErrorInfoSchema,
  RetryInfoSchema,
} from "./gen/google/rpc/error_details_pb.js";
import { InferenceService } from "./gen/headrace/v1/inference_service_pb.js";
import { Role } from "./gen/headrace/v1/prompt_pb.js";

export interface ClientOptions {
  /** Where the proxy is, such as `http://localhost:8080`. */
  server: string;
  /** The key that is sent with each call, where the server asks for one; without https, in plain text. */
  apiKey?: string | undefined;
}

export interface ChatOptions {
  /** Cancels the call. What was waiting for it then throws the signal's reason, as `fetch` does. */
  signal?: AbortSignal | undefined;
  /** Default: the model that the server serves. */
  model?: string | undefined;
  /** The largest number of tokens of the answer. */
  maxTokens?: number | undefined;
  /** The longest time for the whole call. */
  timeoutMs?: number | undefined;
}

/** A call that failed. */
export class HeadraceError extends Error {
  override readonly name = "HeadraceError";
  /** The gRPC status, such as `NOT_FOUND`; `UNAVAILABLE` where the browser could not reach the server. */
  readonly code: string;
  /** As in `ErrorReason` of the contract; unset where the connection or a proxy failed. */
  readonly reason: string | undefined;
  /** The field of the request that is at fault. */
  readonly field: string | undefined;
  /** When to try again, as the server wishes. */
  readonly retryDelayMs: number | undefined;

  constructor(error: ConnectError) {
    super(error.rawMessage, { cause: error });
    const retryDelay = error.findDetails(RetryInfoSchema)[0]?.retryDelay;
    this.code = statusName(isOfNetwork(error) ? Code.Unavailable : error.code);
    this.reason = error.findDetails(ErrorInfoSchema)[0]?.reason;
    this.field = error.findDetails(BadRequestSchema)[0]?.fieldViolations[0]?.field;
    this.retryDelayMs = retryDelay && Number(retryDelay.seconds) * 1000 + retryDelay.nanos / 1e6;
  }
}

export class Client {
  /** The stub, for all other calls. */
  readonly inference;

  /** @throws TypeError if the key cannot be sent. */
  constructor({ server, apiKey }: ClientOptions) {
    const interceptors = apiKey === undefined ? [] : [sendingKey(apiKey)];
    this.inference = createClient(
      InferenceService,
      createGrpcWebTransport({ baseUrl: server, interceptors }),
    );
  }

  /**
   * Answer a question, piece by piece.
   *
   * Leaving the loop early, as by `break`, cancels the call; so does leaving the page.
   *
   * @throws HeadraceError if the call fails.
   */
  async *streamText(prompt: string, options: ChatOptions = {}): AsyncGenerator<string> {
    const { signal, model = "", maxTokens, timeoutMs } = options;
    signal?.throwIfAborted();
    const left = new AbortController();
    const signals = signal ? [signal, left.signal] : [left.signal];
    const responses = this.inference.generate(
      {
        model,
        prompt: { case: "chat", value: { messages: [{ role: Role.USER, content: prompt }] } },
        stopping: maxTokens === undefined ? {} : { maxOutputTokens: maxTokens },
      },
      {
        signal: AbortSignal.any(signals),
        // gRPC has no fractions of it.
        ...(timeoutMs !== undefined && { timeoutMs: Math.ceil(timeoutMs) }),
      },
    );
    try {
      for await (const { deltas } of responses) {
        for (const { text } of deltas) if (text) yield text;
        signal?.throwIfAborted(); // what has come meanwhile is not wanted either
      }
    } catch (error) {
      signal?.throwIfAborted();
      throw error instanceof ConnectError ? new HeadraceError(error) : error;
    } finally {
      left.abort(); // of itself Connect lets a call run on that nobody reads
    }
  }
}

/** Whether the browser tells no more than that: the server is down, gone, or its CORS policy refuses this page. */
export function isOfNetwork(error: unknown): boolean {
  return error instanceof ConnectError && error.cause instanceof TypeError;
}

function statusName(code: Code): string {
  if (code === Code.Canceled) return "CANCELLED";
  return Code[code].replace(/(?<=[a-z])(?=[A-Z])/g, "_").toUpperCase();
}

function sendingKey(apiKey: string): Interceptor {
  if (!/^[!-~]+$/.test(apiKey)) {
    // A browser says so too, with the key in the message.
    throw new TypeError("apiKey must be visible ASCII characters without spaces");
  }
  return (next) => (request) => {
    request.header.set("authorization", `Bearer ${apiKey}`);
    return next(request);
  };
}
