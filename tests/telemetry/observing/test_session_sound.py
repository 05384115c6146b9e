"""Spans of Realtime and Live whose sound is kept: what they show, and what hides it."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from codec.text.jsontext import decode_json, encode_json
from telemetry.observing.observer import Observer
from telemetry.observing.source import FrameSource
from telemetry.privacy.switches import PrivacySwitches
from telemetry.spans.rules import SpanRules
from telemetry.spans.size_limits import SizeLimits
from tests.codec.apis.realtime.talk import spoken, user
from tests.telemetry.exchanges import build_exchange_attributes
from tests.telemetry.observing.test_socket_calls import Wire

if TYPE_CHECKING:
    from telemetry.observing.exchange import Exchange

HEARD, SAID = (base64.b64encode(bytes(range(n, n + 40)) * 1_000).decode() for n in (0, 100))
PCM = {"type": "audio/pcm", "rate": 24_000}
REALTIME = "realtime"
LIVE = "gemini.live"
PATHS = {REALTIME: "/v1/realtime", LIVE: "/ws/BidiGenerateContent"}


def talk_realtime(wire: Wire) -> None:
    """The user speaks, and the model answers, twice."""
    audio = {"input": {"format": PCM}, "output": {"format": PCM}}
    session = {"id": "sess-1", "model": "m-1", "audio": audio}
    wire.say({"type": "session.created", "session": session}, from_client=False)
    for turn in ("1", "2"):
        wire.say({"type": "input_audio_buffer.append", "audio": HEARD}, from_client=True)
        committed = {"type": "input_audio_buffer.committed", "item_id": f"u-{turn}"}
        item = user(f"u-{turn}", "Hello")
        response = {"id": f"r-{turn}", "status": "in_progress", "conversation_id": "c-1"}
        at = {"response_id": f"r-{turn}", "item_id": f"a-{turn}", "output_index": 0}
        output = [spoken(f"a-{turn}", "Hi")]
        ended = {"status": "completed", "output": output, "audio": audio, "usage": {}}
        for event in (
            committed,
            {"type": "conversation.item.added", "item": item},
            {"type": "response.created", "response": response},
            {"type": "response.output_audio.delta", "delta": SAID, **at},
            {"type": "response.done", "response": response | ended},
        ):
            wire.say(event, from_client=False)


def talk_live(wire: Wire) -> None:
    """The same, with Google."""
    wire.say({"setup": {"model": "models/m-1"}}, from_client=True)
    for _ in ("1", "2"):
        heard = {"mimeType": "audio/pcm;rate=24000", "data": HEARD}
        wire.say({"realtimeInput": {"audio": heard}}, from_client=True)
        for said in (
            {"inputTranscription": {"text": "Hello"}},
            {"outputTranscription": {"text": "Hi"}},
            {"modelTurn": {"parts": [{"inlineData": {"mimeType": "audio/pcm", "data": SAID}}]}},
            {"turnComplete": True},
        ):
            wire.say({"serverContent": said}, from_client=False)


TALKS = {REALTIME: talk_realtime, LIVE: talk_live}
both = pytest.mark.parametrize("api", [REALTIME, LIVE])


def observe(api: str, *, keeps_sound: bool = True) -> list[Exchange]:
    """The records of a talk."""
    wire = Wire(endpoint=api, path=PATHS[api])
    TALKS[api](wire)
    wire.end()
    failures: list[Exception] = []
    exchanges: list[Exchange] = []
    observer = Observer(failures.append, keeps_sound=keeps_sound)
    FrameSource(observer, lambda exchange, _: exchanges.append(exchange)).feed(*wire.frames)
    assert failures == []
    assert observer.bodies.held_bytes == 0
    assert len(exchanges) == 2
    return exchanges


def read_sound(exchange: Exchange, rules: SpanRules | None = None) -> list[tuple[str, Any]]:
    """The messages of a span that have sound, and the sound."""
    attributes = build_exchange_attributes(exchange, rules)
    return [
        (key.removeprefix("llm.").partition(".message.")[0], value)
        for key, value in attributes.items()
        if key.endswith("audio.url")
    ]


@both
def test_a_span_has_the_sound_of_its_request_and_of_its_answer(api: str) -> None:
    """As a part of their messages, with the format; later inputs have only the words."""
    one, two = observe(api)
    urls = [f"data:audio/pcm;rate=24000;base64,{sound}" for sound in (HEARD, SAID)]
    assert read_sound(one) == [("input_messages.0", urls[0]), ("output_messages.0", urls[1])]
    assert read_sound(two) == [("input_messages.2", urls[0]), ("output_messages.0", urls[1])]
    attributes = build_exchange_attributes(two)
    words = [value for key, value in attributes.items() if key.endswith("audio.transcript")]
    assert words == ["Hello", "Hi", "Hello", "Hi"]
    metadata = decode_json(str(attributes["metadata"]))
    assert metadata["input_audio"]["bytes"] == metadata["output_bytes"] == 40_000


@both
def test_sound_is_in_no_span_unasked(api: str) -> None:
    """It is counted."""
    for exchange in observe(api, keeps_sound=False):
        assert read_sound(exchange) == []
        kept = repr((exchange.request_body, exchange.response, build_exchange_attributes(exchange)))
        assert HEARD not in kept
        assert SAID not in kept


@both
@pytest.mark.parametrize(
    ("switch", "hidden", "shown"),
    [
        ("hide_inputs", HEARD, [SAID]),
        ("hide_input_messages", HEARD, [SAID]),
        ("hide_outputs", SAID, [HEARD]),
        ("hide_output_messages", SAID, [HEARD]),
        ("hide_input_text", HEARD, [SAID]),
        ("hide_output_text", SAID, [HEARD]),
    ],
)
def test_what_hides_words_hides_their_sound(
    api: str, switch: str, hidden: str, shown: list[str]
) -> None:
    """In bodies as well; the other side keeps its own."""
    [_, exchange] = observe(api)
    rules = SpanRules(privacy=PrivacySwitches(**{switch: True}))
    told = encode_json(build_exchange_attributes(exchange, rules))
    assert hidden not in told
    assert all(sound in told for sound in shown)
    everything = replace(exchange, hides_content=True)
    told = encode_json(build_exchange_attributes(everything))
    assert HEARD not in told
    assert SAID not in told


@both
def test_sound_that_is_larger_than_a_value_may_be_is_left_out_and_named(api: str) -> None:
    """By the limits of spans, as for sound over HTTP."""
    [_, exchange] = observe(api)
    rules = SpanRules(sizes=SizeLimits(value_bytes=50_000))
    assert read_sound(exchange, rules) == []
    metadata = decode_json(str(build_exchange_attributes(exchange, rules)["metadata"]))
    assert {"llm.input_messages.*", "llm.output_messages.*"} <= metadata["cut"].keys()
