/** What is done to every call of a client on Connect. */

import { Code, ConnectError, type Interceptor, type StreamResponse } from "@connectrpc/connect";

/**
 * Send a key.
 *
 * @param authorization what the key is in a header.
 */
export function sendingKey(authorization: string): Interceptor {
  return (next) => (request) => {
    request.header.set("authorization", authorization);
    return next(request);
  };
}

/**
 * Tell a connection that failed or was lost as unavailable, as gRPC has it.
 *
 * Node closes the streams of a connection that is lost as if they were cancelled, or with the error
 * of the socket, whichever comes first, and Connect says CANCELLED, ABORTED or INTERNAL. But only
 * those who have cancelled a call, or closed the client, should hear that.
 *
 * @param isClosed whether the client is closed.
 */
export function tellingLoss(isClosed: () => boolean): Interceptor {
  const told = (error: unknown, signal: AbortSignal) => {
    if (signal.aborted || isClosed() || !isLoss(error)) return error;
    const message = `The connection failed: ${error.rawMessage}`;
    return new ConnectError(message, Code.Unavailable, undefined, undefined, error);
  };
  async function* reading(messages: StreamResponse["message"], signal: AbortSignal) {
    try {
      yield* messages;
    } catch (error) {
      throw told(error, signal);
    }
  }
  return (next) => async (request) => {
    try {
      const response = await next(request);
      if (!response.stream) return response;
      return { ...response, message: reading(response.message, request.signal) };
    } catch (error) {
      throw told(error, request.signal);
    }
  };
}

function isLoss(error: unknown): error is ConnectError {
  if (!(error instanceof ConnectError)) return false;
  if (error.metadata.has("grpc-status")) return false; // the server has said it
  return error.code === Code.Canceled || isOfConnection(error.cause);
}

/** Whether an error is one of Node's, but not that a peer has reset one stream. */
function isOfConnection(cause: unknown): boolean {
  return (
    cause instanceof Error &&
    "code" in cause &&
    typeof cause.code === "string" &&
    cause.code !== "ERR_HTTP2_STREAM_ERROR"
  );
}
