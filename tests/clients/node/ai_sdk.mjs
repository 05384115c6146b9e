// Asks the server at argv[2] for responses through Vercel's AI SDK, and prints of each call what
// was asked and heard, as JSON.

import { createOpenAI } from "@ai-sdk/openai";
import { generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";

const openai = createOpenAI({ apiKey: "k", baseURL: process.argv[2] });
const question = { model: openai("gpt-demo"), maxRetries: 0, prompt: "Ahoy?" };
const weather = tool({
  inputSchema: jsonSchema({ type: "object", properties: { city: { type: "string" } } }),
  execute: async ({ city }) => `Sunny in ${city}.`,
});
const tools = { tools: { get_weather: weather }, stopWhen: stepCountIs(2) };

const heard = async (result) => {
  const asked = ["Ahoy?"];
  return (await result.steps).map((step) => {
    const call = {
      id: step.response.id,
      model: step.response.modelId,
      asked: [...asked],
      reasoning: step.reasoning.map(({ text }) => text),
      text: [step.text].filter(Boolean),
      calls: step.toolCalls.map(({ toolCallId, toolName, input }) => [toolCallId, toolName, input]),
      finish: { stop: "completed", "tool-calls": "completed" }[step.finishReason],
      usage: [
        step.usage.inputTokens,
        step.usage.outputTokens,
        step.usage.outputTokenDetails.reasoningTokens,
      ],
    };
    asked.push(...step.toolResults.map(({ output }) => output));
    return call;
  });
};

const generate = async (changes) => heard(await generateText({ ...question, ...changes }));
const stream = async (changes) => {
  const result = streamText({ ...question, ...changes });
  await result.consumeStream();
  return heard(result);
};

console.log(
  JSON.stringify([
    ...(await generate({})),
    ...(await generate(tools)),
    ...(await stream({ model: openai("gpt-demo-reasoning") })),
    ...(await stream(tools)),
  ]),
);
