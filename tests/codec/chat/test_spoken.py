"""Answers in sound and in images, beside the content of a chat's message."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.lib.streaming._deltas import accumulate_delta

from codec.chat.accumulator import Accumulator
from codec.chat.completion import build_completion
from codec.chat.messages import read_message
from codec.chat.response import decode_response
from codec.growing_text import TextKind
from codec.parts import Media
from codec.text.base64_text import MAX_KEPT_CHARS
from codec.text.jsontext import encode_json
from tests.codec.test_error_objects import json_values

if TYPE_CHECKING:
    from codec.chat.answer import ChatMessage, ChatResponse

PNG = "data:image/png;base64,iVBORw0KGgo="
SPOKEN = Media(
    kind="audio", data="AAAA", file_id="audio_1", transcript="Left here.", is_beside_content=True
)
DRAWN = Media(kind="image", url=PNG, is_beside_content=True)


def image(url: Any = PNG) -> dict[str, Any]:
    """One entry of ``images``."""
    return {"type": "image_url", "index": 0, "image_url": {"url": url}}


def stream(*deltas: dict[str, Any]) -> Accumulator:
    """A fold of these deltas."""
    accumulator = Accumulator()
    for delta in deltas:
        accumulator.feed({"choices": [{"index": 0, "delta": delta}]})
    return accumulator


def plain(**message: Any) -> ChatResponse:
    """A plain answer."""
    body = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    return decode_response(encode_json(body).encode())


def message_of(response: ChatResponse) -> ChatMessage:
    return response.choices[0].message


def test_a_spoken_answer_is_put_together() -> None:
    """Words and sound of all deltas are one text each; the first of them is timed."""
    begun = stream({"role": "assistant", "audio": {"id": "audio_1", "expires_at": 1}})
    assert not begun.has_content
    spoken = stream(
        {"role": "assistant", "audio": {"id": "audio_1", "transcript": "Left "}},
        {"audio": {"data": "AA"}},
        {"audio": {"transcript": "here.", "data": "AA"}},
        {"audio": {"expires_at": 9}},
    )
    assert spoken.has_content
    assert stream({"audio": {"data": "AA"}}).has_content
    [text] = spoken.look()
    assert (text.kind, [*text.pieces]) == (TextKind.TEXT, ["Left ", "here."])
    response = spoken.response()
    assert message_of(response).read().parts == (SPOKEN,)
    assert response.body["choices"][0]["message"] == {
        "role": "assistant",
        "audio": {"id": "audio_1", "expires_at": 9, "transcript": "Left here.", "data": "AAAA"},
    }


def test_an_answer_says_the_same_streamed_and_plain() -> None:
    """Also once it was put together to a whole one."""
    audio = {"id": "audio_1", "transcript": "Left here.", "data": "AAAA", "expires_at": 1}
    whole = {"role": "assistant", "content": None, "audio": audio, "images": [image()]}
    answer = plain(**whole)
    assert message_of(answer).read().parts == (SPOKEN, DRAWN)
    streamed = stream(whole, {"images": [image()]}).response()
    assert message_of(streamed) == message_of(answer)
    again = decode_response(encode_json(build_completion(streamed)).encode())
    assert message_of(again) == message_of(answer)


def test_what_was_drawn_stands_behind_the_text_and_before_calls() -> None:
    """In a plain answer and in a stream; the same image twice is one."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    said = {"content": "Here.", "images": [image(), image(), image("https://x.test/a.png")]}
    answer = message_of(plain(**said, tool_calls=[call]))
    assert [*map(type, answer.read().parts)][:3] == [str, Media, Media]
    assert [one.url for one in answer.images] == [PNG, "https://x.test/a.png"]
    folded = stream({"images": [image()]})
    assert folded.has_content
    assert message_of(folded.response()).images == (DRAWN,)


@pytest.mark.parametrize("is_streamed", [False, True])
def test_the_length_stands_for_long_sound(*, is_streamed: bool) -> None:
    """It tells a reader nothing, and would take the room of what was said behind it."""
    pieces = ["A" * 4_000] * 5_000
    if is_streamed:
        deltas = [{"audio": {"data": piece}} for piece in pieces]
        answer = stream(*deltas, {"audio": {"transcript": "Left here."}}).response()
    else:
        answer = plain(content=None, audio={"data": "".join(pieces), "transcript": "Left here."})
    assert "observer_limit" not in answer.anomalies
    assert message_of(answer).audio == Media(
        kind="audio", transcript="Left here.", is_beside_content=True
    )
    told = answer.body["choices"][0]["message"]["audio"]
    assert told == {"data": "<20000000 base64 characters>", "transcript": "Left here."}
    short = plain(content=None, audio={"data": "A" * MAX_KEPT_CHARS})
    assert message_of(short).audio is not None
    assert short.body["choices"][0]["message"]["audio"] == {"data": "A" * MAX_KEPT_CHARS}


def test_pieces_that_end_each_are_no_sound_together() -> None:
    """No decoder could read what they are, joined."""
    folded = stream({"audio": {"data": "AA=="}}, {"audio": {"data": "AA==", "id": "a"}}).response()
    assert message_of(folded).audio == Media(kind="audio", file_id="a", is_beside_content=True)


def test_a_client_sends_sound_and_images_back() -> None:
    """The sound by its id (OpenAI), or all of the message as it came."""
    told = read_message({"role": "assistant", "audio": {"id": "audio_1"}})
    assert told.parts == (Media(kind="audio", file_id="audio_1", is_beside_content=True),)
    audio = {"id": "audio_1", "data": "AAAA", "transcript": "Left here.", "expires_at": 1}
    said = {"role": "assistant", "content": "Aye", "audio": audio, "images": [image()]}
    assert read_message(said).parts == ("Aye", SPOKEN, DRAWN)


_PIECES = st.fixed_dictionaries(
    {}, optional={"transcript": st.text(max_size=5), "data": st.text("AB", max_size=4)}
)


@given(st.lists(_PIECES, min_size=1))
def test_pieces_are_joined_as_the_sdk_joins_them(pieces: list[dict[str, str]]) -> None:
    """openai-python puts the same sound together."""
    said: dict[object, object] = {}
    for piece in pieces:
        said = accumulate_delta(said, {"audio": copy.deepcopy(piece)})
    folded = stream(*({"audio": piece} for piece in pieces)).response().body["choices"][0]
    theirs = said["audio"]
    assert isinstance(theirs, dict)
    assert folded.get("message", {}).get("audio", {}) == theirs


@given(audio=json_values, images=json_values | st.lists(json_values))
def test_nothing_raises(audio: Any, images: Any) -> None:
    """Whatever the members hold."""
    said = {"role": "assistant", "audio": audio, "images": images}
    stream(said, said).response()
    plain(**said)
    read_message(said)
