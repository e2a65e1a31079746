#!/usr/bin/env node
/** The command line: asks one question and prints the answer as it comes. */

import { once } from "node:events";

import { errorLine, parseChat, USAGE, UsageError } from "./arguments.js";
import { openClient } from "./connection.js";
import { HeadraceError } from "./errors.js";

const [DONE, FAILED, MISUSED] = [0, 1, 2];
// As a shell tells the end by a signal.
const [INTERRUPTED, READER_GONE] = [130, 141];

// Such as that of grpc-js, which names IP addresses to TLS: whoever asks cannot change it.
process.noDeprecation = true;
process.exitCode = await main(process.argv.slice(2));
// What was printed may wait for a reader that never takes it, and Node for that.
if (process.exitCode === INTERRUPTED) process.exit();

async function main(words: string[]): Promise<number> {
  const stop = new AbortController();
  process.once("SIGINT", () => stop.abort(INTERRUPTED)); // a second Ctrl-C ends it at once
  process.stdout.once("error", () => stop.abort(READER_GONE)); // as by `| head`
  try {
    await answer(words, stop.signal);
    return DONE;
  } catch (error) {
    if (stop.signal.aborted) return stop.signal.reason;
    if (error instanceof UsageError) {
      process.stderr.write(`error: ${error.message}\n${USAGE}\n`);
      return MISUSED;
    }
    if (!(error instanceof HeadraceError)) throw error;
    process.stderr.write(`${errorLine(error)}\n`);
    return FAILED;
  }
}

async function answer(words: string[], signal: AbortSignal): Promise<void> {
  const asked = parseChat(words, process.env);
  if (asked === undefined) return print(`${USAGE}\n`, signal);
  const client = await openClient(asked);
  try {
    const { prompt, maxTokens, timeoutMs } = asked;
    for await (const piece of client.streamText(prompt, { maxTokens, timeoutMs, signal })) {
      await print(piece, signal);
    }
    await print("\n", signal);
  } finally {
    client.close();
  }
}

async function print(text: string, signal: AbortSignal): Promise<void> {
  if (!process.stdout.write(text)) await once(process.stdout, "drain", { signal });
}
