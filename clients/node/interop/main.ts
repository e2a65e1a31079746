/** The runner: makes calls as the lines of stdin say, and tells on stdout what it saw. */

import { createInterface } from "node:readline";

import { type ConnectionArguments, parseConnection } from "../src/arguments.js";
import { clientOptions } from "../src/connection.js";
import { ConnectCaller } from "./connect.js";
import { GrpcJsCaller } from "./grpc-js.js";
import { type Call, type Caller, callsOf, type Outcome, type Scenario } from "./scenario.js";

const CALLERS = { "grpc-js": GrpcJsCaller, connect: ConnectCaller };

const given = parseConnection(process.argv.slice(2), {});
const caller = open(given, false);
for await (const line of createInterface({ input: process.stdin })) {
  const scenario = JSON.parse(line) as Scenario;
  const calls = await run(scenario);
  process.stdout.write(`${JSON.stringify({ id: scenario.id, calls })}\n`);
}
caller.close();

function open(connection: ConnectionArguments, compressed: boolean): Caller {
  // Without the key: a scenario may have another one, or none.
  const options = clientOptions({ ...connection, apiKey: undefined });
  return new CALLERS[connection.transport](options, compressed);
}

async function run(scenario: Scenario) {
  const calls = callsOf(scenario, given.apiKey);
  if (scenario.compression === undefined)
    return Promise.all(calls.map((call) => make(caller, call)));
  // In both libraries compression is an option of the connection, not of a call.
  const compressing = open(given, true);
  try {
    return await Promise.all(calls.map((call) => make(compressing, call)));
  } finally {
    compressing.close();
  }
}

async function make(on: Caller, call: Call) {
  const began = performance.now();
  const outcome = await on.call(call);
  return { ...told(outcome), elapsed_ms: performance.now() - began };
}

function told({ code, message, details, headers, trailers, responses }: Outcome) {
  return {
    code,
    message,
    reason: details.reason ?? null,
    field: details.field ?? null,
    retry_delay_ms: details.retryDelayMs ?? null,
    headers,
    trailers,
    responses,
  };
}
