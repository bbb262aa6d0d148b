// The official OpenAI library for JavaScript, as programs use it. Run by client_test.py.
import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";
import { zodFunction, zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";

const address = process.env.KIMI_K3_ADDRESS;
const client = new OpenAI({ baseURL: address + "/v1", apiKey: "none", maxRetries: 0, timeout: 60000 });
const hello = [{ role: "user", content: "Hello." }];
// What the tiny model knows by heart.
const verse = [{ role: "user", content: "What does Psalm 23:1 say?" }];
const plain = { model: "tiny", temperature: 0, reasoning_effort: "none", max_tokens: 200 };

const Person = z.object({
  name: z.string().max(8), age: z.number().int().min(0).max(120), mood: z.enum(["glad", "sad"]),
  nick: z.literal("x").nullable(), friends: z.array(z.object({ short: z.enum(["Al", "Bo"]) })).max(2),
});
const GetWeather = z.object({ city: z.enum(["Bern", "Oslo"]), days: z.number().int().min(1).max(9) });

async function isIdle() {
  for (let i = 0; i < 200; ++i) {
    const status = await (await fetch(address + "/status")).json();
    if (status.running === 0) return true;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return false;
}

test("models", async () => {
  const models = await client.models.list();
  assert.deepEqual(models.data.map((model) => model.id), ["tiny"]);
  await assert.rejects(client.models.retrieve("another"), OpenAI.NotFoundError);
});

test("chat", async () => {
  const answer = await client.chat.completions.create({ ...plain, messages: verse });
  assert.match(answer.choices[0].message.content, /The LORD is my shepherd/);
  assert.equal(answer.choices[0].finish_reason, "stop");
  assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);
});

test("streaming", async () => {
  const whole = await client.chat.completions.create({ ...plain, messages: verse });
  const stream = await client.chat.completions.create(
    { ...plain, messages: verse, stream: true, stream_options: { include_usage: true } });
  let text = "", usage = null;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta.content ?? "";
    usage = chunk.usage ?? usage;
  }
  assert.equal(text, whole.choices[0].message.content);
  assert.ok(usage.completion_tokens > 0);
});

test("logprobs", async () => {
  const answer = await client.chat.completions.create(
    { ...plain, messages: verse, logprobs: true, top_logprobs: 2 });
  const tokens = answer.choices[0].logprobs.content;
  assert.equal(tokens.map((token) => token.token).join(""), answer.choices[0].message.content);
  assert.ok(tokens.every((token) => token.logprob <= 0 && token.top_logprobs.length === 2));
});

test("JSON schema by parse", async () => {
  for (const seed of [1, 2]) {
    const answer = await client.chat.completions.parse({
      ...plain, messages: hello, temperature: 1, seed, max_tokens: 300,
      response_format: zodResponseFormat(Person, "person"),
    });
    const person = answer.choices[0].message.parsed;
    assert.ok(person.age >= 0 && person.age <= 120);
    assert.ok(["glad", "sad"].includes(person.mood));
  }
});

test("tools", async () => {
  const answer = await client.chat.completions.parse({
    ...plain, messages: hello, max_tokens: 300, parallel_tool_calls: false, tool_choice: "required",
    tools: [zodFunction({ name: "get_weather", parameters: GetWeather })],
  });
  assert.equal(answer.choices[0].finish_reason, "tool_calls");
  const call = answer.choices[0].message.tool_calls[0].function;
  assert.equal(call.name, "get_weather");
  assert.ok(["Bern", "Oslo"].includes(call.parsed_arguments.city));
});

test("the stream helper gathers calls", async () => {
  const stream = client.chat.completions.stream({
    ...plain, messages: hello, max_tokens: 300, parallel_tool_calls: false, tool_choice: "required",
    tools: [zodFunction({ name: "get_weather", parameters: GetWeather })],
  });
  const final = await stream.finalChatCompletion();
  assert.equal(final.choices[0].message.tool_calls[0].function.name, "get_weather");
});

test("errors", async () => {
  await assert.rejects(client.chat.completions.create({ ...plain, messages: hello, model: "another" }),
                       OpenAI.NotFoundError);
  await assert.rejects(client.chat.completions.create({ ...plain, messages: hello, temperature: -1 }),
                       (error) => error instanceof OpenAI.BadRequestError && error.param === "temperature");
});

test("cancelling ends the computation", async () => {
  const stream = await client.completions.create(
    { model: "tiny", prompt: "And", max_tokens: 600, stream: true, ignore_eos: true });
  let chunks = 0;
  for await (const chunk of stream) {
    assert.ok(chunk.choices.length === 1);
    if (++chunks === 3) break;
  }
  assert.ok(await isIdle());
  const controller = new AbortController();
  const whole = client.completions.create({ model: "tiny", prompt: "And", max_tokens: 690, ignore_eos: true },
                                          { signal: controller.signal });
  setTimeout(() => controller.abort(), 150);
  await assert.rejects(whole, OpenAI.APIUserAbortError);
  assert.ok(await isIdle());
});
