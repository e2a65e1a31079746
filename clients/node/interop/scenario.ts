/** What stands in the lines of the runner. */

import type { JsonObject, JsonValue } from "@bufbuild/protobuf";

import type { ErrorDetails, StatusName } from "../src/errors.js";

/** A line of stdin: one call, or several side by side. */
export interface Scenario {
  id: string;
  method: string;
  request?: JsonObject;
  /** In place of `request` and `count`, where the calls differ. */
  requests?: JsonObject[];
  count?: number;
  metadata?: Record<string, string>;
  timeout_ms?: number;
  /** In place of the one of the command line; null sends none. */
  api_key?: string | null;
  compression?: "gzip";
  cancel?: "after_headers" | "after_first_message";
  read_pause_ms?: number;
}

/** One call, ready to be made. */
export interface Call {
  method: string;
  request: JsonObject;
  metadata: Record<string, string>;
  timeoutMs: number | undefined;
  cancel: Scenario["cancel"];
  readPauseMs: number;
}

/** What was seen of a call. */
export interface Outcome {
  code: StatusName;
  message: string;
  details: ErrorDetails;
  headers: Record<string, string>;
  trailers: Record<string, string>;
  responses: JsonValue[];
}

/** Makes calls with one of the libraries, on one connection of its own. */
export interface Caller {
  call(call: Call): Promise<Outcome>;
  close(): void;
}

/** The calls of a scenario. */
export function callsOf(scenario: Scenario, defaultKey: string | undefined): Call[] {
  const key = scenario.api_key === undefined ? defaultKey : scenario.api_key;
  const requests =
    scenario.requests ?? Array<JsonObject>(scenario.count ?? 1).fill(scenario.request ?? {});
  return requests.map((request) => ({
    method: scenario.method,
    request,
    metadata: { ...scenario.metadata, ...(key && { authorization: `Bearer ${key}` }) },
    timeoutMs: scenario.timeout_ms,
    cancel: scenario.cancel,
    readPauseMs: scenario.read_pause_ms ?? 0,
  }));
}
