/** Errors of @grpc/grpc-js → HeadraceError. */

import type { ServiceError } from "@grpc/grpc-js";

import { BadRequest, ErrorInfo, RetryInfo } from "../gen/grpc-js/google/rpc/error_details.js";
import { Status } from "../gen/grpc-js/google/rpc/status.js";
import { type ErrorDetails, HeadraceError, milliseconds } from "../errors.js";

const DETAILS_KEY = "grpc-status-details-bin";

/** The error of a call; what is none of gRPC stays as it is. */
export function toHeadraceError(error: unknown): unknown {
  if (!isServiceError(error)) return error;
  const [status] = error.metadata.get(DETAILS_KEY);
  const details = Buffer.isBuffer(status) ? readDetails(status) : {};
  return new HeadraceError(error.code, error.details, details, error);
}

/** Read the details of a serialized google.rpc.Status. */
export function readDetails(status: Uint8Array): ErrorDetails {
  const details: ErrorDetails = {};
  try {
    for (const { typeUrl, value } of Status.decode(status).details) {
      switch (typeUrl.slice(typeUrl.lastIndexOf("/") + 1)) {
        case "google.rpc.ErrorInfo":
          details.reason = ErrorInfo.decode(value).reason;
          break;
        case "google.rpc.BadRequest":
          details.field = BadRequest.decode(value).fieldViolations[0]?.field;
          break;
        case "google.rpc.RetryInfo": {
          const { retryDelay } = RetryInfo.decode(value);
          details.retryDelayMs = retryDelay && milliseconds(retryDelay);
        }
      }
    }
    return details;
  } catch {
    return {}; // not of google.rpc: a proxy may put anything there
  }
}

function isServiceError(error: unknown): error is ServiceError {
  return error instanceof Error && "code" in error && "details" in error && "metadata" in error;
}
