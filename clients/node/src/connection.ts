/** Opens the client that a command line asks for. */

import { readFileSync } from "node:fs";

import { type ConnectionArguments, UsageError } from "./arguments.js";
import type { ClientOptions, TextClient } from "./client.js";

/** Connect with the library of `--transport`; the other one is not even loaded. */
export async function openClient(connection: ConnectionArguments): Promise<TextClient> {
  const { Client } =
    connection.transport === "connect"
      ? await import("./connect/client.js")
      : await import("./grpc-js/client.js");
  return new Client(clientOptions(connection));
}

/**
 * Read the files that the flags name.
 *
 * @throws UsageError if one cannot be read.
 */
export function clientOptions(connection: ConnectionArguments): ClientOptions {
  const { target, apiKey, tls } = connection;
  if (!tls) return { target, apiKey };
  const [caCerts, cert, key] = [connection.caCerts, connection.certfile, connection.keyfile].map(
    (file) => (file === undefined ? undefined : read(file)),
  );
  return { target, apiKey, tls: { caCerts, cert, key } };
}

function read(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}
