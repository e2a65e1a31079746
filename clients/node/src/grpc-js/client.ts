/** The client on @grpc/grpc-js, with messages by ts-proto. */

import {
  type ChannelCredentials,
  type ChannelOptions,
  type ClientReadableStream,
  credentials,
  InterceptingCall,
  type Interceptor,
  Metadata,
} from "@grpc/grpc-js";

import {
  addressOf,
  type CallOptions,
  type ChatOptions,
  type ClientOptions,
  type TextClient,
  type Tls,
  type Turn,
  turnsOf,
} from "../client.js";
import { HealthClient } from "../gen/grpc-js/grpc/health/v1/health.js";
import {
  GenerateRequest,
  type GenerateResponse,
  InferenceServiceClient,
} from "../gen/grpc-js/headrace/v1/inference_service.js";
import { ModelServiceClient } from "../gen/grpc-js/headrace/v1/model_service.js";
import { Role } from "../gen/grpc-js/headrace/v1/prompt.js";
import { toHeadraceError } from "./errors.js";

export type { CallOptions, ChatOptions, ClientOptions, TextClient, Tls, Turn } from "../client.js";
export { HeadraceError } from "../errors.js";
export * from "../gen/grpc-js/headrace/v1/inference_service.js";
export { toHeadraceError } from "./errors.js";

const ROLES = {
  system: Role.ROLE_SYSTEM,
  user: Role.ROLE_USER,
  assistant: Role.ROLE_ASSISTANT,
};

/** A connection to a server; calls may run side by side on it. */
export class Client implements TextClient {
  /** The stubs, for all other calls; `toHeadraceError` reads their errors. */
  readonly inference: InferenceServiceClient;
  readonly models: ModelServiceClient;
  readonly health: HealthClient;
  readonly #running = new Set<ClientReadableStream<GenerateResponse>>();

  constructor(options: ClientOptions & { channel?: ChannelOptions } = {}) {
    const address = addressOf(options.target);
    const interceptors = options.apiKey === undefined ? [] : [sendingKey(options.apiKey)];
    const channelCredentials = credentialsOf(options.tls);
    this.inference = new InferenceServiceClient(address, channelCredentials, {
      ...options.channel,
      interceptors,
    });
    const shared = { channelOverride: this.inference.getChannel(), interceptors };
    this.models = new ModelServiceClient(address, channelCredentials, shared);
    this.health = new HealthClient(address, channelCredentials, shared);
  }

  async *streamText(prompt: string | Turn[], options: ChatOptions = {}): AsyncGenerator<string> {
    for await (const response of this.generate(chatRequest(prompt, options), options)) {
      for (const { text } of response.deltas) if (text) yield text;
    }
  }

  /**
   * Continue a prompt and read the responses as they come; see `Generate` of the contract.
   *
   * Leaving the loop early, as by `break`, cancels the call.
   *
   * @throws HeadraceError if the call fails.
   */
  async *generate(
    request: Parameters<typeof GenerateRequest.fromPartial>[0],
    { signal, timeoutMs }: CallOptions = {},
  ): AsyncGenerator<GenerateResponse> {
    signal?.throwIfAborted();
    const deadline = timeoutMs === undefined ? undefined : Date.now() + timeoutMs;
    const call = this.inference.generate(
      GenerateRequest.fromPartial(request),
      new Metadata(),
      deadline === undefined ? {} : { deadline },
    );
    // The loop below throws what fails; a call that it has left has nobody else to tell.
    call.on("error", () => {});
    const cancel = () => call.cancel();
    signal?.addEventListener("abort", cancel);
    this.#running.add(call);
    try {
      yield* call as AsyncIterable<GenerateResponse>;
    } catch (error) {
      signal?.throwIfAborted();
      throw toHeadraceError(error);
    } finally {
      signal?.removeEventListener("abort", cancel);
      this.#running.delete(call);
      call.cancel(); // of itself grpc-js lets a call run on that nobody reads
    }
  }

  close(): void {
    for (const call of this.#running) call.cancel(); // which a channel that closes does not
    this.inference.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

function chatRequest(prompt: string | Turn[], options: ChatOptions) {
  const messages = turnsOf(prompt).map(({ role, content }) => ({ role: ROLES[role], content }));
  return {
    model: options.model ?? "",
    prompt: { $case: "chat" as const, value: { messages } },
    sampling: { temperature: options.temperature },
    stopping: { maxOutputTokens: options.maxTokens },
  };
}

/** The credentials of a channel; @grpc/grpc-js says it if a PEM text is wrong. */
function credentialsOf(tls: boolean | Tls = false): ChannelCredentials {
  if (tls === false) return credentials.createInsecure();
  const { caCerts = null, key = null, cert = null } = tls === true ? {} : tls;
  return credentials.createSsl(caCerts, key, cert);
}

// Not call credentials, which grpc-js refuses to send without TLS, as to a server on this machine.
function sendingKey(apiKey: string): Interceptor {
  return (options, nextCall) =>
    new InterceptingCall(nextCall(options), {
      start(metadata, listener, next) {
        metadata.set("authorization", `Bearer ${apiKey}`);
        next(metadata, listener);
      },
    });
}
