import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { test } from "node:test";

import type { ClientOptions, TextClient } from "../src/client.js";
import { Client as ConnectClient } from "../src/connect/client.js";
import { HeadraceError } from "../src/errors.js";
import { BadRequest, ErrorInfo, RetryInfo } from "../src/gen/grpc-js/google/rpc/error_details.js";
import { Status } from "../src/gen/grpc-js/google/rpc/status.js";
import { Client as GrpcJsClient, GenerateRequest } from "../src/grpc-js/client.js";
import { type Call, cancelled, fail, piece, type RunningServer, serve } from "./server.js";
import { wireTo, wireToNobody } from "./wire.js";

const CLIENTS: Record<string, new (options: ClientOptions) => TextClient> = {
  "grpc-js": GrpcJsClient,
  connect: ConnectClient,
};
const BOUND = { timeout: 20_000 };

for (const [name, Client] of Object.entries(CLIENTS)) {
  const check = (
    what: string,
    answer: (call: Call) => void,
    body: (client: TextClient, server: RunningServer) => Promise<void>,
  ) =>
    test(`${name}: ${what}`, BOUND, async () => {
      const server = await serve(answer);
      const client = new Client({ target: server.target, apiKey: "secret" });
      try {
        await body(client, server);
      } finally {
        client.close();
        server.stop();
      }
    });

  check(
    "pieces come in order, and the request is what was asked for",
    sayTwoWords,
    async (client, server) => {
      const options = { model: "m", maxTokens: 0, temperature: 0 };
      assert.deepEqual(await collect(client.streamText("Hi", options)), ["Hello", " world"]);
      const { request, metadata } = server.calls[0]!;
      assert.equal(request.model, "m");
      assert.equal(request.stopping?.maxOutputTokens, 0);
      assert.equal(request.sampling?.temperature, 0);
      const chat = request.prompt?.$case === "chat" ? request.prompt.value : undefined;
      assert.deepEqual(
        chat?.messages.map(({ role, content }) => [role, content]),
        [[2, "Hi"]],
      );
      assert.deepEqual(metadata.get("authorization"), ["Bearer secret"]);
    },
  );

  check("what is not asked for is not set", sayTwoWords, async (client, server) => {
    await collect(client.streamText([{ role: "system", content: "Be brief." }]));
    const { request } = server.calls[0]!;
    assert.equal(request.stopping?.maxOutputTokens, undefined);
    assert.equal(request.sampling?.temperature, undefined);
  });

  check("leaving the loop cancels the call", sayOneAndHold, async (client, server) => {
    for await (const text of client.streamText("Hi")) {
      assert.equal(text, "Hello");
      break;
    }
    await cancelled(server.calls[0]!);
  });

  check(
    "a signal cancels the call and is what the loop throws",
    sayOneAndHold,
    async (client, server) => {
      const stop = new AbortController();
      const reason = new Error("enough");
      const reading = async () => {
        for await (const _ of client.streamText("Hi", { signal: stop.signal })) stop.abort(reason);
      };
      await assert.rejects(reading, reason);
      await cancelled(server.calls[0]!);
    },
  );

  check("a signal that lives on keeps nothing of a call", sayTwoWords, async (client) => {
    const { signal } = new AbortController();
    await collect(client.streamText("Hi", { signal }));
    for await (const _ of client.streamText("Hi", { signal })) break;
    assert.deepEqual(getEventListeners(signal, "abort"), []);
  });

  check("a signal ends the loop also where all has come", sayTwoWords, async (client) => {
    const stop = new AbortController();
    const texts: string[] = [];
    const reading = async () => {
      for await (const text of client.streamText("Hi", { signal: stop.signal })) {
        texts.push(text);
        await collect(client.streamText("Hi")); // behind which the rest of this one has come
        stop.abort();
      }
    };
    await assert.rejects(reading, { name: "AbortError" });
    assert.deepEqual(texts, ["Hello"]);
  });

  check("a signal that has gone off before makes no call", sayTwoWords, async (client, server) => {
    const reading = collect(client.streamText("Hi", { signal: AbortSignal.abort() }));
    await assert.rejects(reading, { name: "AbortError" });
    assert.equal(server.calls.length, 0);
  });

  check("a timeout ends the call", sayOneAndHold, async (client, server) => {
    const reading = collect(client.streamText("Hi", { timeoutMs: 300 }));
    await assert.rejects(reading, { name: "HeadraceError", code: "DEADLINE_EXCEEDED" });
    await cancelled(server.calls[0]!);
  });

  check("an error tells its details, also amid an answer", sayOneAndFail, async (client) => {
    const texts: string[] = [];
    await assert.rejects(
      async () => {
        for await (const text of client.streamText("Hi")) texts.push(text);
      },
      (error: unknown) => {
        assert.ok(error instanceof HeadraceError);
        const { code, message, reason, field, retryDelayMs } = error;
        assert.deepEqual(
          { code, message, reason, field, retryDelayMs },
          {
            code: "RESOURCE_EXHAUSTED",
            message: "Full.",
            reason: "OVERLOADED",
            field: "text",
            retryDelayMs: 1500,
          },
        );
        return true;
      },
    );
    assert.deepEqual(texts, ["Hello"]);
  });

  check("details of a proxy's own are none", failOddly, async (client) => {
    await assert.rejects(collect(client.streamText("Hi")), {
      code: name === "connect" ? "DATA_LOSS" : "UNAVAILABLE", // Connect gives up on such a status
      reason: undefined,
      field: undefined,
    });
  });

  check("closing ends what is running", sayOneAndHold, async (client, server) => {
    const reading = async () => {
      for await (const _ of client.streamText("Hi")) client.close();
    };
    await assert.rejects(reading, { name: "HeadraceError", code: "CANCELLED" });
    await cancelled(server.calls[0]!);
  });

  check("a client that is closed stays so", sayTwoWords, async (client, server) => {
    await collect(client.streamText("Hi"));
    client.close();
    await assert.rejects(collect(client.streamText("Hi")));
    assert.equal(server.calls.length, 1);
  });

  for (const way of ["cut", "reset"] as const) {
    test(`${name}: a connection that is ${way} is unavailable`, BOUND, async () => {
      const server = await serve(sayOneAndHold);
      const wire = await wireTo(server.target);
      const client = new Client({ target: wire.target });
      const reading = async () => {
        for await (const _ of client.streamText("Hi")) wire[way]();
      };
      await assert.rejects(reading, { name: "HeadraceError", code: "UNAVAILABLE" });
      client.close();
      server.stop();
    });
  }

  test(`${name}: a connection that is reset at once is unavailable`, BOUND, async () => {
    const wire = await wireToNobody();
    const client = new Client({ target: wire.target });
    await assert.rejects(collect(client.streamText("Hi")), { code: "UNAVAILABLE" });
    client.close();
    wire.cut();
  });

  test(`${name}: a server that is not there is unavailable`, BOUND, async () => {
    const server = await serve(sayTwoWords);
    server.stop();
    const client = new Client({ target: server.target });
    await assert.rejects(collect(client.streamText("Hi")), { code: "UNAVAILABLE" });
    client.close();
  });
}

const STUBS = {
  "grpc-js": (target: string) => {
    const client = new GrpcJsClient({ target });
    return { client, call: client.inference.generate(GenerateRequest.fromPartial({})) };
  },
  connect: (target: string) => {
    const client = new ConnectClient({ target });
    return { client, call: client.inference.generate({}) };
  },
};

for (const [name, start] of Object.entries(STUBS)) {
  test(`${name}: closing ends also a call of a stub`, BOUND, async () => {
    const server = await serve(sayOneAndHold);
    const { client, call } = start(server.target);
    const reading = async () => {
      for await (const _ of call) client.close();
    };
    await assert.rejects(reading);
    await cancelled(server.calls[0]!);
    server.stop();
  });
}

async function collect(pieces: AsyncIterable<string>): Promise<string[]> {
  const texts: string[] = [];
  for await (const text of pieces) texts.push(text);
  return texts;
}

function sayTwoWords(call: Call) {
  for (const text of ["Hello", "", " world"]) call.write(piece(text));
  call.end();
}

function sayOneAndHold(call: Call) {
  call.write(piece("Hello"));
}

function sayOneAndFail(call: Call) {
  call.write(piece("Hello"));
  const details = [
    any("ErrorInfo", ErrorInfo.encode(ErrorInfo.fromPartial({ reason: "OVERLOADED" })).finish()),
    any(
      "BadRequest",
      BadRequest.encode(BadRequest.fromPartial({ fieldViolations: [{ field: "text" }] })).finish(),
    ),
    any(
      "RetryInfo",
      RetryInfo.encode({ retryDelay: { seconds: 1n, nanos: 500_000_000 } }).finish(),
    ),
  ];
  fail(
    call,
    { code: 8, details: "Full." },
    Status.encode({ code: 8, message: "Full.", details }).finish(),
  );
}

function failOddly(call: Call) {
  fail(call, { code: 14, details: "Odd." }, Buffer.from("no google.rpc.Status"));
}

function any(name: string, value: Uint8Array) {
  return { typeUrl: `type.googleapis.com/google.rpc.${name}`, value: Buffer.from(value) };
}
