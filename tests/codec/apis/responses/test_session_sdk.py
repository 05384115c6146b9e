"""A session of the openai SDK, seen on the wire: its bytes become the calls that it made.

Between the SDK and a server of ours, both of which speak by ``websockets`` and compress, a relay
notes the bytes of each direction. The server plays what OpenAI's guide says of lanes and steering.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from openai import AsyncOpenAI
from openai.lib.responses_websocket import (
    AsyncResponsesWebSocketSession,
    ResponsesWebSocketLimits,
)
from websockets.asyncio.server import ServerConnection, serve

from codec.apis.responses.session import ResponseSession
from codec.apis.session import CallEnd
from codec.text.jsontext import decode_json, encode_json
from codec.websockets import Deflate, MessageKind, MessageParser, read_deflate
from tests.codec.apis.responses.talk import say, text_item

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from codec.apis.session import SessionCall

LIMITS = ResponsesWebSocketLimits(
    max_lanes=4, max_events_per_lane=100, max_events=400, max_bytes_per_lane=1 << 20,
    max_bytes=1 << 22,
)  # fmt: skip


@dataclass
class Wire:
    """A relay of one connection, and all reads of it: whether the client sent them, and bytes."""

    reads: list[tuple[bool, bytes]] = field(default_factory=list)

    @asynccontextmanager
    async def listen(self, upstream_port: int) -> AsyncIterator[int]:
        """Listen on a port for the one connection."""
        done = asyncio.Event()

        async def relay(client: asyncio.StreamReader, answer: asyncio.StreamWriter) -> None:
            server, request = await asyncio.open_connection("127.0.0.1", upstream_port)
            await asyncio.gather(
                self._copy(client, request, from_client=True),
                self._copy(server, answer, from_client=False),
            )
            for writer in (request, answer):
                writer.close()
                await writer.wait_closed()
            done.set()

        listener = await asyncio.start_server(relay, "127.0.0.1", 0)
        async with listener:
            yield listener.sockets[0].getsockname()[1]
            await asyncio.wait_for(done.wait(), 20)

    async def _copy(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, from_client: bool
    ) -> None:
        while data := await source.read(1_000):
            self.reads.append((from_client, data))
            target.write(data)
            await target.drain()
        target.write_eof()

    def read_calls(self) -> tuple[Deflate | None, list[SessionCall]]:
        """Read the calls that ended, in their order, and what the handshake agreed on."""
        session = ResponseSession()
        behind: dict[bool, bytes] = {True: b"", False: b""}
        parsers: dict[bool, MessageParser] = {}
        deflate = read_deflate(self.find_extensions())
        calls: list[SessionCall] = []
        for at_ns, (from_client, data) in enumerate(self.reads):
            rest = data
            if from_client not in parsers:
                behind[from_client] += data
                _, blank, rest = behind[from_client].partition(b"\r\n\r\n")
                if not blank:
                    continue
                parsers[from_client] = MessageParser(from_client=from_client, deflate=deflate)
            for message in parsers[from_client].feed(rest):
                if message.kind is MessageKind.TEXT:
                    changed = session.feed(message.data, from_client=from_client, at_ns=at_ns)
                    calls += [call for call in changed if call.end is not None]
        calls += session.close(len(self.reads))
        return deflate, calls

    def find_extensions(self) -> str | None:
        """Find the extensions in the answer to the handshake."""
        answer = b"".join(data for from_client, data in self.reads if not from_client)
        lines = answer.partition(b"\r\n\r\n")[0].decode().split("\r\n")
        fields = dict(line.split(": ", 1) for line in lines[1:])
        return fields.get("Sec-WebSocket-Extensions")


def response(response_id: str, output: list[Any], status: str, **members: Any) -> dict[str, Any]:
    """A response object with what the SDK wants."""
    return {
        "id": response_id, "object": "response", "created_at": 1, "model": "m-1", "output": output,
        "status": status, "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
        "error": None, "incomplete_details": None, **members,
    }  # fmt: skip


class Provider:
    """Answers in words that come one by one, and can be steered once."""

    def __init__(self) -> None:
        self.tasks: list[asyncio.Task[None]] = []
        self.steered = asyncio.Event()
        self.count = 0

    async def serve(self, connection: ServerConnection) -> None:
        """Serve one connection."""
        async for text in connection:
            message = decode_json(text)
            if message["type"] == "response.create":
                self.tasks.append(asyncio.create_task(self.answer(connection, message)))  # noqa: TID251
            else:
                steer = {"id": "s-1", "previous_response_id": message["previous_response_id"]}
                await self.send(connection, "response.steer.accepted", "A", steer=steer)
                self.steered.set()

    async def send(self, connection: ServerConnection, kind: str, lane: Any, **more: Any) -> None:
        """Send an event."""
        self.count += 1
        event = {"type": kind, "sequence_number": self.count, "stream_id": lane, **more}
        await connection.send(encode_json(event))

    async def answer(self, connection: ServerConnection, create: dict[str, Any]) -> None:
        """Answer a request, and end early if it is to be steered."""
        lane, asked, parent = (
            create["stream_id"],
            create["input"],
            create.get("previous_response_id"),
        )
        await self.say(connection, lane, asked, parent, waits=asked == "count")
        if asked == "count":
            await self.say(connection, lane, "steered", f"r-{asked}", waits=False)

    async def say(
        self, connection: ServerConnection, lane: str, text: str, parent: Any, *, waits: bool
    ) -> None:
        """Say a text, word by word."""
        response_id, item = f"r-{text}", text_item(f"{text} {text}")
        begun = response(response_id, [], "in_progress", previous_response_id=parent)
        await self.send(connection, "response.created", lane, response=begun)
        place = {"item_id": item["id"], "output_index": 0, "content_index": 0, "logprobs": []}
        for word in (text, f" {text}"):
            kind = "response.output_text.delta"
            await self.send(connection, kind, lane, delta=word, **place)
        if waits:
            await self.steered.wait()
        status = "incomplete" if waits else "completed"
        details = {"reason": "steered"} if waits else None
        ended = response(response_id, [item], status, incomplete_details=details)
        await self.send(connection, f"response.{status}", lane, response=ended)


@pytest.mark.parametrize(
    ("compression", "expected"), [(None, None), ("deflate", Deflate())], ids=["plain", "deflate"]
)
async def test_what_the_sdk_says_and_hears_is_what_the_session_has(
    compression: Any, expected: Deflate | None
) -> None:
    """Two lanes at once, a continuation across lanes, and a response that is steered."""
    provider, wire = Provider(), Wire()
    async with serve(provider.serve, "127.0.0.1", 0) as server:
        upstream_port = next(iter(server.sockets)).getsockname()[1]
        async with (
            wire.listen(upstream_port) as port,
            AsyncOpenAI(api_key="k", websocket_base_url=f"ws://127.0.0.1:{port}/v1") as client,
            client.responses.connect(
                websocket_connection_options={"compression": compression}
            ) as connection,
            AsyncResponsesWebSocketSession(connection, limits=LIMITS) as session,
        ):
            first, second = session.lane("A"), session.lane("B")
            await first.send({"type": "response.create", "model": "m-1", "input": "count"})
            await second.send({"type": "response.create", "model": "m-1", "input": "hi"})
            heard = [await second.get_final_response()]
            await first.send(
                {"type": "response.steer", "previous_response_id": "r-count", "input": "faster"}
            )
            heard.append(await first.get_final_response())
            await first.recv()  # the beginning of the successor
            heard.append(await first.get_final_response())
            await second.send(
                {"type": "response.create", "model": "m-1", "input": "on",
                 "previous_response_id": "r-steered"}
            )  # fmt: skip
            heard.append(await second.get_final_response())
    deflate, calls = wire.read_calls()
    assert deflate == expected
    assert [(call.lane, call.answer_id, say(call)) for call in calls] == [
        ("B", "r-hi", "hi hi"), ("A", "r-count", "count count"),
        ("A", "r-steered", "steered steered"), ("B", "r-on", "on on"),
    ]  # fmt: skip
    assert [one.output_text for one in heard] == [say(call) for call in calls]
    assert {call.end for call in calls} == {CallEnd.ANSWERED}
    assert [call.has_request for call in calls] == [True, True, False, True]
    assert not any(call.is_partial for call in calls)
    assert calls[-1].body["input"] == [
        {"role": "user", "content": "count"}, text_item("count count"),
        {"role": "user", "content": "faster"}, text_item("steered steered"),
        {"role": "user", "content": "on"},
    ]  # fmt: skip
