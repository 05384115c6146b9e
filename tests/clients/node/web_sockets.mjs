// Has a session of argv[2] with the server at argv[3] through the `openai` package over a WebSocket,
// and prints what it heard, as JSON; of Responses also each one, with the output as the package's
// own accumulator has put it together from the events before the last one.

import OpenAI from "openai";
import { ResponsesWebSocketAccumulator } from "openai/lib/responses/responses-websocket-accumulator";
import { OpenAIRealtimeWS } from "openai/realtime/ws";
import { ResponsesWS } from "openai/resources/responses/ws";

const [session, baseURL] = process.argv.slice(2);
const client = new OpenAI({ apiKey: "k", baseURL, maxRetries: 0 });
const hello = { model: "gpt-demo", instructions: "Be brief.", input: "Ahoy?" };
const parameters = { type: "object", properties: { city: { type: "string" } } };
const tool = { type: "function", name: "get_weather", parameters, strict: false };

async function respond() {
  const socket = new ResponsesWS(client, { perMessageDeflate: true });
  const events = [];
  const responses = [];
  const heard = socket.stream();
  const hear = async (changes) => {
    const accumulator = new ResponsesWebSocketAccumulator();
    socket.send({ type: "response.create", ...hello, ...changes });
    for (;;) {
      const { type, message, error } = (await heard.next()).value;
      if (type === "error") throw error;
      if (type !== "message") continue;
      events.push(message);
      if (/^response\.(completed|failed|incomplete)$/.test(message.type)) {
        const { output } = accumulator.current.snapshot;
        responses.push({ ...message.response, output });
        return responses.at(-1);
      }
      accumulator.add(message);
    }
  };
  await hear({});
  const called = await hear({ tools: [tool] });
  const input = called.output.map(({ call_id }) => ({
    type: "function_call_output",
    call_id,
    output: "sun",
  }));
  await hear({ tools: [tool], input, previous_response_id: called.id });
  await hear({ model: "gpt-demo-reasoning" });
  await hear({ max_output_tokens: 3 });
  await hear({ model: "gpt-demo-failing" });
  socket.close();
  return { events, responses };
}

async function converse() {
  const socket = new OpenAIRealtimeWS({ model: "gpt-demo" }, client);
  const events = [];
  const waiting = [];
  socket.on("event", (event) => {
    events.push(event);
    if (event.type === waiting[0]?.type) waiting.shift().resolve(event);
  });
  const hear = (type) => new Promise((resolve) => waiting.push({ type, resolve }));
  const say = (item) => {
    socket.send({ type: "conversation.item.create", item });
    return hear("conversation.item.done");
  };
  const answer = async (response) => {
    socket.send({ type: "response.create", response });
    await hear("rate_limits.updated");
    return events.at(-2).response;
  };
  await hear("session.created");
  const { strict, ...realtimeTool } = tool;
  const session = { type: "realtime", instructions: "Be brief.", tools: [realtimeTool] };
  socket.send({ type: "session.update", session });
  await hear("session.updated");
  const content = [{ type: "input_text", text: "How is it?" }];
  await say({ type: "message", role: "user", content });
  for (const { call_id } of (await answer({ output_modalities: ["text"] })).output) {
    await say({ type: "function_call_output", call_id, output: "sun" });
  }
  await answer({});
  socket.close();
  return { events };
}

console.log(JSON.stringify(await { responses: respond, realtime: converse }[session]()));
