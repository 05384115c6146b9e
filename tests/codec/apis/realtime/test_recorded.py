"""``codec.apis.realtime.session``: recorded sessions of OpenAI, Azure and xAI, message by message.

A second fold, written here and as simple as can be, says what is to be expected. The recordings
have both generations of names. Their sound was shortened by their source.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from codec.apis.realtime.route import REALTIME
from codec.apis.session import CallEnd
from codec.parts import ToolCall, ToolResult
from codec.said import Ending
from codec.text.jsontext import decode_json, encode_json
from tests.codec.apis.realtime.talk import say, words
from tests.corpus.realtime_recordings import Messages, load_sessions, replay
from tests.corpus.recordings import FOLDER, NEEDS_RECORDINGS

if TYPE_CHECKING:
    from codec.apis.session import SessionCall

pytestmark = NEEDS_RECORDINGS

COUNT = 24
"""How many connections were recorded."""

_KINDS = ("transcript.delta", "text.delta", "arguments.delta")


@dataclass
class Expected:
    """A response, as the second fold sees it."""

    input_ids: list[str]
    inputs: list[str] = field(default_factory=list)
    words: dict[str, str] = field(default_factory=dict)
    sound_bytes: int = 0
    done: dict[str, Any] = field(default_factory=dict)


@cache
def sessions() -> dict[str, Messages]:
    """The messages of each connection."""
    assert FOLDER is not None
    return load_sessions(FOLDER)


def session_at(number: int) -> Messages:
    """The messages of one connection."""
    assert len(sessions()) == COUNT
    return [*sessions().values()][number]


def text_of(item: dict[str, Any]) -> str:
    """What an item says."""
    parts = [part.get("text") or part.get("transcript") or "" for part in item.get("content", [])]
    return "".join([*parts, item.get("arguments", ""), item.get("output", "")])


def expect(messages: Messages) -> list[Expected]:
    """Fold a session by hand."""
    items: dict[str, dict[str, Any]] = {}
    opened: dict[str, Expected] = {}
    for from_client, event in messages:
        kind = event["type"]
        if from_client:
            continue
        if kind in {"conversation.item.added", "conversation.item.created"}:
            items[event["item"]["id"]] = decode_json(encode_json(event["item"]))
        elif kind == "conversation.item.input_audio_transcription.completed":
            part = items[event["item_id"]]["content"][event["content_index"]]
            part["transcript"] = event["transcript"]
        elif kind == "response.created":
            opened[event["response"]["id"]] = Expected([*items])
        elif kind in {"response.output_audio.delta", "response.audio.delta"}:
            opened[event["response_id"]].sound_bytes += len(base64.b64decode(event["delta"]))
        elif kind.endswith(_KINDS) and kind.startswith("response."):
            said = opened[event["response_id"]].words
            said[event["item_id"]] = said.get(event["item_id"], "") + event["delta"]
        elif kind == "response.done":
            response = opened[event["response"]["id"]]
            response.inputs = [text_of(items[each]) for each in response.input_ids]
            response.done = event
            for item in event["response"]["output"]:
                items[item["id"]] = item
    return [*opened.values()]


def read_input(call: SessionCall) -> list[str]:
    """What the messages of a request say, without the instructions."""
    messages = [*REALTIME.ask(call.body, "").read_messages()]
    texts = []
    for message in messages[1 if call.body.get("instructions") else 0 :]:
        text = words(message)
        for part in message.parts:
            if isinstance(part, ToolCall):
                text += part.arguments
            elif isinstance(part, ToolResult):
                text += str(part.value)
        texts.append(text)
    return texts


@pytest.mark.parametrize("continues", [False, True], ids=["whole", "continued"])
@pytest.mark.parametrize("number", range(COUNT))
def test_a_recorded_session_gives_the_calls_that_are_in_it(number: int, *, continues: bool) -> None:
    """Input, answer, counts and ends are those of the second fold."""
    expected = expect(session_at(number))
    calls, _ = replay(session_at(number), continues=continues)
    assert len(calls) == len(expected) > 0
    for call, each in zip(calls, expected, strict=True):
        response = each.done["response"]
        assert call.said is not None
        assert read_input(call) == each.inputs
        assert (call.answer_id, call.end, call.is_partial) == (
            response["id"], CallEnd.ANSWERED, False,
        )  # fmt: skip
        usage = response["usage"] or each.done["usage"]
        counts = call.said.usage
        assert counts is not None
        assert (counts.prompt, counts.completion, counts.prompt_audio, counts.completion_audio) == (
            usage["input_tokens"],
            usage["output_tokens"],
            usage["input_token_details"]["audio_tokens"],
            usage["output_token_details"]["audio_tokens"],
        )
        assert counts.cache_read == usage["input_token_details"].get("cached_tokens")
        arguments = "".join(
            part.arguments
            for answer in call.said.answers
            for part in answer.message.parts
            if isinstance(part, ToolCall)
        )
        said = [*map(text_of, response["output"])]
        assert sorted(say(call) + arguments) == sorted("".join(said))
        assert call.said.finish_reasons == [(0, "completed")]
        assert call.said.ending(streamed=True) is Ending.COMPLETE
        assert call.said.output_bytes == (each.sound_bytes or None)
        assert not call.said.anomalies


@pytest.mark.parametrize("number", range(COUNT))
def test_the_messages_of_a_call_are_its_stream(number: int) -> None:
    """As events over HTTP, they give the same answer as in the session."""
    calls, about = replay(session_at(number))
    for call in calls:
        stream = REALTIME.open_stream(choice_count=1, hides_usage=False, lend=lambda _: True)
        for text in about[id(call)]:
            stream.feed(b"data: " + text + b"\n\n")
        said = stream.finish()
        assert call.said is not None
        assert (said.answers, said.usage, said.body, said.output_bytes, said.anomalies) == (
            call.said.answers, call.said.usage, call.said.body, call.said.output_bytes, (),
        )  # fmt: skip
        assert REALTIME.decode_asked(encode_json(call.body).encode()).body == call.body


@pytest.mark.parametrize("number", range(COUNT))
def test_a_session_may_be_cut_anywhere(number: int) -> None:
    """Each response that began is a call; what was said before the cut is there."""
    messages = session_at(number)
    for end in range(0, len(messages), 7):
        part = messages[:end]
        calls, _ = replay(part)
        expected = expect(part)
        answered = [call for call in calls if call.first_ns is not None]
        assert len(answered) == len(expected)
        for call, each in zip(answered, expected, strict=True):
            assert call.end is (CallEnd.ANSWERED if each.done else CallEnd.CLOSED)
            assert call.said is not None
            if not each.done:
                text = "".join(each.words.values())
                spoken = {growing.kind: "".join(growing.pieces) for growing in call.stream.look()}
                assert sorted(text) == sorted("".join(spoken.values()))
                assert call.said.ending(streamed=True) is Ending.OPEN


def test_no_sound_is_kept() -> None:
    """Neither a body nor an answer has anything of it."""
    for messages in sessions().values():
        sound = [event["audio"] for _, event in messages if event["type"].endswith("append")]
        sound += [event["delta"] for _, event in messages if event["type"].endswith("audio.delta")]
        calls, _ = replay(messages)
        for call in calls:
            assert call.said is not None
            kept = encode_json([call.body, dict(call.said.body)])
            assert not [piece for piece in sound if piece in kept]
