import assert from "node:assert/strict";
import { test } from "node:test";

import { errorLine, parseChat, parseConnection, UsageError } from "../src/arguments.js";
import { addressOf, authorizationOf, boundedTimeoutMs } from "../src/client.js";
import { HeadraceError } from "../src/errors.js";

const PLAIN = {
  target: undefined,
  transport: "grpc-js",
  apiKey: undefined,
  tls: false,
  caCerts: undefined,
  certfile: undefined,
  keyfile: undefined,
};

test("a prompt alone has the defaults", () => {
  assert.deepEqual(parseChat(["Hi"], {}), {
    ...PLAIN,
    prompt: "Hi",
    maxTokens: undefined,
    timeoutMs: undefined,
  });
});

test("flags are read in their units", () => {
  const words = [
    "--transport",
    "connect",
    "--max-tokens",
    "0",
    "--timeout",
    "1.5",
    "--target",
    "h:1",
    "Hi",
  ];
  assert.deepEqual(parseChat(words, {}), {
    ...PLAIN,
    target: "h:1",
    transport: "connect",
    prompt: "Hi",
    maxTokens: 0,
    timeoutMs: 1500,
  });
});

test("a prompt may begin with a hyphen behind two", () => {
  assert.equal(parseChat(["--", "--tls"], {})?.prompt, "--tls");
});

test("the key is that of the flag, or the first of the variable", () => {
  const variables = { HEADRACE_API_KEY: "first, second" };
  assert.equal(parseChat(["Hi"], variables)?.apiKey, "first");
  assert.equal(parseChat(["--api-key", "mine", "Hi"], variables)?.apiKey, "mine");
  assert.equal(parseChat(["Hi"], { HEADRACE_API_KEY: "" })?.apiKey, undefined);
});

test("files of certificates imply encryption", () => {
  assert.equal(parseConnection(["--tls"], {}).tls, true);
  assert.equal(parseConnection(["--ca-certs", "a"], {}).tls, true);
  assert.equal(parseConnection(["--certfile", "a", "--keyfile", "b"], {}).tls, true);
});

for (const words of [
  [],
  ["Hi", "there"],
  ["--unknown", "Hi"],
  ["--transport", "http", "Hi"],
  ["--certfile", "a", "Hi"],
  ["--keyfile", "b", "Hi"],
  ["--max-tokens", "-1", "Hi"],
  ["--max-tokens", "many", "Hi"],
  ["--timeout", "1e3", "Hi"],
]) {
  test(`it is a wrong use: ${words.join(" ") || "nothing"}`, () => {
    assert.throws(() => parseChat(words, {}), UsageError);
  });
}

test("help needs nothing else", () => {
  assert.equal(parseChat(["--help"], {}), undefined);
});

test("a target without a port gets that of Headrace", () => {
  assert.equal(addressOf(), "localhost:1920");
  assert.equal(addressOf("example.org"), "example.org:1920");
  assert.equal(addressOf("[::1]"), "[::1]:1920");
  assert.equal(addressOf("[::1]:9"), "[::1]:9");
});

for (const target of ["", "::1", "http://localhost:1920", "localhost:", "two words:9"]) {
  test(`it is no target: ${target || "nothing"}`, () => {
    assert.throws(() => addressOf(target), TypeError);
  });
}

test("a key that cannot be sent is not told", () => {
  assert.equal(authorizationOf("secret"), "Bearer secret");
  for (const key of ["", "secret\n", "secret secret", "sécret"]) {
    assert.throws(
      () => authorizationOf(key),
      (error: unknown) => error instanceof TypeError && !/s.cret/.test(error.message),
    );
  }
});

test("a timeout is one that timers and metadata can hold", () => {
  assert.deepEqual([0, 0.5, 1500.5, Infinity].map(boundedTimeoutMs), [1, 1, 1501, 2 ** 31 - 1]);
});

test("the line of an error has the reason, or the status where there is none", () => {
  assert.equal(errorLine(new HeadraceError(14, "Gone.")), "error: UNAVAILABLE: Gone.");
  assert.equal(errorLine(new HeadraceError(14, "One:\ntwo.\n")), "error: UNAVAILABLE: One: two.");
  const overloaded = new HeadraceError(8, "Full.", { reason: "OVERLOADED", retryDelayMs: 1000 });
  assert.equal(errorLine(overloaded), "error: OVERLOADED: Full.; retry in 1.0 s");
});
