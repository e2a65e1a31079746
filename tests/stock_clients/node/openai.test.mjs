// What openai-node makes of answers, tools, errors, retries and time limits.
import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";

const { SERVICE_URL, MODEL } = process.env;
const client = new OpenAI({ baseURL: `${SERVICE_URL}/v1`, apiKey: "unused", maxRetries: 0 });
const asked = {
  model: MODEL,
  messages: [{ role: "user", content: "Hey" }],
  max_tokens: 500,
  seed: 3,
};
const Paint = z.object({ colour: z.enum(["red", "green"]), litres: z.number().int().min(1).max(9) });
const mix = {
  type: "function",
  function: { name: "mix", parameters: z.toJSONSchema(Paint) },
};

test("a stream joins to the whole answer, and its last chunk has the counts", async () => {
  const short = { ...asked, max_tokens: 30 };
  const whole = await client.chat.completions.create(short);
  const stream = await client.chat.completions.create({
    ...short,
    stream: true,
    stream_options: { include_usage: true },
  });
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  const text = chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join("");
  assert.equal(text, whole.choices[0].message.content);
  assert.equal(chunks.at(-1).usage.completion_tokens, whole.usage.completion_tokens);
});

test("an answer is parsed by a schema of zod", async () => {
  const form = zodResponseFormat(Paint, "paint");
  const answer = await client.chat.completions.parse({ ...asked, response_format: form });
  assert.deepEqual(Paint.parse(answer.choices[0].message.parsed), answer.choices[0].message.parsed);
});

test("a forced call streams into the message of the library", async () => {
  const runner = client.chat.completions.stream({
    ...asked,
    tools: [mix],
    tool_choice: "required",
    parallel_tool_calls: false,
  });
  const { message, finish_reason } = (await runner.finalChatCompletion()).choices[0];
  assert.equal(finish_reason, "tool_calls");
  assert.deepEqual(message.tool_calls.map((call) => call.function.name), ["mix"]);
  Paint.parse(JSON.parse(message.tool_calls[0].function.arguments));
});

test("errors have their classes, codes and fields", async () => {
  await assert.rejects(client.chat.completions.create({ ...asked, temperature: 3 }), (error) => {
    assert.ok(error instanceof OpenAI.BadRequestError);
    assert.deepEqual([error.param, error.type], ["temperature", "invalid_request_error"]);
    return true;
  });
  await assert.rejects(client.chat.completions.create({ ...asked, model: "gpt-5" }), (error) => {
    assert.ok(error instanceof OpenAI.NotFoundError);
    assert.equal(error.code, "model_not_found");
    assert.match(error.requestID, /^req_/);
    return true;
  });
});

test("a raw response has the headers", async () => {
  const { data, response, request_id } = await client.chat.completions
    .create({ ...asked, max_tokens: 2 }, { headers: { "x-request-id": "mine" } })
    .withResponse();
  assert.equal(request_id, "mine");
  assert.ok(Number(response.headers.get("openai-processing-ms")) >= 0);
  assert.equal(data.usage.completion_tokens, 2);
});

test("completions and models are there", async () => {
  const answer = await client.completions.create({ model: MODEL, prompt: ["a", "b"], max_tokens: 3 });
  assert.equal(answer.choices.length, 2);
  const names = [];
  for await (const model of client.models.list()) names.push(model.id);
  assert.deepEqual(names, [MODEL]);
});
