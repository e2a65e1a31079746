/** The client on @grpc/grpc-js, with messages by ts-proto. */

import {
  type ChannelCredentials,
  type ChannelOptions,
  credentials,
  type InterceptingCall,
  Metadata,
  status,
} from "@grpc/grpc-js";

import { responsesOf, type StreamingCall, textsOf } from "../calls.js";
import {
  addressOf,
  authorizationOf,
  boundedTimeoutMs,
  type CallOptions,
  type ChatOptions,
  type ClientOptions,
  KEEPALIVE,
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
import { sendingKey, tracking } from "./interceptors.js";

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
  readonly #running = new Set<InterceptingCall>();

  constructor(options: ClientOptions & { channel?: ChannelOptions } = {}) {
    const address = addressOf(options.target);
    const interceptors = [
      tracking(this.#running),
      ...(options.apiKey === undefined ? [] : [sendingKey(authorizationOf(options.apiKey))]),
    ];
    const channelCredentials = credentialsOf(options.tls);
    this.inference = new InferenceServiceClient(address, channelCredentials, {
      "grpc.keepalive_time_ms": KEEPALIVE.timeMs,
      "grpc.keepalive_timeout_ms": KEEPALIVE.timeoutMs,
      ...options.channel,
      interceptors,
    });
    const shared = { channelOverride: this.inference.getChannel(), interceptors };
    this.models = new ModelServiceClient(address, channelCredentials, shared);
    this.health = new HealthClient(address, channelCredentials, shared);
  }

  streamText(prompt: string | Turn[], options: ChatOptions = {}): AsyncGenerator<string> {
    return textsOf(this.generate(chatRequest(prompt, options), options));
  }

  /**
   * Continue a prompt and read the responses as they come; see `Generate` of the contract.
   *
   * Leaving the loop early, as by `break`, cancels the call.
   *
   * @throws HeadraceError if the call fails.
   */
  generate(
    request: Parameters<typeof GenerateRequest.fromPartial>[0],
    { signal, timeoutMs }: CallOptions = {},
  ): AsyncGenerator<GenerateResponse> {
    return responsesOf(() => this.#start(request, timeoutMs), signal, toHeadraceError);
  }

  close(): void {
    for (const call of this.#running) {
      call.cancelWithStatus(status.CANCELLED, "The client is closed.");
    }
    this.inference.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #start(
    request: Parameters<typeof GenerateRequest.fromPartial>[0],
    timeoutMs: number | undefined,
  ): StreamingCall<GenerateResponse> {
    const call = this.inference.generate(
      GenerateRequest.fromPartial(request),
      new Metadata(),
      timeoutMs === undefined ? {} : { deadline: Date.now() + boundedTimeoutMs(timeoutMs) },
    );
    // Who reads it is thrown what fails; a call that was left has nobody else to tell.
    call.on("error", () => {});
    return call as StreamingCall<GenerateResponse>;
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
  const { ca, key, cert } = tls === true ? {} : tls;
  return credentials.createSsl(bytesOf(ca), bytesOf(key), bytesOf(cert));
}

function bytesOf(pem: string | Buffer | undefined): Buffer | null {
  return typeof pem === "string" ? Buffer.from(pem) : (pem ?? null);
}
