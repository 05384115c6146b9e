// Asks the server at argv[2] for responses through the `openai` package, and prints of each call
// what was asked and heard, as JSON.

import OpenAI from "openai";

const client = new OpenAI({ apiKey: "k", baseURL: process.argv[2], maxRetries: 0 });
const question = { model: "gpt-demo", instructions: "Be brief.", input: "Ahoy?" };
const tool = {
  type: "function",
  name: "get_weather",
  parameters: { type: "object", properties: { city: { type: "string" } } },
  strict: false,
};

const pick = (response, type) => response.output.filter((item) => item.type === type);

const heard = (response) => ({
  id: response.id,
  model: response.model,
  asked: ["Be brief.", "Ahoy?"],
  reasoning: pick(response, "reasoning").flatMap((item) => item.summary.map(({ text }) => text)),
  text: [response.output_text].filter(Boolean),
  calls: pick(response, "function_call").map((item) => [
    item.call_id,
    item.name,
    JSON.parse(item.arguments),
  ]),
  finish: response.incomplete_details?.reason ?? response.status,
  usage: [
    response.usage.input_tokens,
    response.usage.output_tokens,
    response.usage.output_tokens_details.reasoning_tokens,
  ],
});

const create = async (changes) => heard(await client.responses.create({ ...question, ...changes }));
const stream = async (changes) =>
  heard(await client.responses.stream({ ...question, ...changes }).finalResponse());

console.log(
  JSON.stringify([
    await create({}),
    await create({ max_output_tokens: 3 }),
    await create({ tools: [tool] }),
    await stream({ model: "gpt-demo-reasoning" }),
    await stream({ tools: [tool] }),
  ]),
);
