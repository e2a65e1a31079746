/** Makes calls with Connect over its gRPC transport. */

import { setTimeout as pause } from "node:timers/promises";

import { fromJson, type Message, toJson } from "@bufbuild/protobuf";
import {
  type CallOptions,
  ConnectError,
  createContextKey,
  createContextValues,
  type Interceptor,
} from "@connectrpc/connect";
import { compressionGzip } from "@connectrpc/connect-node";

import type { ClientOptions } from "../src/client.js";
import { Client } from "../src/connect/client.js";
import { toHeadraceError } from "../src/connect/errors.js";
import { HeadraceError } from "../src/errors.js";
import { methodOf } from "./methods.js";
import type { Call, Caller, Outcome } from "./scenario.js";

type Stub = Record<
  string,
  (request: Message, options: CallOptions) => Promise<Message> | AsyncIterable<Message>
>;

/** The metadata of one call, also where it ends with an error. */
interface Seen {
  headers: Headers;
  trailers: Headers;
}

const SEEN = createContextKey<Seen | undefined>(undefined);

const seeing: Interceptor = (next) => async (request) => {
  const response = await next(request);
  const seen = request.contextValues.get(SEEN);
  if (seen) Object.assign(seen, { headers: response.header, trailers: response.trailer });
  return response;
};

export class ConnectCaller implements Caller {
  readonly #client: Client;

  constructor(options: ClientOptions, compressed: boolean) {
    this.#client = new Client({
      ...options,
      transport: {
        interceptors: [seeing],
        ...(compressed && { sendCompression: compressionGzip, compressMinBytes: 0 }),
      },
    });
  }

  async call(call: Call): Promise<Outcome> {
    const method = methodOf(call.method);
    const cancelling = new AbortController();
    const seen: Seen = { headers: new Headers(), trailers: new Headers() };
    const responses: Message[] = [];
    let error: unknown;
    try {
      const answer = this.#stub(method.parent.name)[method.localName]?.(
        fromJson(method.input, call.request),
        callOptions(call, seen, cancelling),
      );
      await read(answer, call, cancelling, responses);
    } catch (caught) {
      error = caught;
    }
    return {
      ...statusOf(error, seen),
      headers: textOf(seen.headers),
      responses: responses.map((response) => toJson(method.output, response)),
    };
  }

  close(): void {
    this.#client.close();
  }

  #stub(service: string): Stub {
    const { inference, models, health } = this.#client;
    const stubs = { InferenceService: inference, ModelService: models, Health: health };
    // The methods differ in their types, which a scenario cannot know.
    return stubs[service as keyof typeof stubs] as unknown as Stub;
  }
}

function callOptions(call: Call, seen: Seen, cancelling: AbortController): CallOptions {
  return {
    headers: call.metadata,
    signal: cancelling.signal,
    contextValues: createContextValues().set(SEEN, seen),
    onHeader: () => {
      if (call.cancel === "after_headers") cancelling.abort();
    },
    ...(call.timeoutMs !== undefined && { timeoutMs: call.timeoutMs }),
  };
}

async function read(
  answer: Promise<Message> | AsyncIterable<Message> | undefined,
  call: Call,
  cancelling: AbortController,
  responses: Message[],
): Promise<void> {
  if (answer === undefined || answer instanceof Promise) {
    if (answer) responses.push(await answer);
    return;
  }
  for await (const response of answer) {
    responses.push(response);
    if (call.cancel === "after_first_message") cancelling.abort();
    if (call.readPauseMs) await pause(call.readPauseMs);
  }
}

function statusOf(error: unknown, seen: Seen): Omit<Outcome, "headers" | "responses"> {
  if (error === undefined) {
    return { code: "OK", message: "", details: {}, trailers: textOf(seen.trailers) };
  }
  const own = toHeadraceError(error);
  if (!(own instanceof HeadraceError && error instanceof ConnectError)) throw error;
  // Of a call that failed before a response, Connect tells headers and trailers in one.
  const trailers = [...seen.trailers].length > 0 ? seen.trailers : error.metadata;
  return { code: own.code, message: own.message, details: own, trailers: textOf(trailers) };
}

function textOf(headers: Headers): Record<string, string> {
  return Object.fromEntries([...headers].filter(([key]) => !key.endsWith("-bin")));
}
