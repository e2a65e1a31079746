/** The command line → what it asks for; pure. */

import { parseArgs } from "node:util";

import type { HeadraceError } from "./errors.js";

export const USAGE = `usage: headrace-node [flags] PROMPT

Answer PROMPT and print the text as it comes.

  --target HOST:PORT     the gRPC server (default: localhost:1920)
  --transport LIBRARY    grpc-js or connect (default: grpc-js)
  --tls                  encrypt, with the roots that Node trusts
  --ca-certs FILE        encrypt, with these roots in PEM
  --certfile FILE        encrypt, with this certificate of the client's own
  --keyfile FILE         its key
  --api-key KEY          the key to send (default: the first of HEADRACE_API_KEY)
  --max-tokens N         the largest number of tokens of the answer
  --timeout SECONDS      the longest time for the whole call
  --help                 show this text`;

export const TRANSPORTS = ["grpc-js", "connect"] as const;
export type TransportName = (typeof TRANSPORTS)[number];

/** Where a server is, and the files and the key by which it is reached. */
export interface ConnectionArguments {
  target: string | undefined;
  transport: TransportName;
  apiKey: string | undefined;
  /** Whether to encrypt, as files imply. */
  tls: boolean;
  caCerts: string | undefined;
  certfile: string | undefined;
  keyfile: string | undefined;
}

/** What the command line asks for. */
export interface ChatArguments extends ConnectionArguments {
  prompt: string;
  maxTokens: number | undefined;
  timeoutMs: number | undefined;
}

/** The command line cannot be understood. */
export class UsageError extends Error {}

const CONNECTION_FLAGS = {
  target: { type: "string" },
  transport: { type: "string", default: "grpc-js" },
  tls: { type: "boolean", default: false },
  "ca-certs": { type: "string" },
  certfile: { type: "string" },
  keyfile: { type: "string" },
  "api-key": { type: "string" },
} as const;

const CHAT_FLAGS = {
  ...CONNECTION_FLAGS,
  "max-tokens": { type: "string" },
  timeout: { type: "string" },
  help: { type: "boolean", default: false },
} as const;

/**
 * Read the flags of the client; undefined where only help is asked for.
 *
 * @throws UsageError if they cannot be understood.
 */
export function parseChat(
  words: string[],
  variables: NodeJS.ProcessEnv,
): ChatArguments | undefined {
  const { values, positionals } = parse(() =>
    parseArgs({ args: words, options: CHAT_FLAGS, allowPositionals: true }),
  );
  if (values.help) return undefined;
  const [prompt, ...more] = positionals;
  if (prompt === undefined || more.length > 0) {
    throw new UsageError(`there must be one PROMPT, and there are ${positionals.length}`);
  }
  const seconds = numberOf("--timeout", values.timeout, /^\d+(\.\d+)?$/, "a number of seconds");
  return {
    ...connectionOf(values, variables),
    prompt,
    maxTokens: numberOf("--max-tokens", values["max-tokens"], /^\d+$/, "a whole number"),
    timeoutMs: seconds && seconds * 1000,
  };
}

/**
 * Read the flags of a program that only connects.
 *
 * @throws UsageError if they cannot be understood.
 */
export function parseConnection(
  words: string[],
  variables: NodeJS.ProcessEnv,
): ConnectionArguments {
  const { values } = parse(() => parseArgs({ args: words, options: CONNECTION_FLAGS }));
  return connectionOf(values, variables);
}

/** The line that tells a person about an error; what TLS says may be several. */
export function errorLine(error: HeadraceError): string {
  const { code, reason, message, retryDelayMs } = error;
  const retry =
    retryDelayMs === undefined ? "" : `; retry in ${(retryDelayMs / 1000).toFixed(1)} s`;
  return `error: ${reason ?? code}: ${message.trim().replace(/\s+/g, " ")}${retry}`;
}

type ConnectionValues = ReturnType<
  typeof parseArgs<{ options: typeof CONNECTION_FLAGS }>
>["values"];

function connectionOf(values: ConnectionValues, variables: NodeJS.ProcessEnv): ConnectionArguments {
  const transport = TRANSPORTS.find((name) => name === values.transport);
  if (transport === undefined) {
    throw new UsageError(`--transport must be ${TRANSPORTS.join(" or ")}`);
  }
  const { certfile, keyfile } = values;
  if ((certfile === undefined) !== (keyfile === undefined)) {
    throw new UsageError("--certfile and --keyfile need each other");
  }
  const caCerts = values["ca-certs"];
  return {
    target: values.target,
    transport,
    apiKey:
      values["api-key"] ?? (variables["HEADRACE_API_KEY"]?.split(",")[0]?.trim() || undefined),
    tls: values.tls || caCerts !== undefined || certfile !== undefined,
    caCerts,
    certfile,
    keyfile,
  };
}

function parse<Parsed>(read: () => Parsed): Parsed {
  try {
    return read();
  } catch (error) {
    if (error instanceof TypeError) throw new UsageError(error.message);
    throw error;
  }
}

function numberOf(flag: string, text: string | undefined, form: RegExp, what: string) {
  if (text === undefined) return undefined;
  if (!form.test(text)) throw new UsageError(`${flag} must be ${what}, not ${text}`);
  return Number(text);
}
