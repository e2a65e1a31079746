import assert from "node:assert/strict";
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { TRANSPORTS } from "../src/arguments.js";
import { type Call, cancelled, piece, type RunningServer, serve } from "./server.js";

const PROGRAM = fileURLToPath(new URL("../src/cli.js", import.meta.url));
const BOUND = { timeout: 30_000 };

type Program = ChildProcessByStdio<null, Readable, Readable>;

for (const transport of TRANSPORTS) {
  const check = (
    what: string,
    answer: (call: Call) => void,
    body: (start: () => Program, server: RunningServer) => Promise<void>,
  ) =>
    test(`the program by ${transport}: ${what}`, BOUND, async () => {
      const server = await serve(answer);
      const words = ["--transport", transport, "--target", server.target, "Hi"];
      const start = () =>
        spawn(process.execPath, [PROGRAM, ...words], { stdio: ["ignore", "pipe", "pipe"] });
      try {
        await body(start, server);
      } finally {
        server.stop();
      }
    });

  check("it prints the answer and ends", sayHello, async (start) => {
    const program = start();
    const outputs = Promise.all([text(program.stdout), text(program.stderr)]);
    assert.deepEqual(await ending(program), [0, null]);
    assert.deepEqual(await outputs, ["Hello\n", ""]);
  });

  check("Ctrl-C cancels the call", sayWithoutEnd, async (start, server) => {
    const program = start();
    await once(program.stdout, "data");
    program.kill("SIGINT");
    assert.deepEqual(await ending(program), [130, null]);
    await cancelled(server.calls[0]!);
  });

  check("Ctrl-C ends it also where nobody reads", sayMuchAndHold, async (start, server) => {
    const program = start();
    await once(program.stdout, "data");
    program.stdout.pause(); // most of what it has to print still waits
    program.kill("SIGINT");
    assert.deepEqual(await ending(program), [130, null]);
    await cancelled(server.calls[0]!);
  });

  check("a reader that goes away cancels the call", sayWithoutEnd, async (start, server) => {
    const program = start();
    const errors = text(program.stderr);
    await once(program.stdout, "data");
    program.stdout.destroy();
    assert.deepEqual(await ending(program), [141, null]);
    assert.equal(await errors, "");
    await cancelled(server.calls[0]!);
  });

  test(`the program by ${transport}: a server of HTTP/1.1 is an error`, BOUND, async () => {
    const server = createServer((socket) => {
      socket.on("error", () => {});
      socket.end("HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const target = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    const words = ["--transport", transport, "--target", target, "--timeout", "10", "Hi"];
    const program = spawn(process.execPath, [PROGRAM, ...words], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    try {
      const errors = text(program.stderr);
      assert.deepEqual(await ending(program), [1, null]);
      assert.match(await errors, /^error: UNAVAILABLE: .*Protocol error.*\n$/);
    } finally {
      server.close();
    }
  });

  for (const flags of [
    ["--api-key", "sécret"],
    ["--target", "http://localhost:1920"],
    ["--certfile", PROGRAM, "--keyfile", PROGRAM],
  ]) {
    test(`the program by ${transport}: it is a wrong use: ${flags[0]}`, BOUND, async () => {
      const program = spawn(process.execPath, [PROGRAM, "--transport", transport, ...flags, "Hi"], {
        stdio: ["ignore", "pipe", "pipe"],
      });
      const errors = text(program.stderr);
      assert.deepEqual(await ending(program), [2, null]);
      assert.match(await errors, /^error: .+\nusage: /);
      assert.doesNotMatch(await errors, /sécret/);
    });
  }
}

async function ending(program: Program): Promise<unknown[]> {
  return once(program, "exit");
}

function sayHello(call: Call) {
  call.write(piece("Hello"));
  call.end();
}

function sayMuchAndHold(call: Call) {
  call.write(piece("more ".repeat(200_000))); // more than a pipe holds
}

function sayWithoutEnd(call: Call) {
  const words = piece("more ".repeat(1000));
  const say = () => {
    while (!call.cancelled && call.write(words));
  };
  call.on("drain", say);
  say();
}
