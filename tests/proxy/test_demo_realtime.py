"""Realtime at the demo upstream, over a WebSocket."""

from __future__ import annotations

import asyncio
import contextlib
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import TestServer
from openai.types.realtime import RealtimeServerEvent
from pydantic import TypeAdapter

from codec.text.jsontext import decode_json_object, encode_json
from proxy.demo import realtime_session
from proxy.demo.realtime_session import HEARD
from proxy.demo.script import ENDLESS_MODEL, ERROR_MODEL, FAILING_MODEL
from proxy.demo.upstream import Pace, create_demo_upstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiohttp import ClientWebSocketResponse

EVENTS: TypeAdapter[Any] = TypeAdapter(RealtimeServerEvent)
"""The SDK's own types: an event with a name that it does not know fails."""

WEATHER = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}


class Client:
    """A client that has heard the first event of its session."""

    def __init__(self, socket: ClientWebSocketResponse, created: dict[str, Any]) -> None:
        self.socket = socket
        self.created = created

    async def send(self, kind: str, **members: Any) -> None:
        """Send an event."""
        await self.socket.send_str(encode_json({"type": kind, **members}))

    async def say(self, text: str) -> None:
        """Add an item of the user."""
        content = [{"type": "input_text", "text": text}]
        item = {"type": "message", "role": "user", "content": content}
        await self.send("conversation.item.create", item=item)

    async def hear(self, kind: str) -> list[dict[str, Any]]:
        """The events up to one of a kind."""
        events = []
        async with asyncio.timeout(10):
            while True:
                event = await hear(self.socket)
                events.append(event)
                if event["type"] == kind:
                    return events

    async def fail(self, kind: str, **members: Any) -> dict[str, Any]:
        """Send an event that is refused, and return the error."""
        await self.send(kind, **members)
        [event] = await self.hear("error")
        error: dict[str, Any] = event["error"]
        return error


async def hear(socket: ClientWebSocketResponse) -> dict[str, Any]:
    """The next event, as the SDK's types have it."""
    text = await socket.receive_str()
    EVENTS.validate_json(text, strict=True)
    return decode_json_object(text.encode())


@contextlib.asynccontextmanager
async def connected(model: str = "gpt-demo", **settings: Any) -> AsyncIterator[Client]:
    """A client of the demo upstream; with settings, its session has them."""
    app = create_demo_upstream(pace=Pace(first_seconds=0, chunk_seconds=0.0005))
    async with (
        TestServer(app) as server,
        ClientSession() as session,
        session.ws_connect(server.make_url(f"/v1/realtime?model={model}")) as socket,
    ):
        client = Client(socket, await hear(socket))
        if settings:
            await client.send("session.update", session={"type": "realtime", **settings})
            await client.hear("session.updated")
        yield client


def join(events: list[dict[str, Any]], kind: str) -> str:
    """The deltas of a kind."""
    return "".join(event["delta"] for event in events if event["type"] == f"response.{kind}.delta")


async def test_a_session_says_and_changes_its_settings() -> None:
    """What is changed is merged into what was there."""
    async with connected("gpt-demo-7") as client:
        first = client.created["session"]
        assert (client.created["type"], first["model"]) == ("session.created", "gpt-demo-7")
        audio = {"output": {"voice": "cedar"}}
        await client.send("session.update", session={"instructions": "Be brief.", "audio": audio})
        [updated] = await client.hear("session.updated")
    output = first["audio"]["output"] | {"voice": "cedar"}
    changed = {"instructions": "Be brief.", "audio": first["audio"] | {"output": output}}
    assert updated["session"] == first | changed


async def test_an_answer_is_sound_with_its_transcript() -> None:
    """Sound and transcript come in turns, and the tokens of both are counted."""
    async with connected() as client:
        await client.say("Hello?")
        added, done = await client.hear("conversation.item.done")
        assert added["item"] == done["item"]
        await client.send("response.create")
        events = await client.hear("response.done")
    assert [event["type"] for event in events[:4]] == [
        *("response.created", "response.output_item.added"),
        *("conversation.item.added", "response.content_part.added"),
    ]
    said = join(events, "output_audio_transcript")
    assert said.startswith("Hello! I am a demo model")
    words = len(said.split())
    sounds = [it["delta"] for it in events if it["type"] == "response.output_audio.delta"]
    assert [len(b64decode(sound)) for sound in sounds] == [480] * words
    response = events[-1]["response"]
    assert response["status"] == "completed"
    [item] = response["output"]
    assert item["content"] == [{"type": "output_audio", "transcript": said}]
    usage = response["usage"]
    assert usage["output_token_details"] == {"text_tokens": words, "audio_tokens": words}
    assert usage["total_tokens"] == usage["input_tokens"] + 2 * words


async def test_an_answer_is_text_if_the_session_wants_text() -> None:
    async with connected(output_modalities=["text"]) as client:
        await client.say("Hello?")
        await client.send("response.create")
        events = await client.hear("rate_limits.updated")
    said = join(events, "output_text")
    response = events[-2]["response"]
    [item] = response["output"]
    assert item["content"] == [{"type": "output_text", "text": said}]
    assert response["usage"]["output_token_details"]["audio_tokens"] == 0
    assert not any("audio" in event["type"] for event in events)


async def test_tools_are_called_and_their_results_are_told() -> None:
    """The conversation of the session is what the second response answers."""
    async with connected(tools=[WEATHER], output_modalities=["text"]) as client:
        await client.say("What is the weather like?")
        await client.send("response.create")
        events = await client.hear("response.done")
        calls = events[-1]["response"]["output"]
        arguments = [decode_json_object(call["arguments"]) for call in calls]
        assert arguments == [{"city": "Lisbon"}, {"city": "Oslo"}]
        assert (
            join(events, "function_call_arguments")
            == calls[0]["arguments"] + (calls[1]["arguments"])
        )
        for call, output in zip(calls, ("sunny", "rain"), strict=True):
            item = {"type": "function_call_output", "call_id": call["call_id"], "output": output}
            await client.send("conversation.item.create", item=item)
        await client.send("response.create")
        events = await client.hear("response.done")
    assert join(events, "output_text") == "This is what the tools told me: sunny; rain."


async def test_sound_of_the_user_becomes_an_item_with_a_transcript() -> None:
    """It is counted as tokens of sound by each response that has it in its input."""
    transcription = {"input": {"transcription": {"model": "gpt-demo-transcribe"}}}
    async with connected(audio=transcription) as client:
        sound = b64encode(bytes(48_000)).decode()
        await client.send("input_audio_buffer.append", audio=sound)
        await client.send("input_audio_buffer.clear")
        await client.hear("input_audio_buffer.cleared")
        for _ in range(2):
            await client.send("input_audio_buffer.append", audio=sound)
        await client.send("input_audio_buffer.commit")
        events = await client.hear("conversation.item.input_audio_transcription.completed")
        assert events[-1]["transcript"] == HEARD
        assert events[-1]["usage"] == {"type": "duration", "seconds": 2.0}
        item_id = events[-1]["item_id"]
        await client.send("conversation.item.retrieve", item_id=item_id)
        [retrieved] = await client.hear("conversation.item.retrieved")
        [part] = retrieved["item"]["content"]
        assert part == {"type": "input_audio", "transcript": HEARD}
        await client.send("response.create")
        usage = (await client.hear("response.done"))[-1]["response"]["usage"]
        assert usage["input_token_details"]["audio_tokens"] == 20
        await client.hear("rate_limits.updated")
        await client.send("conversation.item.delete", item_id=item_id)
        await client.hear("conversation.item.deleted")
        await client.send("response.create")
        usage = (await client.hear("response.done"))[-1]["response"]["usage"]
        assert usage["input_token_details"]["audio_tokens"] == 0


async def test_a_cancelled_response_ends_at_once() -> None:
    """What it said until then is an incomplete item, and the next response may begin."""
    async with connected(ENDLESS_MODEL) as client:
        await client.say("Count.")
        await client.send("response.create")
        await client.hear("response.output_audio.delta")
        await client.send("response.cancel")
        events = await client.hear("response.done")
        response = events[-1]["response"]
        assert response["status"] == "cancelled"
        assert response["status_details"] == {"type": "cancelled", "reason": "client_cancelled"}
        [item] = response["output"]
        assert item["status"] == "incomplete"
        assert item["content"][0]["transcript"].startswith("1")
        await client.hear("rate_limits.updated")
        await client.send("conversation.item.truncate", item_id=item["id"], audio_end_ms=10)
        [error] = await client.hear("conversation.item.truncated")
        assert error["item_id"] == item["id"]
        error = await client.fail("response.cancel")
        assert error["code"] == "response_cancel_not_active"


async def test_a_second_response_has_to_stand_outside_of_the_conversation() -> None:
    """It has its own input, and its items belong to no conversation."""
    async with connected(ENDLESS_MODEL) as client:
        await client.send("response.create")
        await client.hear("response.output_audio.delta")
        await client.send("response.create", event_id="second")
        error = (await client.hear("error"))[-1]["error"]
        assert error["code"] == "conversation_already_has_active_response"
        assert error["event_id"] == "second"
        aside = {
            "conversation": "none",
            "output_modalities": ["text"],
            "max_output_tokens": 2,
            "metadata": {"topic": "aside"},
            "input": [{"type": "message", "role": "user", "content": []}],
        }
        await client.send("response.create", response=aside)
        events = await client.hear("response.done")
        response = events[-1]["response"]
        assert (response["conversation_id"], response["metadata"]) == (None, {"topic": "aside"})
        assert response["status_details"] == {"type": "incomplete", "reason": "max_output_tokens"}
        [item] = response["output"]
        await client.send("conversation.item.retrieve", item_id=item["id"])
        error = (await client.hear("error"))[-1]["error"]
        assert error["code"] == "item_retrieve_invalid_item_id"


@pytest.mark.parametrize(
    ("model", "code"), [(ERROR_MODEL, "rate_limit_exceeded"), (FAILING_MODEL, "server_error")]
)
async def test_a_failed_response_says_why(model: str, code: str) -> None:
    """The session goes on."""
    async with connected(model) as client:
        for _ in range(2):
            await client.send("response.create")
            response = (await client.hear("response.done"))[-1]["response"]
            assert response["status"] == "failed"
            assert response["status_details"]["error"]["code"] == code
            await client.hear("rate_limits.updated")


@pytest.mark.parametrize(
    ("event", "code"),
    [
        ({"type": "response.invent"}, "invalid_value"),
        ({"type": ["response.create"]}, "invalid_value"),
        ({"type": "conversation.item.create"}, "missing_required_parameter"),
        (
            {
                "type": "conversation.item.create",
                "previous_item_id": "item_none",
                "item": {"type": "message"},
            },
            "item_create_invalid_previous_item_id",
        ),
        (
            {"type": "conversation.item.delete", "item_id": "item_none"},
            "item_delete_invalid_item_id",
        ),
        ({"type": "input_audio_buffer.commit"}, "input_audio_buffer_commit_empty"),
    ],
)
async def test_an_event_that_cannot_be_obeyed_is_an_error(event: dict[str, Any], code: str) -> None:
    """The error names the event, and the session goes on."""
    async with connected(output_modalities=["text"]) as client:
        await client.socket.send_str(encode_json({**event, "event_id": "mine"}))
        [refused] = await client.hear("error")
        assert (refused["error"]["code"], refused["error"]["event_id"]) == (code, "mine")
        await client.socket.send_str("words")
        [refused] = await client.hear("error")
        assert "could not parse" in refused["error"]["message"]
        await client.send("response.create")
        assert (await client.hear("response.done"))[-1]["response"]["status"] == "completed"


async def test_items_have_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one, behind another one, or the last; the oldest ones are forgotten."""
    monkeypatch.setattr(realtime_session, "MAX_ITEMS", 3)
    async with connected() as client:
        befores = []
        for name, after in (("b", None), ("a", "root"), ("d", None), ("c", "b")):
            item = {"id": name, "type": "message", "role": "user", "content": []}
            await client.send("conversation.item.create", item=item, previous_item_id=after)
            [_, done] = await client.hear("conversation.item.done")
            befores.append(done["previous_item_id"])
        assert befores == [None, None, "b", "b"]
        assert (await client.fail("conversation.item.retrieve", item_id="a"))["code"]
