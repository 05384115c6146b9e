"""The WebSockets of the demo upstream: Responses, and Realtime.

Of Responses each ``response.create`` is answered by events. Lanes (``stream_id``) answer at the
same time, and each of them one request after the other. A request that continues a response of the
same connection is answered as if it had the whole conversation. A Realtime session remembers its
conversation itself (:mod:`proxy.demo.realtime_session`).
"""

from __future__ import annotations

import asyncio
import contextlib
from itertools import count
from typing import TYPE_CHECKING, Any

from aiohttp import WSMsgType, web

from codec.apis.faults import build_error
from codec.text.jsontext import decode_json_object, encode_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from codec.apis.player import Performance
    from codec.text.jsontext import JsonObject
    from proxy.demo.realtime_session import RealtimeSession

MAX_WAITING = 64
"""How many requests of a lane may wait."""

MAX_REMEMBERED = 32
"""How many responses of a connection can be continued: the last ones."""


class _Memory:
    """The conversations of a connection: what led to each response, and its output."""

    def __init__(self) -> None:
        self._items: dict[str, list[Any]] = {}  # by the id of the response

    def join(self, body: JsonObject) -> JsonObject:
        """Put what a request continues before its own input."""
        known = self._items.get(str(body.get("previous_response_id")))
        return body if known is None else body | {"input": known + _list_items(body)}

    def keep(self, body: JsonObject, event: JsonObject) -> None:
        """Remember a response whose end this is; nobody continues one that failed."""
        if event["type"] in {"response.completed", "response.incomplete"}:
            response = event["response"]
            self._items[response["id"]] = _list_items(body) + response["output"]
            if len(self._items) > MAX_REMEMBERED:
                del self._items[next(iter(self._items))]


def _list_items(body: JsonObject) -> list[Any]:
    given = body.get("input")
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": given}]
    return given if isinstance(given, list) else []


async def serve_responses(
    request: web.Request,
    perform: Callable[[JsonObject], Performance | JsonObject],
    *,
    first_seconds: float,
    chunk_seconds: float,
) -> web.StreamResponse:
    """Serve a connection to its end.

    Args:
        request: its handshake.
        perform: begins the answer to a request, or returns the body of an error.
        first_seconds: the time from a request to its first event.
        chunk_seconds: the time between two events.
    """
    socket = web.WebSocketResponse(max_msg_size=request.client_max_size)
    await socket.prepare(request)
    memory = _Memory()
    lanes: dict[str | None, asyncio.Queue[JsonObject]] = {}
    async with asyncio.TaskGroup() as group:
        tasks = []

        async def answer_lane(name: str | None, creates: asyncio.Queue[JsonObject]) -> None:
            mark = {} if name is None else {"stream_id": name}
            with contextlib.suppress(ConnectionError):  # a client that left misses nothing
                while True:
                    body = memory.join(await creates.get())
                    generates = body.pop("generate", None) is not False
                    answer = perform(body)
                    await asyncio.sleep(first_seconds)
                    for event in _list_events(answer, generates=generates):
                        memory.keep(body, event)
                        await socket.send_str(encode_json(event | mark))
                        await asyncio.sleep(chunk_seconds)

        async for message in socket:
            if message.type is not WSMsgType.TEXT:
                continue
            try:
                body = decode_json_object(message.data.encode())
            except ValueError:
                body = {}
            if body.pop("type", None) != "response.create":
                error = build_error("The demo upstream knows no such event.")
                await socket.send_str(encode_json({"type": "error", **error}))
                continue
            name = body.pop("stream_id", None)
            if name not in lanes:
                lanes[name] = asyncio.Queue(MAX_WAITING)
                tasks.append(group.create_task(answer_lane(name, lanes[name])))
            await lanes[name].put(body)
        for task in tasks:
            task.cancel()
    return socket


async def serve_realtime(
    request: web.Request,
    session: RealtimeSession,
    *,
    first_seconds: float,
    chunk_seconds: float,
) -> web.StreamResponse:
    """Serve a Realtime session to its end; the times as in :func:`serve_responses`."""
    # Browsers insist on an answer to their subprotocol.
    socket = web.WebSocketResponse(protocols=("realtime",), max_msg_size=request.client_max_size)
    await socket.prepare(request)
    numbers = count()

    async def send(event: JsonObject) -> None:
        with contextlib.suppress(ConnectionError):  # a client that left misses nothing
            await socket.send_str(encode_json({**event, "event_id": f"event_{next(numbers)}"}))

    async def play(events: Iterator[JsonObject]) -> None:
        await asyncio.sleep(first_seconds)
        for event in events:
            await send(event)
            await asyncio.sleep(chunk_seconds)

    await send(session.begin())
    async with asyncio.TaskGroup() as group:
        tasks: set[asyncio.Task[None]] = set()
        async for message in socket:
            answers, response = session.read(message.data if message.type is WSMsgType.TEXT else "")
            for event in answers:
                await send(event)
            if response is not None:
                tasks.add(task := group.create_task(play(response)))
                task.add_done_callback(tasks.discard)
        for task in tasks:
            task.cancel()
    return socket


def _list_events(answer: Performance | JsonObject, *, generates: bool) -> Iterator[JsonObject]:
    """Yield the events of an answer, or of an error.

    A request that only warms the model up (``generate: false``) gets an answer without output.
    """
    if isinstance(answer, dict):
        yield {"type": "error", "status": 400, **answer}
        return
    for events in answer.stream():
        for event in events:
            _, _, data = event.partition(b"data: ")
            said = decode_json_object(data.strip())
            if not generates:
                if not isinstance(said.get("response"), dict):
                    continue
                said["response"] = _without_output(said["response"])
            yield said


def _without_output(response: JsonObject) -> JsonObject:
    usage = response.get("usage")
    if isinstance(usage, dict):
        asked = usage["input_tokens"]
        usage = {"input_tokens": asked, "output_tokens": 0, "total_tokens": asked}
    return {**response, "output": [], "usage": usage}
