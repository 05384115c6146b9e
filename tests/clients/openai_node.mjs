// Chats with the server at argv[2] through the `openai` npm package in the folder argv[3], and
// prints what it got as JSON, without what differs between any two calls.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [baseURL, folder] = process.argv.slice(2);
const { default: OpenAI } = await import(
  pathToFileURL(createRequire(`${folder}/`).resolve("openai")).href
);

const client = new OpenAI({ apiKey: "k", baseURL, maxRetries: 0 });
const messages = [{ role: "user", content: "Ahoy?" }];
const hello = { model: "gpt-demo", messages };
const tools = [
  {
    type: "function",
    function: { name: "get_weather", parameters: { properties: { city: { type: "string" } } } },
  },
];

const plain = ({ id, created, ...rest }) => rest;

async function streamed(request) {
  const chunks = [];
  for await (const chunk of await client.chat.completions.create({ ...request, stream: true })) {
    chunks.push(plain(chunk));
  }
  return chunks;
}

async function failure(request) {
  try {
    await client.chat.completions.create(request);
  } catch (error) {
    return [error.constructor.name, error.status, error.code, error.message];
  }
}

async function abandoned() {
  const chunks = await client.chat.completions.create({
    ...hello,
    model: "gpt-demo-endless",
    stream: true,
  });
  for await (const chunk of chunks) {
    if (chunk.choices[0].delta.content) break;
  }
  return "left";
}

console.log(
  JSON.stringify({
    plain: plain(await client.chat.completions.create(hello)),
    streamed: await streamed({ ...hello, n: 2 }),
    tools: await streamed({ ...hello, tools }),
    asked: await streamed({ ...hello, stream_options: { include_usage: true } }),
    final: plain(await client.chat.completions.stream(hello).finalChatCompletion()),
    limited: await failure({ ...hello, model: "gpt-demo-error" }),
    broken: await failure({ ...hello, model: "gpt-demo-broken", stream: true }),
    abandoned: await abandoned(),
  }),
);
