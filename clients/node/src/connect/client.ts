/** The client on Connect, over its gRPC transport, with messages by protoc-gen-es. */

import { createSecureContext } from "node:tls";

import type { MessageInitShape } from "@bufbuild/protobuf";
import { type Client as Stub, createClient } from "@connectrpc/connect";
import { createGrpcTransport, type GrpcTransportOptions } from "@connectrpc/connect-node";

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
import { Health } from "../gen/es/grpc/health/v1/health_pb.js";
import {
  type GenerateRequestSchema,
  type GenerateResponse,
  InferenceService,
} from "../gen/es/headrace/v1/inference_service_pb.js";
import { ModelService } from "../gen/es/headrace/v1/model_service_pb.js";
import { Role } from "../gen/es/headrace/v1/prompt_pb.js";
import { toHeadraceError } from "./errors.js";
import { sendingKey, tellingLoss } from "./interceptors.js";
import { Session } from "./session.js";

export type { CallOptions, ChatOptions, ClientOptions, TextClient, Tls, Turn } from "../client.js";
export { HeadraceError } from "../errors.js";
export * from "../gen/es/headrace/v1/inference_service_pb.js";
export { toHeadraceError } from "./errors.js";

type TransportOptions = Partial<Omit<GrpcTransportOptions, "baseUrl" | "sessionManager">>;

const ROLES = { system: Role.SYSTEM, user: Role.USER, assistant: Role.ASSISTANT };

/** A connection to a server; calls may run side by side on it. */
export class Client implements TextClient {
  /** The stubs, for all other calls; `toHeadraceError` reads their errors. */
  readonly inference: Stub<typeof InferenceService>;
  readonly models: Stub<typeof ModelService>;
  readonly health: Stub<typeof Health>;
  readonly #session: Session;

  constructor(options: ClientOptions & { transport?: TransportOptions } = {}) {
    const baseUrl = `${options.tls ? "https" : "http"}://${addressOf(options.target)}`;
    const pings = { pingIntervalMs: KEEPALIVE.timeMs, pingTimeoutMs: KEEPALIVE.timeoutMs };
    this.#session = new Session(baseUrl, pings, tlsOptions(options.tls));
    const transport = createGrpcTransport({
      ...options.transport,
      baseUrl,
      sessionManager: this.#session,
      interceptors: [
        ...(options.transport?.interceptors ?? []),
        ...(options.apiKey === undefined ? [] : [sendingKey(authorizationOf(options.apiKey))]),
        tellingLoss(() => this.#session.isClosed),
      ],
    });
    this.inference = createClient(InferenceService, transport);
    this.models = createClient(ModelService, transport);
    this.health = createClient(Health, transport);
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
    request: MessageInitShape<typeof GenerateRequestSchema>,
    { signal, timeoutMs }: CallOptions = {},
  ): AsyncGenerator<GenerateResponse> {
    return responsesOf(() => this.#start(request, timeoutMs), signal, toHeadraceError);
  }

  close(): void {
    this.#session.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #start(
    request: MessageInitShape<typeof GenerateRequestSchema>,
    timeoutMs: number | undefined,
  ): StreamingCall<GenerateResponse> {
    const stop = new AbortController();
    const responses = this.inference.generate(request, {
      signal: stop.signal,
      ...(timeoutMs !== undefined && { timeoutMs: boundedTimeoutMs(timeoutMs) }),
    });
    return {
      [Symbol.asyncIterator]: () => responses[Symbol.asyncIterator](),
      cancel: () => stop.abort(),
    };
  }
}

function chatRequest(
  prompt: string | Turn[],
  options: ChatOptions,
): MessageInitShape<typeof GenerateRequestSchema> {
  const messages = turnsOf(prompt).map(({ role, content }) => ({ role: ROLES[role], content }));
  return {
    model: options.model ?? "",
    prompt: { case: "chat", value: { messages } },
    sampling: options.temperature === undefined ? {} : { temperature: options.temperature },
    stopping: options.maxTokens === undefined ? {} : { maxOutputTokens: options.maxTokens },
  };
}

/** Reads the PEM texts, so that a wrong one is told at once and not by each call. */
function tlsOptions(tls: boolean | Tls = false) {
  if (typeof tls === "boolean") return {};
  const { ca, cert, key } = tls;
  return { secureContext: createSecureContext({ ca, cert, key }) };
}
