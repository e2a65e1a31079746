/** A server of the contract in this process, whose answers a test writes. */

import { once } from "node:events";

import {
  Metadata,
  Server,
  ServerCredentials,
  type ServerWritableStream,
  type StatusObject,
} from "@grpc/grpc-js";

import {
  type GenerateRequest,
  GenerateResponse,
  InferenceServiceService,
} from "../src/gen/grpc-js/headrace/v1/inference_service.js";

export type Call = ServerWritableStream<GenerateRequest, GenerateResponse>;

export interface RunningServer {
  target: string;
  calls: Call[];
  stop(): void;
}

/** Serve Generate on a free port of this machine. */
export async function serve(answer: (call: Call) => void): Promise<RunningServer> {
  const calls: Call[] = [];
  const unimplemented = () => {
    throw new Error("no test calls it");
  };
  const server = new Server();
  server.addService(InferenceServiceService, {
    generate(call: Call) {
      calls.push(call);
      answer(call);
    },
    tokenize: unimplemented,
    detokenize: unimplemented,
  });
  const port = await new Promise<number>((resolve, reject) => {
    const credentials = ServerCredentials.createInsecure();
    server.bindAsync("127.0.0.1:0", credentials, (error, bound) =>
      error ? reject(error) : resolve(bound),
    );
  });
  return { target: `127.0.0.1:${port}`, calls, stop: () => server.forceShutdown() };
}

/** A piece of an answer. */
export function piece(text: string): GenerateResponse {
  return GenerateResponse.fromPartial({ deltas: [{ text }] });
}

/** Wait until a call is cancelled. */
export async function cancelled(call: Call): Promise<void> {
  if (!call.cancelled) await once(call, "cancelled");
}

/** End a call with an error. */
export function fail(
  call: Call,
  status: Pick<StatusObject, "code" | "details">,
  packed: Uint8Array,
) {
  const metadata = new Metadata();
  metadata.set("grpc-status-details-bin", Buffer.from(packed));
  call.emit("error", { ...status, metadata });
}
