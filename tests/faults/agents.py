"""Agents at work: an upstream that calls tools as it is asked, and many agents that use them.

Each agent asks two questions of its own. To the first the model calls two tools at once, then one
more, and answers; to the second it calls two, and answers. What each did is its log, and what spans
must tell (:meth:`Agent.trees`).
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import aiohttp
from aiohttp import web

from codec.text.jsontext import decode_json_object, encode_json
from tests.run_trees import Node

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from concurrent.futures import Future

__all__ = ("CALLS", "RUNS", "TOOLS", "Agent", "AgentStage")

T = TypeVar("T")

STEPS: Final = ((2, 1), (2,))
"""How many tools each answer to a question calls, before the one that calls none."""

RUNS: Final = len(STEPS)
CALLS: Final = sum(len(steps) + 1 for steps in STEPS)
TOOLS: Final = sum(map(sum, STEPS))
"""Of each agent: what it asks, how often it calls the model, and how many tools it uses."""

ANSWER_SECONDS: Final = 0.05
"""How long a streamed answer takes at least."""

CALL_SECONDS: Final = 120.0
"""How long an agent tries to get an answer, while spantap is started again."""


@dataclass(kw_only=True)
class Agent:
    """One agent, and the log of what it did.

    Attributes:
        name: in all that it says.
        answers: by question the ids of the answers that it got.
        trees: what spans must tell of each question.
        trouble: answers that were none, by what they were.
    """

    name: str
    answers: list[list[str]] = field(default_factory=list)
    trees: list[Node] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)


class AgentStage:
    """The upstream and the agents, on a thread of their own; use it as a context manager.

    Args:
        tool_seconds: how long tools take at most; a quarter of that at least.
    """

    def __init__(self, tool_seconds: float) -> None:
        self._tool_seconds = tool_seconds
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        self.url = self._run(self._open()).result(30)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._run(self._close()).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    def work(self, port: int, names: list[str]) -> Future[list[Agent]]:
        """Let agents of these names begin, all at once; their logs, when all are done."""
        return self._run(self._work(port, names))

    def _run(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _open(self) -> str:
        app = web.Application(client_max_size=1 << 24)
        app.router.add_post("/v1/chat/completions", _answer)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, backlog=1024)
        await site.start()
        self._session = aiohttp.ClientSession(
            # Connections of their own: the kernel spreads them over workers.
            connector=aiohttp.TCPConnector(limit=0, force_close=True),
            timeout=aiohttp.ClientTimeout(total=CALL_SECONDS),
        )
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"

    async def _close(self) -> None:
        await self._session.close()
        await self._runner.cleanup()

    async def _work(self, port: int, names: list[str]) -> list[Agent]:
        agents = [Agent(name=name) for name in names]
        await asyncio.gather(*(self._live(port, agent) for agent in agents))
        return agents

    async def _live(self, port: int, agent: Agent) -> None:
        dice = random.Random(agent.name)
        messages: list[dict[str, Any]] = []
        for turn in range(RUNS):
            asked = f"Question {turn} of {agent.name}"
            messages.append({"role": "user", "content": asked})
            agent.answers.append([])
            done: list[Node] = []
            answered = None
            while answered is None:
                told = await self._call(port, agent, messages, is_stream=dice.random() < 0.5)
                agent.answers[-1].append(told["id"])
                done.append(Node.of_call(told["id"]))
                message = told["choices"][0]["message"]
                messages.append(message)
                for call in message.get("tool_calls") or ():
                    name, arguments = call["function"]["name"], call["function"]["arguments"]
                    result = f"What {call['id']} found for {agent.name}"
                    messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
                    done.append(Node.of_tool(name, decode_json_object(arguments), result))
                if message.get("tool_calls"):
                    await asyncio.sleep(dice.uniform(0.25, 1.0) * self._tool_seconds)
                else:
                    answered = message["content"]
            agent.trees.append(Node.of_run(asked, answered, *done))

    async def _call(
        self, port: int, agent: Agent, messages: list[dict[str, Any]], *, is_stream: bool
    ) -> dict[str, Any]:
        """Call the model; while nobody listens, for spantap is started again, try again."""
        body = encode_json({"model": "m-1", "messages": messages, "stream": is_stream})
        headers = {
            "content-type": "application/json",
            "authorization": f"Bearer sk-{agent.name}-{'0' * 12}",
        }
        until = time.monotonic() + CALL_SECONDS
        while True:
            try:
                async with self._session.post(
                    f"http://127.0.0.1:{port}/v1/chat/completions", data=body, headers=headers
                ) as response:
                    data = await response.read()
                    assert response.status == 200, (response.status, data)
                    return _read_stream(data) if is_stream else dict(decode_json_object(data))
            except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError):
                assert time.monotonic() < until
                await asyncio.sleep(0.05)


async def _answer(request: web.Request) -> web.StreamResponse:
    """Answer with the next step of the agent that asks."""
    body = decode_json_object(await request.read())
    roles = [message["role"] for message in body["messages"]]
    turn = roles.count("user") - 1
    step = roles[::-1][: roles[::-1].index("user")].count("assistant")
    asked = [one["content"] for one in body["messages"] if one["role"] == "user"][-1]
    message = _make_message(asked, turn, step)
    told = {"id": f"chatcmpl-{_make_id(asked, str(step))}", "created": 1, "model": "m-1"}
    if not body["stream"]:
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return web.json_response(
            told | {"object": "chat.completion", "choices": [choice]}, dumps=encode_json
        )
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    for choices in _make_deltas(message):
        event = encode_json(told | {"object": "chat.completion.chunk", "choices": choices})
        await response.write(f"data: {event}\n\n".encode())
        await asyncio.sleep(ANSWER_SECONDS / 4)
    await response.write(b"data: [DONE]\n\n")
    return response


def _make_message(asked: str, turn: int, step: int) -> dict[str, Any]:
    if step == len(STEPS[turn]):
        return {"role": "assistant", "content": f"So much for: {asked}"}
    calls = [
        {
            "id": f"call_{_make_id(asked, f'{step} {number}')}",
            "type": "function",
            "function": {
                "name": f"look_{number}",
                "arguments": encode_json({"of": asked, "step": step, "number": number}),
            },
        }
        for number in range(STEPS[turn][step])
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def _make_deltas(message: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The choices of each event of a stream."""
    calls = message.get("tool_calls") or []
    parts: list[dict[str, Any]] = [{"role": "assistant", "content": message["content"]}]
    parts += [{"tool_calls": [{"index": at, **call}]} for at, call in enumerate(calls)]
    reason = "tool_calls" if calls else "stop"
    deltas: list[dict[str, Any]] = [
        {"index": 0, "delta": part, "finish_reason": None} for part in parts
    ]
    return [[delta] for delta in (*deltas, {"index": 0, "delta": {}, "finish_reason": reason})]


def _read_stream(data: bytes) -> dict[str, Any]:
    """The answer that a stream tells."""
    events = [line[6:] for line in data.split(b"\n") if line.startswith(b"data: ")]
    assert events[-1] == b"[DONE]", data[-200:]
    told = [decode_json_object(event) for event in events[:-1]]
    deltas = [one["choices"][0]["delta"] for one in told if one["choices"]]
    calls = [
        {name: value for name, value in call.items() if name != "index"}
        for delta in deltas
        for call in delta.get("tool_calls", ())
    ]
    message: dict[str, Any] = {"role": "assistant", "content": deltas[0]["content"]}
    if calls:
        message["tool_calls"] = calls
    return {"id": told[0]["id"], "choices": [{"message": message}]}


def _make_id(*told: str) -> str:
    """An id as a provider makes it, the same whenever the same is asked."""
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    digest = blake2b(" ".join(told).encode(), digest_size=24).digest()
    return "".join(letters[byte % len(letters)] for byte in digest)
