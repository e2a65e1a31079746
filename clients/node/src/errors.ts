/** The error of a call that failed. */

// By the number of the status, as gRPC defines it.
const STATUS_NAMES = [
  "OK",
  "CANCELLED",
  "UNKNOWN",
  "INVALID_ARGUMENT",
  "DEADLINE_EXCEEDED",
  "NOT_FOUND",
  "ALREADY_EXISTS",
  "PERMISSION_DENIED",
  "RESOURCE_EXHAUSTED",
  "FAILED_PRECONDITION",
  "ABORTED",
  "OUT_OF_RANGE",
  "UNIMPLEMENTED",
  "INTERNAL",
  "UNAVAILABLE",
  "DATA_LOSS",
  "UNAUTHENTICATED",
] as const;

export type StatusName = (typeof STATUS_NAMES)[number];

/** The name of a gRPC status. */
export function statusName(code: number): StatusName {
  return STATUS_NAMES[code] ?? "UNKNOWN";
}

/** What a server tells about an error beside its status and message. */
export interface ErrorDetails {
  /** What happened, as in `ErrorReason` of the contract, such as `OVERLOADED`. */
  reason?: string | undefined;
  /** The field of the request that is at fault, such as `sampling.temperature`. */
  field?: string | undefined;
  /** When to try again, as the server wishes. */
  retryDelayMs?: number | undefined;
}

/** A call that failed. `reason` is unset where a proxy or the connection failed. */
export class HeadraceError extends Error {
  override readonly name = "HeadraceError";
  readonly code: StatusName;
  readonly reason: string | undefined;
  readonly field: string | undefined;
  readonly retryDelayMs: number | undefined;

  constructor(code: number, message: string, details: ErrorDetails = {}, cause?: unknown) {
    super(message, { cause });
    this.code = statusName(code);
    this.reason = details.reason;
    this.field = details.field;
    this.retryDelayMs = details.retryDelayMs;
  }
}

/** A duration of protobuf in milliseconds. */
export function milliseconds(duration: { seconds: bigint; nanos: number }): number {
  return Number(duration.seconds) * 1000 + duration.nanos / 1e6;
}
