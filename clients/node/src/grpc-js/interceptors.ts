/** What is done to every call of a client on @grpc/grpc-js. */

import { InterceptingCall, type Interceptor } from "@grpc/grpc-js";

/**
 * Send a key.
 *
 * Not call credentials, which grpc-js refuses to send without TLS, as to a server on this machine.
 *
 * @param authorization what the key is in metadata.
 */
export function sendingKey(authorization: string): Interceptor {
  return (options, nextCall) =>
    new InterceptingCall(nextCall(options), {
      start(metadata, listener, next) {
        metadata.set("authorization", authorization);
        next(metadata, listener);
      },
    });
}

/** Keep the calls that run in a set: a channel that closes does not end them. */
export function tracking(running: Set<InterceptingCall>): Interceptor {
  return (options, nextCall) => {
    const call = new InterceptingCall(nextCall(options), {
      start(metadata, _, next) {
        running.add(call);
        next(metadata, {
          onReceiveStatus(status, nextStatus) {
            running.delete(call);
            nextStatus(status);
          },
        });
      },
    });
    return call;
  };
}
