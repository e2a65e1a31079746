/** The connection of a client on Connect. */

import { Code, ConnectError } from "@connectrpc/connect";
import { Http2SessionManager } from "@connectrpc/connect-node";

/** A connection of HTTP/2 that can be closed for good: Connect's own opens again by itself. */
export class Session extends Http2SessionManager {
  #isClosed = false;

  get isClosed(): boolean {
    return this.#isClosed;
  }

  override async request(...given: Parameters<Http2SessionManager["request"]>) {
    if (this.#isClosed) throw new ConnectError("The client is closed.", Code.Canceled);
    const stream = await super.request(...given);
    // A server that does not speak HTTP/2 makes Node emit an error twice, and Connect listens once:
    // the second one would end the process.
    if (stream.session?.listeners("error").includes(ignore) === false) {
      stream.session.on("error", ignore);
    }
    return stream;
  }

  close(): void {
    this.#isClosed = true;
    this.abort();
  }
}

function ignore(): void {}
