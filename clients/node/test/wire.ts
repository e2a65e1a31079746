/** A way to a server that can be cut. */

import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

export interface Wire {
  target: string;
  /** End all connections as a power cut does, and take none any more. */
  cut(): void;
}

/** Forward the connections to a free port of this machine. */
export async function wireTo(target: string): Promise<Wire> {
  const sockets: Socket[] = [];
  const listener = createServer((near) => {
    const far = connect(Number(target.split(":")[1]), "127.0.0.1");
    for (const socket of [near, far]) socket.on("error", () => {});
    near.pipe(far).pipe(near);
    sockets.push(near, far);
  });
  listener.listen(0, "127.0.0.1");
  await once(listener, "listening");
  const { port } = listener.address() as AddressInfo;
  return {
    target: `127.0.0.1:${port}`,
    cut() {
      listener.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}
