"""Realtime through ``spantap serve``: the ``openai`` SDK talks with a stub of the provider.

The stub hears a question and calls a function, and says only then what was asked, as OpenAI's
servers do; it answers with sound, and can be interrupted.
"""

from __future__ import annotations

import asyncio
import base64
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest
from openai import AsyncOpenAI
from websockets.asyncio.server import serve as serve_sockets
from websockets.typing import Subprotocol

from codec.text.jsontext import decode_json_object, encode_json
from telemetry.reading.stored_calls import open_calls
from telemetry.spans.otlp.decoding import decode_spans
from tests.proxy.running_runs import Runs
from tests.proxy.test_run_command import serve, wait_for
from tests.proxy.test_serve_websockets import host, outcomes, wait_for_calls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from openai.resources.realtime.realtime import (
        AsyncRealtimeConnection,
        AsyncRealtimeConnectionManager,
    )
    from websockets.asyncio.server import ServerConnection

pytestmark = pytest.mark.timeout(120)

KEY = "sk-canary-0123456789abcdef"
SOUND = base64.b64encode(b"\0" * 4_800).decode()
QUESTION, ANSWER = "What time is it?", "It is noon."
REFUSED = "Refuse this."
CLOCK = {"type": "function", "name": "clock", "parameters": {"type": "object", "properties": {}}}
MCP = {
    "type": "mcp",
    "server_label": "files",
    "server_url": "https://mcp.example/sse",
    "authorization": f"{KEY}-mcp",
    "headers": {"X-Token": f"{KEY}-head"},
}
USAGE = {
    "total_tokens": 90,
    "input_tokens": 60,
    "output_tokens": 30,
    "input_token_details": {"text_tokens": 20, "audio_tokens": 40, "cached_tokens": 16},
    "output_token_details": {"text_tokens": 10, "audio_tokens": 20},
}
LIMITS = [{"name": "tokens", "limit": 900, "remaining": 840, "reset_seconds": 2.5}]


class Stub:
    """The provider; it hears one connection."""

    def __init__(self) -> None:
        self.session: dict[str, Any] = {
            "id": "sess_1",
            "object": "realtime.session",
            "model": "gpt-realtime",
            "audio": {"input": {"transcription": {"model": "gpt-4o-transcribe"}}},
        }
        self.port = 0
        self.transcribes = True
        self.path = ""
        self._count = 0

    async def talk(self, socket: ServerConnection) -> None:
        """Answer each message."""
        assert socket.request is not None
        self.path = socket.request.path
        self._socket = socket
        await self._say("session.created", session=self.session)
        async for message in socket:
            event = decode_json_object(message if isinstance(message, bytes) else message.encode())
            await getattr(self, "_hear_" + event["type"].replace(".", "_"), self._hear_other)(event)

    async def _say(self, kind: str, **members: Any) -> None:
        await self._socket.send(encode_json({"type": kind, "event_id": "e", **members}))

    async def _hear_other(self, _: dict[str, Any]) -> None:
        return None

    async def _hear_session_update(self, event: dict[str, Any]) -> None:
        secrets = {"authorization", "headers"}
        tools = [
            {name: it for name, it in tool.items() if name not in secrets}
            for tool in event["session"]["tools"]
        ]
        self.session |= event["session"] | {"tools": tools}
        await self._say("session.updated", session=self.session)

    async def _hear_input_audio_buffer_commit(self, _: dict[str, Any]) -> None:
        """The user's words are known only after the function was called."""
        content = [{"type": "input_audio", "transcript": None}]
        item = {"id": "item_u", "type": "message", "role": "user", "content": content}
        await self._say("input_audio_buffer.committed", item_id="item_u", previous_item_id=None)
        await self._say("conversation.item.added", item=item, previous_item_id=None)
        call = {"type": "function_call", "call_id": "call_1", "name": "clock", "arguments": "{}"}
        await self._answer([call | {"id": "item_c", "status": "completed"}])
        if not self.transcribes:
            return
        await asyncio.sleep(0.5)
        await self._say(
            "conversation.item.input_audio_transcription.completed",
            item_id="item_u",
            content_index=0,
            transcript=QUESTION,
            usage={"type": "tokens", "total_tokens": 7, "input_tokens": 4, "output_tokens": 3},
        )

    async def _hear_conversation_item_create(self, event: dict[str, Any]) -> None:
        item = event["item"] | {"id": f"item_{event['item']['type']}"}
        await self._say("conversation.item.added", item=item, previous_item_id="item_c")

    async def _hear_response_create(self, event: dict[str, Any]) -> None:
        asked = event.get("response") or {}
        if asked.get("instructions") == REFUSED:
            keys = " ".join(f"{KEY}-{place}" for place in ("query", "protocol", "mcp", "head"))
            error = {"type": "invalid_request_error", "message": f"No such keys: {KEY} {keys}"}
            await self._say("error", error=error | {"event_id": event["event_id"]})
            return
        content = [{"type": "output_audio", "transcript": ANSWER}]
        spoken = {"id": f"item_{self._count}", "type": "message", "role": "assistant"}
        ended = "cancelled" if asked.get("metadata") else "completed"
        await self._answer([spoken | {"content": content}], ended, metadata=asked.get("metadata"))

    async def _answer(self, output: list[Any], status: str = "completed", **members: Any) -> None:
        self._count += 1
        response = {"id": f"resp_{self._count}", "object": "realtime.response", **members}
        at = {"response_id": response["id"], "output_index": 0, "content_index": 0}
        begun = {"status": "in_progress", "output": []}
        await self._say("response.created", response=response | begun)
        if "content" in output[0]:
            for piece in (ANSWER[:5], ANSWER[5:]):
                await self._say("response.output_audio_transcript.delta", delta=piece, **at)
                await self._say("response.output_audio.delta", delta=SOUND, **at)
        details = (
            {"type": "cancelled", "reason": "turn_detected"} if status == "cancelled" else None
        )
        ended = {"status": status, "status_details": details, "output": output, "usage": USAGE}
        form = {"output": {"format": {"type": "audio/pcm", "rate": 24_000}}}
        await self._say("response.done", response=response | ended | {"audio": form})
        await self._say("rate_limits.updated", rate_limits=LIMITS)


@pytest.fixture(name="stub")
async def _stub() -> AsyncIterator[Stub]:
    stub = Stub()
    async with serve_sockets(
        stub.talk, "127.0.0.1", 0, subprotocols=[Subprotocol("realtime")]
    ) as server:
        stub.port = server.sockets[0].getsockname()[1]
        yield stub


@pytest.fixture(name="variables")
def _variables() -> dict[str, str]:
    """More settings of the proxy."""
    return {}


@pytest.fixture(name="runs")
async def _runs(stub: Stub, tmp_path: Path, variables: dict[str, str]) -> AsyncIterator[Runs]:
    """A proxy to the stub."""
    settings = {"SPANTAP_UPSTREAM": f"http://127.0.0.1:{stub.port}", "SPANTAP_DRAIN_SECONDS": "1"}
    runs = Runs(folder=tmp_path, variables=settings | variables)
    with serve(runs) as server:
        await asyncio.to_thread(wait_for, server, runs)
        yield runs
        await asyncio.to_thread(server.end)
    runs.see_none_left()


def connect(runs: Runs) -> AsyncRealtimeConnectionManager:
    """A connection of the SDK, with a key wherever one can be."""
    client = AsyncOpenAI(api_key=KEY, base_url=f"http://{host(runs)}/v1", max_retries=0)
    protocols: Any = ["realtime", f"openai-insecure-api-key.{KEY}-protocol"]
    return client.realtime.connect(
        model="gpt-realtime",
        extra_query={"api_key": f"{KEY}-query"},
        websocket_connection_options={"subprotocols": protocols},
    )


async def hear(connection: AsyncRealtimeConnection, kind: str) -> None:
    """Hear events up to one of a kind."""
    async with asyncio.timeout(20):
        while (await connection.recv()).type != kind:
            pass


async def talk(runs: Runs, *, is_refused: bool = False) -> None:
    """Ask by voice; give the function's result; hear the answer, and interrupt the next one."""
    async with connect(runs) as connection:
        await hear(connection, "session.created")
        tools: Any = [CLOCK, MCP]
        settings: Any = {"type": "realtime", "instructions": "Be brief.", "tools": tools}
        await connection.session.update(session=settings)
        await hear(connection, "session.updated")
        await connection.input_audio_buffer.append(audio=SOUND)
        await connection.input_audio_buffer.commit()
        await hear(connection, "conversation.item.input_audio_transcription.completed")
        await connection.conversation.item.create(
            item={"type": "function_call_output", "call_id": "call_1", "output": "12:00"}
        )
        await connection.response.create()
        await hear(connection, "rate_limits.updated")
        await connection.response.create(response={"metadata": {"n": "3"}})
        await hear(connection, "rate_limits.updated")
        if is_refused:
            await connection.response.create(event_id="e1", response={"instructions": REFUSED})
            await hear(connection, "error")


def read_spans(runs: Runs) -> list[dict[str, Any]]:
    """The attributes of the calls' spans, oldest first, and their metadata."""
    with open_calls(runs.store) as reader:
        stored = [each.span for each in reader.newest(100)]
    spans = [span.attributes for each in stored for span in decode_spans(each)]
    found = [dict(it) for it in spans if it.get("openinference.span.kind") == "LLM"]
    for it in found:
        it["metadata"] = decode_json_object(str(it["metadata"]).encode())
    return found


async def test_each_response_of_a_session_is_a_span(runs: Runs, stub: Stub) -> None:
    """With the words that came after it, the calls, the counts by kind, sound, and limits."""
    await talk(runs)
    calls = await wait_for_calls(runs, 3)
    assert calls == [("completed", QUESTION), ("completed", QUESTION), ("cancelled", QUESTION)]
    called, answered, interrupted = read_spans(runs)
    for span in (called, answered, interrupted):
        assert span["session.id"] == span["gen_ai.conversation.id"] == "sess_1"
        assert span["llm.model_name"] == "gpt-realtime"
        assert span["llm.token_count.prompt_details.audio"] == 40
        assert span["llm.token_count.completion_details.audio"] == 20
        assert span["llm.token_count.prompt_details.cache_read"] == 16
        assert span["metadata"]["usage_raw"] == USAGE
    assert called["metadata"]["input_audio"] == {"bytes": 4_800}
    assert called["metadata"]["transcription_usage"][0]["total_tokens"] == 7
    call = "llm.output_messages.0.message.tool_calls.0.tool_call"
    assert called[f"{call}.function.name"] == "clock"
    assert answered["llm.input_messages.3.message.content"] == "12:00"
    transcript = "llm.output_messages.0.message.contents.0.message_content.audio.audio.transcript"
    assert (answered[transcript], interrupted[transcript]) == (ANSWER, ANSWER)
    assert (answered["metadata"]["output_bytes"], answered["metadata"]["output_seconds"]) == (
        9_600,
        0.2,
    )
    assert answered["metadata"]["rate_limits"]["x-ratelimit-remaining-tokens"] == "840"
    assert interrupted["llm.finish_reason"] == "turn_detected"
    with open_calls(runs.store) as reader:
        summaries = [stored.summary for stored in reader.newest(10)]
    assert len({it.columns.conversation for it in summaries}) == 1
    assert f"api_key={KEY}-query" in stub.path  # what is relayed is not touched


async def test_no_key_is_anywhere(runs: Runs) -> None:
    """Neither of the head and the query nor of a tool's server, in spans, store and log.

    Even if the provider quotes them.
    """
    await talk(runs, is_refused=True)
    assert (await wait_for_calls(runs, 4))[-1][0] == "upstream_error"
    with open_calls(runs.store) as reader:
        told = b"".join(stored.span for stored in reader.newest(100))
    assert b"mcp.example" in told
    assert b"No such keys" in told
    assert KEY.encode() not in told
    files = b"".join(path.read_bytes() for path in runs.folder.rglob("*") if path.is_file())
    assert KEY.encode() not in files


@pytest.mark.parametrize("variables", [{"SPANTAP_WEBSOCKET_AUDIO": "true"}])
async def test_sound_is_kept_if_the_operator_asks_for_it(runs: Runs, stub: Stub) -> None:
    """What the user said in the request that it came with, what the model said in its answer."""
    stub.session["audio"]["input"]["format"] = {"type": "audio/pcm", "rate": 24_000}
    await talk(runs)
    await wait_for_calls(runs, 3)
    called, answered, interrupted = read_spans(runs)
    url = "message.contents.0.message_content.audio.audio.url"
    asked, said = f"llm.input_messages.1.{url}", f"llm.output_messages.0.{url}"
    assert called[asked] == f"data:audio/pcm;rate=24000;base64,{SOUND}"
    assert called[asked.replace("url", "transcript")] == QUESTION
    assert called["metadata"]["input_audio"] == {"bytes": 4_800, "seconds": 0.1}
    twice = base64.b64encode(b"\0" * 9_600).decode()
    for span in (answered, interrupted):
        assert span[said] == f"data:audio/pcm;rate=24000;base64,{twice}"
        assert asked not in span
    with open_calls(runs.store) as reader:
        summaries = [stored.summary for stored in reader.newest(10)]
    assert len({it.columns.conversation for it in summaries}) == 1


async def test_sound_is_in_no_span_unasked(runs: Runs) -> None:
    """It is counted."""
    await talk(runs)
    await wait_for_calls(runs, 3)
    with open_calls(runs.store) as reader:
        told = b"".join(stored.span for stored in reader.newest(100))
    assert b"item_u" in told
    assert SOUND[:400].encode() not in told


async def test_a_transcript_that_does_not_come_holds_a_span_back_for_some_seconds(
    runs: Runs, stub: Stub
) -> None:
    """Though nothing more passes on the connection, which stays open."""
    stub.transcribes = False
    async with connect(runs) as connection:
        await connection.input_audio_buffer.commit()
        assert await wait_for_calls(runs, 1) == [("completed", "")]


async def test_a_telemetry_that_is_killed_while_a_span_waits_loses_and_doubles_none(
    runs: Runs,
) -> None:
    """It gets the words as well."""
    async with connect(runs) as connection:
        await connection.input_audio_buffer.commit()
        await hear(connection, "rate_limits.updated")
        [pid] = runs.pids("proxy.processes.telemetry")
        os.kill(pid, signal.SIGKILL)
        await hear(connection, "conversation.item.input_audio_transcription.completed")
        await connection.response.create()
        await hear(connection, "rate_limits.updated")
        calls = await wait_for_calls(runs, 2)
        await asyncio.sleep(0.5)
    assert outcomes(runs) == calls == [("completed", QUESTION)] * 2
