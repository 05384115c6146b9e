// LangChain for Node: a clerk hands over to a skipper, who has a pilot as a tool. Prints what
// LangChain's own tracer says of two questions, as tests/clients/runs/words.py has it.

import { BaseTracer } from "@langchain/core/tracers/base";
import { ToolMessage } from "@langchain/core/messages";
import {
  Command,
  getCurrentTaskInput,
  MemorySaver,
  MessagesAnnotation,
  START,
  StateGraph,
} from "@langchain/langgraph";
import { ChatOpenAI } from "@langchain/openai";
import { createAgent, tool } from "langchain";

const isStreamed = process.argv[2] === "streamed";
const TASK = "Find out how deep the entrance is, and when the tide is high there.";

class Collector extends BaseTracer {
  name = "collector";
  roots = [];

  persistRun(run) {
    this.roots.push(run);
  }

  // A call, a tool, or what is below anything else.
  static tell(run) {
    const below = run.child_runs.flatMap(Collector.tell);
    if (run.run_type === "llm") {
      const { message } = run.outputs.generations[0][0];
      return [["LLM", [message.text, (message.tool_calls ?? []).map(({ name }) => name)], []]];
    }
    if (run.run_type !== "tool") return below;
    const given = run.inputs;
    const { output } = run.outputs;
    const result = output.update?.messages.at(-1) ?? output;
    const inner = below.length ? [["AGENT", [given.prompt, result.content], below]] : [];
    return [["TOOL", [run.name, given, result.content], inner]];
  }
}

const model = new ChatOpenAI({ model: "gpt-demo", streaming: isStreamed });
const schema = (name) => ({
  type: "object",
  properties: { [name]: { type: "string" } },
  required: [name],
});
const lookUp = (name, description, told) =>
  tool(({ place }) => `${place}: ${told}`, { name, description, schema: schema("place") });

const pilot = createAgent({
  model,
  tools: [
    lookUp("look_up_depth", "The depth at a place.", "11.5 metres"),
    lookUp("look_up_tides", "The tides at a place.", "high at 04:12"),
  ],
  systemPrompt: "You are a pilot of the port.",
});
const askPilot = tool(
  async ({ prompt }, config) => {
    const told = await pilot.invoke({ messages: [{ role: "user", content: prompt }] }, config);
    return told.messages.at(-1).text;
  },
  { name: "ask_pilot", description: "Has a pilot find something out.", schema: schema("prompt") },
);
const handOver = tool(
  (_, config) => {
    const told = new ToolMessage({
      content: "The skipper takes over.",
      tool_call_id: config.toolCall.id,
    });
    const { messages } = getCurrentTaskInput(config);
    return new Command({
      goto: "skipper",
      update: { messages: [...messages, told] },
      graph: Command.PARENT,
    });
  },
  {
    name: "transfer_to_skipper",
    description: "Hands over to the skipper.",
    schema: { type: "object", properties: {} },
  },
);
const weather = lookUp("get_weather", "The weather at a place.", "north wind, 15 knots");
const clerk = createAgent({ model, tools: [weather, handOver], systemPrompt: "Be brief." });
const skipper = createAgent({ model, tools: [askPilot], systemPrompt: "You are a skipper." });
const port = new StateGraph(MessagesAnnotation)
  .addNode("clerk", clerk.graph, { ends: ["skipper"] })
  .addNode("skipper", skipper.graph)
  .addEdge(START, "clerk")
  .compile({ checkpointer: new MemorySaver() });

const done = [];
for (const question of [
  `I sail to Lisbon on Saturday. What should I know?
call get_weather {"place": "Lisbon"}
call transfer_to_skipper {}
call ask_pilot ${JSON.stringify({ prompt: TASK })}`,
  `And what about Sunday?
call get_weather {"place": "Oslo"}`,
]) {
  const collector = new Collector();
  const asked = { messages: [{ role: "user", content: question }] };
  const config = { callbacks: [collector], configurable: { thread_id: "port" } };
  if (isStreamed) {
    const options = { ...config, streamMode: "messages", subgraphs: true };
    for await (const _ of await port.stream(asked, options));
  } else {
    await port.invoke(asked, config);
  }
  const { values } = await port.getState(config);
  const below = collector.roots.flatMap(Collector.tell);
  done.push(["AGENT", [question, values.messages.at(-1).text], below]);
}
console.log(JSON.stringify(done));
