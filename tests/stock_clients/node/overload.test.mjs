// openai-node before a service that answers one request at a time and lets one more wait.
import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";

const { SERVICE_URL, MODEL } = process.env;
const options = { baseURL: `${SERVICE_URL}/v1`, apiKey: "unused" };
const client = new OpenAI({ ...options, maxRetries: 0 });
const asked = { model: MODEL, messages: [{ role: "user", content: "Hey" }], max_tokens: 2 };
// Runs to the end of the context unless it is left: minutes.
const endless = { ...asked, max_tokens: 8000, ignore_eos: true };

// Patient, because what an earlier test left may still be on its way out.
async function full() {
  const patient = new OpenAI({ ...options, maxRetries: 20 });
  const running = await patient.chat.completions.create({ ...endless, stream: true });
  await running[Symbol.asyncIterator]().next();
  return [running, await patient.chat.completions.create({ ...endless, stream: true })];
}

test("overload is a rate limit with the time to wait", async () => {
  const streams = await full();
  await assert.rejects(client.chat.completions.create(asked), (error) => {
    assert.ok(error instanceof OpenAI.RateLimitError);
    assert.equal(error.code, "rate_limit_exceeded");
    assert.ok(Number(error.headers.get("retry-after")) >= 1);
    return true;
  });
  for (const stream of streams) stream.controller.abort();
});

test("the library retries until there is room", async () => {
  const streams = await full();
  const statuses = [];
  const patient = new OpenAI({
    ...options,
    maxRetries: 20,
    fetch: async (...request) => {
      const response = await fetch(...request);
      statuses.push(response.status);
      if (response.status === 429) for (const stream of streams) stream.controller.abort();
      return response;
    },
  });
  const answer = await patient.chat.completions.create(asked);
  assert.equal(answer.usage.completion_tokens, 2);
  assert.deepEqual([statuses[0], statuses.at(-1)], [429, 200]);
});

test("a time limit of the library and an abort free the engine", async () => {
  const late = client.chat.completions.create(endless, { timeout: 500 });
  await assert.rejects(late, OpenAI.APIConnectionTimeoutError);
  const patient = new OpenAI({ ...options, maxRetries: 20 });
  const stream = await patient.chat.completions.create({ ...endless, stream: true });
  for await (const chunk of stream) {
    assert.equal(chunk.choices[0].delta.role, "assistant");
    break;
  }
  const answer = await patient.chat.completions.create(asked);
  assert.equal(answer.usage.completion_tokens, 2);
});
