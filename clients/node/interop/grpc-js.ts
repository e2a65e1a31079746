/** Makes calls with @grpc/grpc-js and the messages of ts-proto. */

import { setTimeout as pause } from "node:timers/promises";

import { fromBinary, fromJson, toBinary, toJson } from "@bufbuild/protobuf";
import {
  type CallOptions,
  type ClientReadableStream,
  type ClientUnaryCall,
  compressionAlgorithms,
  Metadata,
  type MethodDefinition,
  type StatusObject,
} from "@grpc/grpc-js";

import type { ClientOptions } from "../src/client.js";
import { statusName } from "../src/errors.js";
import { HealthService } from "../src/gen/grpc-js/grpc/health/v1/health.js";
import { InferenceServiceService } from "../src/gen/grpc-js/headrace/v1/inference_service.js";
import { ModelServiceService } from "../src/gen/grpc-js/headrace/v1/model_service.js";
import { Client } from "../src/grpc-js/client.js";
import { readDetails } from "../src/grpc-js/errors.js";
import { methodOf } from "./methods.js";
import type { Call, Caller, Outcome } from "./scenario.js";

// The types of all methods differ; what is common to them is that bytes go in and out.
type Definition = MethodDefinition<unknown, unknown>;
type Started = ClientUnaryCall | ClientReadableStream<unknown>;

const DEFINITIONS = new Map(
  [InferenceServiceService, ModelServiceService, HealthService]
    .flatMap((service) => Object.values(service))
    .map((definition) => [definition.path, definition as unknown as Definition]),
);

export class GrpcJsCaller implements Caller {
  readonly #client: Client;

  /** @param compressed whether requests are sent with gzip: an option of a whole channel. */
  constructor(options: ClientOptions, compressed: boolean) {
    this.#client = new Client({
      ...options,
      channel: {
        "grpc.enable_retries": 0,
        ...(compressed && {
          "grpc.default_compression_algorithm": compressionAlgorithms.gzip,
        }),
      },
    });
  }

  async call(call: Call): Promise<Outcome> {
    const method = methodOf(call.method);
    const path = `/${method.parent.typeName}/${method.name}`;
    const definition = DEFINITIONS.get(path);
    if (definition === undefined) throw new Error(`there is no definition of ${path}`);
    const request = toBinary(method.input, fromJson(method.input, call.request));
    const seen = await this.#make(
      definition,
      definition.requestDeserialize(Buffer.from(request)),
      call,
    );
    return {
      ...statusOf(seen.status),
      headers: textOf(seen.headers),
      responses: seen.responses.map((response) => {
        const bytes = definition.responseSerialize(response);
        return toJson(method.output, fromBinary(method.output, bytes));
      }),
    };
  }

  async #make(definition: Definition, request: unknown, call: Call) {
    const responses: unknown[] = [];
    const metadata = new Metadata();
    for (const [key, value] of Object.entries(call.metadata)) metadata.set(key, value);
    const options: CallOptions =
      call.timeoutMs === undefined ? {} : { deadline: Date.now() + call.timeoutMs };
    const given = [
      definition.path,
      definition.requestSerialize,
      definition.responseDeserialize,
      request,
      metadata,
      options,
    ] as const;
    const stubs = this.#client.inference;
    if (!definition.responseStream) {
      const started = stubs.makeUnaryRequest(...given, (_, response) => {
        if (response !== undefined) responses.push(response);
      });
      return { ...(await watch(started, call)), responses };
    }
    const started = stubs.makeServerStreamRequest(...given);
    const watched = watch(started, call);
    await read(started, call, responses);
    return { ...(await watched), responses };
  }

  close(): void {
    this.#client.close();
  }
}

/** Wait for the status of a call; cancel it at its headers if that is asked for. */
function watch(started: Started, call: Call): Promise<{ headers: Metadata; status: StatusObject }> {
  return new Promise((resolve) => {
    let headers = new Metadata();
    started.on("metadata", (metadata: Metadata) => {
      headers = metadata;
      if (call.cancel === "after_headers") started.cancel();
    });
    started.on("status", (status: StatusObject) => resolve({ headers, status }));
  });
}

async function read(
  started: ClientReadableStream<unknown>,
  call: Call,
  responses: unknown[],
): Promise<void> {
  try {
    for await (const response of started) {
      responses.push(response);
      if (call.cancel === "after_first_message") started.cancel();
      if (call.readPauseMs) await pause(call.readPauseMs);
    }
  } catch {
    // The status says it.
  }
}

function statusOf(status: StatusObject): Omit<Outcome, "headers" | "responses"> {
  const [packed] = status.metadata.get("grpc-status-details-bin");
  return {
    code: statusName(status.code),
    message: status.details,
    details: Buffer.isBuffer(packed) ? readDetails(packed) : {},
    trailers: textOf(status.metadata),
  };
}

function textOf(metadata: Metadata): Record<string, string> {
  const keys = Object.keys(metadata.getMap()).filter((key) => !key.endsWith("-bin"));
  return Object.fromEntries(keys.map((key) => [key, metadata.get(key).join(", ")]));
}
