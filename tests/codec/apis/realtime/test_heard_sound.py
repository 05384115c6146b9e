"""Sound of Realtime sessions that is kept, because the operator asks for it."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from codec.apis.realtime.asked import RealtimeRequest
from codec.apis.realtime.route import REALTIME
from codec.apis.realtime.session import RealtimeSession
from codec.apis.realtime.stream import RealtimeStream
from codec.apis.session import write_event
from codec.history_items import read_history_items
from codec.kept_sound import MAX_SOUND_BYTES
from codec.parts import Media
from codec.text.jsontext import encode_json
from tests.codec.apis.realtime.talk import Talk, spoken, user

PCM = {"audio": {"input": {"format": {"type": "audio/pcm", "rate": 24_000}}}}
HELLO = bytes(range(64))


def encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def begin(session: RealtimeSession | None = None, **settings: Any) -> Talk:
    """A session that keeps sound."""
    talk = Talk(session=session or RealtimeSession(keeps_sound=True))
    talk.begin(**(settings or PCM))
    return talk


def speak(talk: Talk, item_id: str, *pieces: bytes, transcript: str | None = None) -> None:
    """Say something, and have it in the conversation."""
    for piece in pieces:
        talk.ask("input_audio_buffer.append", audio=encode(piece))
    talk.ask("input_audio_buffer.commit")
    talk.event("input_audio_buffer.committed", item_id=item_id, previous_item_id=None)
    talk.add(user(item_id, transcript))


def heard(body: Any) -> list[Any]:
    """The sound of each item of a request."""
    return [item["content"][0].get("audio") for item in body["input"]]


def test_what_the_user_said_is_in_the_request_that_it_came_with_and_in_no_later_one() -> None:
    """Its pieces are joined as they came, under the format that the session names."""
    talk = begin()
    speak(talk, "u-1", HELLO[:5], HELLO[5:], transcript="Hello")
    one = talk.answer("r-1", "Hi")
    assert heard(one.body) == [{"data": encode(HELLO), "format": "pcm;rate=24000"}]
    speak(talk, "u-2", b"1234", transcript="Well?")
    two = talk.answer("r-2", "Yes")
    assert heard(two.body) == [None, None, {"data": "MTIzNA==", "format": "pcm;rate=24000"}]
    assert two.body["input_audio"] == {"bytes": 4, "seconds": 0.0}
    [message] = RealtimeRequest(dict(one.body)).read_messages()
    assert message.parts == (
        Media(
            kind="audio",
            data=encode(HELLO),
            mime_type="audio/pcm;rate=24000",
            transcript="Hello",
            is_of_session=True,
        ),
    )


@pytest.mark.parametrize("transcript", ["Hello", None])
def test_the_conversation_continues_although_later_requests_lack_the_sound(
    transcript: str | None,
) -> None:
    """The items of a request are those at the beginning of the next one."""
    talk = begin()
    speak(talk, "u-1", HELLO, transcript=transcript)
    one = talk.answer("r-1", "Hi")
    two = talk.answer("r-2", "Yes")
    known, now = (
        read_history_items(RealtimeRequest(dict(call.body)).read_messages()) for call in (one, two)
    )
    assert known is not None
    assert now is not None
    assert now.history[: len(known.history)] == known.history != []


def test_a_transcript_that_comes_late_leaves_the_sound_in_its_place() -> None:
    """The request gets another body, with both."""
    talk = begin()
    speak(talk, "u-1", HELLO)
    talk.created("r-1")
    talk.event(
        "conversation.item.input_audio_transcription.completed",
        item_id="u-1",
        content_index=0,
        transcript="Hello",
    )
    [item] = talk.end("r-1", [spoken("a-1", "Hi")]).body["input"]
    assert item["content"][0]["transcript"] == "Hello"
    assert item["content"][0]["audio"]["data"] == encode(HELLO)


def test_of_a_long_sound_the_end_is_kept_and_the_rest_counted() -> None:
    """A microphone that is always on sends mostly silence before."""
    talk = begin()
    speak(talk, "u-1", b"\0" * 1_001, *[b"\1" * 8_192] * (MAX_SOUND_BYTES // 8_192))
    [sound] = heard(talk.answer("r-1", "Hi").body)
    assert base64.b64decode(sound["data"]) == b"\1" * (MAX_SOUND_BYTES - 1)
    assert sound["missing_bytes"] == 1_002  # whole samples


def test_sound_that_the_client_takes_back_is_not_kept() -> None:
    """It belongs to no item."""
    talk = begin()
    talk.ask("input_audio_buffer.append", audio=encode(b"noise!"))
    talk.ask("input_audio_buffer.clear")
    speak(talk, "u-1", HELLO)
    assert heard(talk.answer("r-1", "Hi").body)[0]["data"] == encode(HELLO)


def test_the_items_of_many_commits_take_a_limited_room() -> None:
    """The oldest ones lose their sound, and the request says so."""
    talk = begin()
    for number in range(40):
        speak(talk, f"u-{number}", bytes(49_152))
    assert talk.session.held_bytes <= 1024 * 1024
    call = talk.answer("r-1", "Hi")
    assert [sound is not None for sound in heard(call.body)] == [False] * 24 + [True] * 16
    assert call.is_partial
    assert not talk.answer("r-2", "Yes").is_partial


def test_sound_is_given_up_if_others_need_the_room() -> None:
    """Its request is partial; what comes afterwards is kept again."""
    talk = begin()
    speak(talk, "u-1", HELLO)
    talk.created("r-1")
    talk.ask("input_audio_buffer.append", audio=encode(b"lost"))
    assert talk.session.held_bytes == len(encode(HELLO)) + 4
    talk.session.give_up()
    assert talk.session.held_bytes == 0
    call = talk.end("r-1", [spoken("a-1", "Hi")])
    assert (heard(call.body), call.is_partial) == ([None], True)
    speak(talk, "u-2", HELLO)
    sound = heard(talk.answer("r-2", "Yes").body)[-1]
    assert (sound["data"], sound["missing_bytes"]) == (encode(HELLO), 4)


def test_sound_that_is_given_up_before_a_request_has_it_makes_that_partial() -> None:
    """Whether an item has it already, or it is still under way."""
    talk = begin()
    speak(talk, "u-1", HELLO)
    talk.session.give_up()
    assert talk.answer("r-1", "Hi").is_partial
    talk.ask("input_audio_buffer.append", audio=encode(HELLO))
    talk.session.give_up()
    speak(talk, "u-2")
    call = talk.answer("r-2", "Yes")
    assert heard(call.body)[-1] == {"data": "", "format": "pcm;rate=24000", "missing_bytes": 64}


def test_the_room_is_free_when_the_call_has_ended() -> None:
    """Nothing of a sound stays in the session."""
    talk = begin()
    speak(talk, "u-1", HELLO)
    talk.answer("r-1", "Hi")
    assert talk.session.held_bytes == 0
    assert encode(HELLO).encode() not in (talk.session.state or b"")


def test_a_session_that_continues_another_says_what_it_did_not_hear() -> None:
    """The state has no sound, so that it stays small."""
    talk = begin()
    talk.ask("input_audio_buffer.append", audio=encode(b"before"))
    state = talk.session.state
    assert state is not None
    talk.session = RealtimeSession(state=state, keeps_sound=True)
    speak(talk, "u-1", HELLO)
    state = talk.session.state
    call = talk.answer("r-1", "Hi")
    [sound] = heard(call.body)
    assert (sound["data"], sound["missing_bytes"], call.is_partial) == (encode(HELLO), 6, False)
    assert state is not None
    talk.session = RealtimeSession(state=state, keeps_sound=True)  # behind the end of the item
    assert talk.answer("r-1", "Hi").is_partial


def test_sound_is_not_kept_unasked() -> None:
    """It is counted."""
    talk = begin(RealtimeSession())
    speak(talk, "u-1", HELLO)
    call = talk.answer("r-1", "Hi")
    assert heard(call.body) == [None]
    assert call.body["input_audio"]["bytes"] == len(HELLO)


@pytest.mark.parametrize(
    ("settings", "form"),
    [
        ({"audio": {"input": {"format": {"type": "audio/pcmu"}}}}, "pcmu"),
        ({"input_audio_format": "g711_alaw"}, "pcma"),
        ({"input_audio_format": "pcm16", "input_audio_sampling_rate": 16_000}, "pcm;rate=16000"),
        ({"voice": "alloy"}, None),
    ],
)
def test_the_format_is_the_session_s(settings: dict[str, Any], form: str | None) -> None:
    """By both generations of names; none is guessed."""
    talk = begin(**settings)
    speak(talk, "u-1", HELLO)
    [sound] = heard(talk.answer("r-1", "Hi").body)
    assert sound.get("format") == form


@pytest.mark.parametrize("piece", ["", "=", "no base64 \N{SNOWMAN}", None, 7])
def test_what_is_no_base64_is_left_out(piece: Any) -> None:
    """Nothing raises, in either direction."""
    talk = begin()
    talk.ask("input_audio_buffer.append", audio=piece)
    speak(talk, "u-1", HELLO)
    stream = RealtimeStream(keeps_sound=True)
    stream.feed_message(write_sound("a-1", piece))
    stream.feed_message(write_end([spoken("a-1", "Hi")]))
    assert heard(talk.answer("r-1", "Hi").body)[0]["data"] == encode(HELLO)
    assert "audio" not in stream.finish().items[0]["content"][0]


def write_sound(item_id: str, delta: Any, **members: Any) -> bytes:
    """An event with a piece of the answer's sound."""
    event = {"type": "response.output_audio.delta", "item_id": item_id, "delta": delta, **members}
    return encode_json(event).encode()


def write_end(output: list[Any]) -> bytes:
    """The event that ends an answer."""
    response = {"id": "r-1", "status": "completed", "output": output}
    settings = {"output_audio_format": "pcm16"}
    return encode_json({"type": "response.done", "response": response | settings}).encode()


@pytest.mark.parametrize("place", [{"item_id": "a-1"}, {"item_id": None, "output_index": 1}])
def test_what_the_model_said_is_in_the_part_that_it_belongs_to(place: dict[str, Any]) -> None:
    """Also where the events name no item; the pieces may have padding."""
    stream = RealtimeStream(keeps_sound=True)
    for piece in (HELLO[:7], HELLO[7:]):
        stream.feed_message(write_sound(**{"item_id": "", "delta": encode(piece)} | place))
    call = {"id": "c-1", "type": "function_call", "name": "f", "arguments": "{}"}
    stream.feed_message(write_end([call, spoken("a-1", "Hi")]))
    answer = stream.finish()
    [_, said] = answer.answers
    [part] = said.message.parts
    assert isinstance(part, Media)
    assert (part.data, part.mime_type) == (encode(HELLO), "audio/pcm;rate=24000")
    assert (part.transcript, part.words) == ("Hi", "Hi")
    assert answer.output_bytes == len(HELLO)


@pytest.mark.parametrize(
    ("named", "form"), [({"output_audio_format": "pcm16"}, "pcm;rate=24000"), ({}, "pcmu")]
)
def test_the_format_of_an_answer_is_its_own_else_the_session_s(
    named: dict[str, Any], form: str
) -> None:
    """Some servers report the session's settings only once."""
    assert REALTIME.open_sounding is not None
    asked = RealtimeRequest({"output_audio_format": "g711_ulaw"})
    stream = REALTIME.open_sounding(asked=asked, lend=lambda _: True)
    response = {"id": "r-1", "status": "completed", "output": [spoken("a-1", "Hi")], **named}
    for event in (
        {"type": "response.output_audio.delta", "item_id": "a-1", "delta": encode(HELLO)},
        {"type": "response.done", "response": response},
    ):
        stream.feed(write_event(encode_json(event).encode()))
    [part] = stream.finish().answers[0].message.parts
    assert isinstance(part, Media)
    assert part.mime_type == f"audio/{form}"


def test_an_answer_that_breaks_off_has_what_was_said_of_it() -> None:
    """Although no event told its content."""
    stream = RealtimeStream(keeps_sound=True)
    item = {"id": "a-1", "type": "message", "role": "assistant", "content": []}
    added = {"type": "response.output_item.added", "output_index": 0, "item": item}
    stream.feed_message(encode_json(added).encode())
    stream.feed_message(write_sound("a-1", encode(HELLO)))
    [part] = stream.finish().items[0]["content"]
    assert part == {"type": "output_audio", "audio": {"data": encode(HELLO)}}


def test_of_a_long_answer_the_beginning_is_kept_and_the_rest_counted() -> None:
    """Of all its parts together."""
    stream = RealtimeStream(keeps_sound=True)
    for at in (0, 1):
        for _ in range(MAX_SOUND_BYTES // 49_152 - 1):
            piece = encode(bytes([at]) * 49_152)
            stream.feed_message(write_sound("a-1", piece, content_index=at))
    item = spoken("a-1", "Hi")
    stream.feed_message(write_end([item | {"content": item["content"] * 2}]))
    answer = stream.finish()
    first, second = (part["audio"] for part in answer.items[0]["content"])
    assert "missing_bytes" not in first
    assert len(base64.b64decode(second["data"])) == 49_152
    assert second["missing_bytes"] == MAX_SOUND_BYTES - 2 * 49_152
    assert answer.output_bytes == 2 * (MAX_SOUND_BYTES - 49_152)


def test_an_answer_keeps_only_what_it_is_lent() -> None:
    """Then it says that it is cut, as for any other part."""
    stream = RealtimeStream(keeps_sound=True, lend=lambda _: False)
    for _ in range(10):
        stream.feed_message(write_sound("a-1", encode(bytes(8_192))))
    stream.feed_message(write_end([spoken("a-1", "Hi")]))
    assert "observer_limit" in stream.finish().anomalies
