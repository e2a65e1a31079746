/** The client on Connect, over its gRPC transport, with messages by protoc-gen-es. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import { type Client as Stub, createClient } from "@connectrpc/connect";
import {
  createGrpcTransport,
  type GrpcTransportOptions,
  Http2SessionManager,
} from "@connectrpc/connect-node";

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
  readonly #session: Http2SessionManager;
  #isClosed = false;

  constructor(options: ClientOptions & { transport?: TransportOptions } = {}) {
    const baseUrl = `${options.tls ? "https" : "http"}://${addressOf(options.target)}`;
    // A session of our own can be closed; Connect's keeps Node alive while it idles.
    this.#session = new Http2SessionManager(baseUrl, undefined, tlsOptions(options.tls));
    const transport = createGrpcTransport({
      ...options.transport,
      baseUrl,
      sessionManager: this.#session,
      interceptors: [
        ...(options.transport?.interceptors ?? []),
        ...(options.apiKey === undefined ? [] : [sendingKey(options.apiKey)]),
        tellingLoss(() => this.#isClosed),
      ],
    });
    this.inference = createClient(InferenceService, transport);
    this.models = createClient(ModelService, transport);
    this.health = createClient(Health, transport);
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
    request: MessageInitShape<typeof GenerateRequestSchema>,
    { signal, timeoutMs }: CallOptions = {},
  ): AsyncGenerator<GenerateResponse> {
    signal?.throwIfAborted();
    const left = new AbortController();
    const either = signal ? AbortSignal.any([signal, left.signal]) : left.signal;
    try {
      yield* this.inference.generate(request, { signal: either, ...(timeoutMs !== undefined && { timeoutMs }) });
    } catch (error) {
      signal?.throwIfAborted();
      throw toHeadraceError(error);
    } finally {
      left.abort(); // of itself Connect lets a call run on that nobody reads
    }
  }

  close(): void {
    this.#isClosed = true;
    this.#session.abort();
  }

  [Symbol.dispose](): void {
    this.close();
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

function tlsOptions(tls: boolean | Tls = false) {
  if (typeof tls === "boolean") return {};
  const { caCerts: ca, cert, key } = tls;
  return { ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) };
}
