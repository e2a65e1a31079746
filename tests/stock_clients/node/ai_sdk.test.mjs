// What the AI SDK makes of answers, through its provider for OpenAI-compatible services.
import assert from "node:assert/strict";
import { test } from "node:test";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, generateObject, generateText, stepCountIs, streamObject, streamText, tool } from "ai";
import { z } from "zod";

const { SERVICE_URL, MODEL } = process.env;
const headrace = createOpenAICompatible({
  name: "headrace",
  baseURL: `${SERVICE_URL}/v1`,
  includeUsage: true,
  supportsStructuredOutputs: true,
});
const asked = { model: headrace(MODEL), prompt: "Hey", maxOutputTokens: 500, seed: 5, maxRetries: 0 };
const Paint = z.object({ colour: z.enum(["red", "green"]), litres: z.number().int().min(1).max(9) });

test("a text comes whole, with its reason and its counts", async () => {
  const { text, finishReason, usage } = await generateText({ ...asked, maxOutputTokens: 20 });
  assert.ok(text.length > 0);
  assert.equal(finishReason, "length");
  assert.equal(usage.outputTokens, 20);
});

test("a text that streams is the same, with the same counts", async () => {
  const short = { ...asked, maxOutputTokens: 20 };
  const whole = await generateText(short);
  const result = streamText(short);
  let text = "";
  for await (const piece of result.textStream) text += piece;
  assert.equal(text, whole.text);
  assert.equal((await result.usage).outputTokens, 20);
  assert.equal(await result.finishReason, "length");
});

test("an object has the form of its schema, whole and streamed", async () => {
  const { object } = await generateObject({ ...asked, schema: Paint });
  assert.deepEqual(Paint.parse(object), object);
  const result = streamObject({ ...asked, schema: Paint });
  let last;
  for await (const partial of result.partialObjectStream) last = partial;
  assert.deepEqual(last, object);
  assert.deepEqual(await result.object, object);
});

test("a tool is called with arguments of its schema, and its result goes back", async () => {
  const mixed = [];
  const mix = tool({
    description: "Mixes a paint.",
    inputSchema: Paint,
    execute: async (paint) => mixed.push(paint),
  });
  const { steps } = await generateText({
    ...asked,
    tools: { mix },
    toolChoice: "required",
    providerOptions: { headrace: { parallel_tool_calls: false } },
    stopWhen: stepCountIs(2),
  });
  assert.deepEqual(steps.map((step) => step.toolCalls.map((call) => call.toolName)), [["mix"], ["mix"]]);
  assert.deepEqual(mixed.map((paint) => Paint.parse(paint)), mixed);
  assert.equal(mixed.length, 2);
});

test("a call streams as the input of its tool", async () => {
  const mix = tool({ description: "Mixes a paint.", inputSchema: Paint });
  const result = streamText({ ...asked, tools: { mix }, toolChoice: { type: "tool", toolName: "mix" } });
  const [call] = await result.toolCalls;
  assert.equal(call.toolName, "mix");
  assert.deepEqual(Paint.parse(call.input), call.input);
  assert.equal(await result.finishReason, "tool-calls");
});

test("an error has the words of the service", async () => {
  await assert.rejects(generateText({ ...asked, temperature: 3 }), (error) => {
    assert.ok(APICallError.isInstance(error));
    assert.deepEqual([error.statusCode, error.isRetryable], [400, false]);
    assert.match(error.message, /temperature/);
    return true;
  });
});
