"""What LangChain calls back: calls and tools, each with who began it."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import AsyncCallbackHandler

from tests.clients.runs.words import Node, call_of, run_of, tool_of


class Collector(AsyncCallbackHandler):  # type: ignore[misc]
    """Keeps what LangChain calls back."""

    def __init__(self) -> None:
        self._parents: dict[Any, Any] = {}
        self._answers: dict[Any, Any] = {}
        self._tools: dict[Any, list[Any]] = {}

    async def on_chain_start(self, *_: Any, run_id: Any, parent_run_id: Any, **__: Any) -> None:
        """Graphs and their nodes."""
        self._parents[run_id] = parent_run_id

    async def on_chat_model_start(
        self, *_: Any, run_id: Any, parent_run_id: Any, **__: Any
    ) -> None:
        """A call."""
        self._parents[run_id] = parent_run_id

    async def on_llm_end(self, response: Any, *, run_id: Any, **_: Any) -> None:
        """Its answer."""
        self._answers[run_id] = response.generations[0][0].message

    async def on_tool_start(
        self, serialized: Any, _: str, *, run_id: Any, parent_run_id: Any, inputs: Any, **__: Any
    ) -> None:
        """A tool with its arguments."""
        self._parents[run_id] = parent_run_id
        self._tools[run_id] = [serialized["name"], inputs, None]

    async def on_tool_end(self, output: Any, *, run_id: Any, **_: Any) -> None:
        """Its result; a hand-over is a command to the graph, with the result in its update."""
        told = output.update["messages"][-1] if hasattr(output, "update") else output
        self._tools[run_id][2] = told.content

    def list_below(self, parent: Any) -> list[Node]:
        """What those below one tell; graphs are passed over."""
        below = [one for one, above in self._parents.items() if above == parent]
        return [node for one in below for node in self._read(one)]

    def tell_call(self, message: Any) -> Node:
        """A call, by its answer's id."""
        return call_of(message.response_metadata["id"])

    def _read(self, run_id: Any) -> list[Node]:
        below = self.list_below(run_id)
        if run_id in self._answers:
            return [self.tell_call(self._answers[run_id])]
        if run_id in self._tools:
            name, arguments, result = self._tools[run_id]
            inner = [run_of(arguments["prompt"], result, *below)] if below else []
            return [tool_of(name, arguments, result, *inner)]
        return below
