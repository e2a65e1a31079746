/** Errors of Connect → HeadraceError. */

import { ConnectError } from "@connectrpc/connect";

import { type ErrorDetails, HeadraceError, milliseconds } from "../errors.js";
import {
  BadRequestSchema,
  ErrorInfoSchema,
  RetryInfoSchema,
} from "../gen/es/google/rpc/error_details_pb.js";

/** The error of a call; what is none of Connect stays as it is. */
export function toHeadraceError(error: unknown): unknown {
  if (!(error instanceof ConnectError)) return error;
  return new HeadraceError(error.code, error.rawMessage, detailsOf(error), error);
}

function detailsOf(error: ConnectError): ErrorDetails {
  const retryDelay = error.findDetails(RetryInfoSchema)[0]?.retryDelay;
  return {
    reason: error.findDetails(ErrorInfoSchema)[0]?.reason,
    field: error.findDetails(BadRequestSchema)[0]?.fieldViolations[0]?.field,
    retryDelayMs: retryDelay && milliseconds(retryDelay),
  };
}
