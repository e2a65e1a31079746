/** Ways to a server that can be cut. */

import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

export interface Wire {
  target: string;
  /** End all connections in order, and take none any more. */
  cut(): void;
  /** The same without order, as when a program or a machine dies. */
  reset(): void;
}

/** Forward the connections to a free port of this machine. */
export async function wireTo(target: string): Promise<Wire> {
  return listen((near) => {
    const far = connect(Number(target.split(":")[1]), "127.0.0.1");
    far.on("error", () => {});
    near.pipe(far).pipe(near);
    return [near, far];
  });
}

/** Reset the connections to a free port of this machine. */
export async function wireToNobody(): Promise<Wire> {
  return listen((near) => {
    near.resetAndDestroy();
    return [];
  });
}

async function listen(accept: (near: Socket) => Socket[]): Promise<Wire> {
  const sockets: Socket[] = [];
  const listener = createServer((near) => {
    near.on("error", () => {});
    sockets.push(...accept(near));
  });
  listener.listen(0, "127.0.0.1");
  await once(listener, "listening");
  const { port } = listener.address() as AddressInfo;
  const close = (end: (socket: Socket) => void) => {
    listener.close();
    sockets.forEach(end);
  };
  return {
    target: `127.0.0.1:${port}`,
    cut: () => close((socket) => socket.destroy()),
    reset: () => close((socket) => socket.resetAndDestroy()),
  };
}
