/** Opens the client that a command line asks for. */

import { readFileSync } from "node:fs";

import { type ConnectionArguments, UsageError } from "./arguments.js";
import type { ClientOptions, TextClient } from "./client.js";

/**
 * Connect with the library of `--transport`; the other one is not even loaded.
 *
 * @throws UsageError if the address, the key or a file is not what it should be.
 */
export async function openClient(connection: ConnectionArguments): Promise<TextClient> {
  const { Client } =
    connection.transport === "connect"
      ? await import("./connect/client.js")
      : await import("./grpc-js/client.js");
  return orMisuse(() => new Client(clientOptions(connection)));
}

/**
 * Read the files that the flags name.
 *
 * @throws UsageError if one cannot be read.
 */
export function clientOptions(connection: ConnectionArguments): ClientOptions {
  const { target, apiKey, tls } = connection;
  if (!tls) return { target, apiKey };
  const [ca, cert, key] = [connection.caCerts, connection.certfile, connection.keyfile].map(
    (file) => (file === undefined ? undefined : orMisuse(() => readFileSync(file))),
  );
  return { target, apiKey, tls: { ca, cert, key } };
}

function orMisuse<Made>(make: () => Made): Made {
  try {
    return make();
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}
