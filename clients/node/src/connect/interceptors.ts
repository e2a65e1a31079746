/** What is done to every call of a client on Connect. */

import { Code, ConnectError, type Interceptor, type StreamResponse } from "@connectrpc/connect";

/** Send a key. */
export function sendingKey(apiKey: string): Interceptor {
  return (next) => (request) => {
    request.header.set("authorization", `Bearer ${apiKey}`);
    return next(request);
  };
}

/**
 * Tell the loss of the connection as such.
 *
 * Node closes the streams of a connection that is lost as if they were cancelled, and Connect says
 * so; but only those who have cancelled a call, or closed the client, should hear that.
 *
 * @param isClosed whether the client is closed.
 */
export function tellingLoss(isClosed: () => boolean): Interceptor {
  const told = (error: unknown, signal: AbortSignal) => {
    if (signal.aborted || isClosed() || !isStreamCancelled(error)) return error;
    const message = `The connection was lost (${error.rawMessage}).`;
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

function isStreamCancelled(error: unknown): error is ConnectError {
  return (
    error instanceof ConnectError &&
    error.code === Code.Canceled &&
    !error.metadata.has("grpc-status") // then the server has said it
  );
}
