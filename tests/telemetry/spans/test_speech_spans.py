"""Whole spans of speech, by hand from ``docs/apis.md#speech``."""

from __future__ import annotations

import base64
import gzip
from typing import Any

import pytest

from codec.text.jsontext import decode_json, encode_json
from telemetry.frames.ending import EndKind
from telemetry.observing.exchange import Exchange, Outcome
from telemetry.observing.observer import Observer
from telemetry.observing.open_bodies import OpenBodies
from telemetry.spans.rules import SpanRules
from tests.telemetry.exchanges import build_exchange_attributes
from tests.telemetry.observed import observe
from tests.telemetry.tap_frames import GZIP, begin, cut, exchange_frames

MP3 = [("content-type", "audio/mpeg")]
ASKED = {"model": "tts-1", "input": "Good day", "voice": "alloy", "instructions": "Softly."}
SOUND = b'{"x": 1}\n\n data:\xff\x00 '
"""Bytes that look like JSON, and like events, and begin and end with what others leave out."""
USAGE = {"input_tokens": 14, "output_tokens": 101, "total_tokens": 115}


def speak(
    *data: bytes, asked: Any = ASKED, headers: Any = MP3, status: int = 200, **ending: Any
) -> Exchange:
    """The record of a call."""
    body = encode_json(asked).encode()
    frames = exchange_frames(*data, asked=body, headers=headers, status=status, **ending)
    return observe([begin(endpoint="audio.speech", path="/v1/audio/speech"), *frames[1:]])


def event(kind: str, **members: Any) -> bytes:
    value = encode_json({"type": kind, **members})
    return f"event: {kind}\ndata: {value}\n\n".encode()


def delta(sound: bytes, member: str = "audio") -> bytes:
    return event("speech.audio.delta", **{member: base64.b64encode(sound).decode()})


DONE = event("speech.audio.done", usage=USAGE)
EVENTS = [("content-type", "text/event-stream; charset=utf-8")]


def span(exchange: Exchange) -> dict[str, Any]:
    return {**build_exchange_attributes(exchange, SpanRules(shows_genai_content=True))}


def metadata_of(exchange: Exchange) -> dict[str, Any]:
    value: dict[str, Any] = decode_json(span(exchange)["metadata"])
    return value


def test_a_whole_span() -> None:
    """The text, and how much was spoken; no output but its type."""
    exchange = speak(SOUND)
    assert (exchange.outcome, exchange.anomalies) == (Outcome.COMPLETED, ())
    assert (exchange.api.span_name, exchange.streamed) == ("AudioSpeech", False)
    told = span(exchange)
    assert decode_json(told.pop("input.value")) == ASKED
    assert decode_json(told.pop("llm.invocation_parameters")) == {
        "model": "tts-1",
        "voice": "alloy",
        "instructions": "Softly.",
    }
    assert decode_json(told.pop("metadata")) == {
        "upstream": "default",
        "outcome": "completed",
        "output_bytes": len(SOUND),
        "usage_source": "none",
        "headers": {"response": {"content-type": "audio/mpeg"}},
    }
    assert decode_json(told.pop("gen_ai.input.messages")) == [
        {"role": "user", "parts": [{"type": "text", "content": "Good day"}]}
    ]
    assert told == {
        "openinference.span.kind": "LLM",
        "llm.system": "openai",
        "llm.model_name": "tts-1",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "Good day",
        "gen_ai.operation.name": "speech",
        "gen_ai.provider.name": "openai_compatible",
        "gen_ai.request.model": "tts-1",
        "gen_ai.output.type": "speech",
        "url.path": exchange.path,
        "http.response.status_code": 200,
        "input.mime_type": "application/json",
        "output.mime_type": "audio/mpeg",
    }


@pytest.mark.parametrize("kind", ["audio/pcm", "Audio/WAV", "application/octet-stream"])
def test_every_byte_counts_however_it_comes(kind: str) -> None:
    """Also white space at the beginning, and what looks like a stream or, at first, like JSON."""
    for at in (0, *range(len(b" \n") + SOUND.index(b"\xff") + 1, len(SOUND) + 2)):
        exchange = speak(*cut(b" \n" + SOUND, [at]), headers=[("content-type", f"{kind}; rate=1")])
        assert metadata_of(exchange)["output_bytes"] == len(SOUND) + 2
        assert span(exchange)["output.mime_type"] == kind
    packed = gzip.compress(SOUND)
    assert metadata_of(speak(packed, headers=[*MP3, *GZIP]))["output_bytes"] == len(SOUND)
    assert metadata_of(speak())["output_bytes"] == 0


def test_sound_is_not_held() -> None:
    """What was left out of the frames counts as well, where it is known how much that was."""
    bodies = OpenBodies()
    observer = Observer(bodies=bodies)
    asked = encode_json(ASKED).encode()
    frames = exchange_frames(*[bytes(65_536)] * 99, asked=asked, headers=MP3, shed_bytes=7)
    held = set()
    exchange = None
    for frame in [begin(endpoint="audio.speech"), *frames[1:]]:
        exchange = observer.feed(frame)
        held.add(bodies.held_bytes)
    assert exchange is not None
    assert metadata_of(exchange)["output_bytes"] == 99 * 65_536 + 7
    assert (exchange.outcome, exchange.anomalies) == (Outcome.COMPLETED, ())
    assert max(held) < 10_000
    packed = speak(gzip.compress(SOUND), headers=[*MP3, *GZIP], shed_bytes=7)
    assert packed.anomalies == ("observer_limit",)
    assert "output_bytes" not in metadata_of(packed)
    assert span(packed)["output.mime_type"] == "audio/mpeg"


@pytest.mark.parametrize(
    ("kind", "outcome", "error_type"),
    [
        (EndKind.UPSTREAM_EOF, Outcome.COMPLETED, None),
        (EndKind.UPSTREAM_UNFRAMED_END, Outcome.TRUNCATED, "stream_truncated"),
        (EndKind.UPSTREAM_BROKEN, Outcome.TRUNCATED, "stream_truncated"),
        (EndKind.TIMEOUT, Outcome.TIMEOUT, "timeout"),
        (EndKind.CLIENT_GONE, Outcome.CLIENT_DISCONNECTED, None),
    ],
)
def test_endings_of_bytes(kind: EndKind, outcome: Outcome, error_type: str | None) -> None:
    """Only the framing tells the end; what came is counted all the same."""
    exchange = speak(SOUND, kind=kind)
    assert (exchange.outcome, exchange.error_type) == (outcome, error_type)
    assert metadata_of(exchange)["output_bytes"] == len(SOUND)


def test_a_refusal_is_no_sound() -> None:
    """Whatever it is called."""
    refused = b'{"error": {"message": "Unknown voice.", "type": "invalid_request_error"}}'
    exchange = speak(refused, status=400)
    assert (exchange.error_type, exchange.error_message) == ("400", "Unknown voice.")
    assert not span(exchange).keys() & {"output.value", "output.mime_type"}
    failed = speak(refused, headers=[("content-type", "application/json")])
    assert (failed.outcome, failed.error_message) == (Outcome.STREAM_ERROR, "Unknown voice.")


@pytest.mark.parametrize("member", ["audio", "audio_data"])
def test_events(member: str) -> None:
    """OpenAI's and Mistral's: bytes of sound, and the counts of the last one."""
    asked = {**ASKED, "stream_format": "sse"}
    pieces = [SOUND, b"", b"1", b"12", b"123"]
    data = [delta(piece, member) for piece in pieces]
    exchange = speak(*data, DONE, asked=asked, headers=EVENTS)
    assert (exchange.outcome, exchange.anomalies) == (Outcome.COMPLETED, ())
    told, metadata = span(exchange), metadata_of(exchange)
    assert metadata["output_bytes"] == len(SOUND) + 6
    assert (metadata["usage_raw"], metadata["chunk_count"]) == (USAGE, 6)
    assert told["llm.token_count.prompt"] == 14
    assert told["llm.token_count.completion"] == 101
    assert told["gen_ai.request.stream"] is True
    assert told["output.mime_type"] == "text/event-stream"
    assert "output.value" not in told


@pytest.mark.parametrize(
    ("data", "kind", "outcome"),
    [
        ([delta(SOUND), DONE], EndKind.CLIENT_GONE, Outcome.COMPLETED),
        ([delta(SOUND)], EndKind.UPSTREAM_EOF, Outcome.TRUNCATED),
        ([delta(SOUND)], EndKind.CLIENT_GONE, Outcome.CLIENT_DISCONNECTED),
        ([delta(SOUND), event("error", error={"message": "m"})], EndKind.UPSTREAM_EOF, "error"),
    ],
)
def test_endings_of_events(data: list[bytes], kind: EndKind, outcome: Outcome | str) -> None:
    """The last event is the end."""
    exchange = speak(*data, headers=EVENTS, kind=kind)
    assert exchange.outcome == (Outcome.STREAM_ERROR if outcome == "error" else outcome)
    assert metadata_of(exchange)["output_bytes"] == len(SOUND)


def test_mistrals_json() -> None:
    """The length of its base64 stands for it."""
    sound = base64.b64encode(SOUND).decode()
    usage = {"prompt_tokens": 2, "completion_tokens": 4, "total_tokens": 6}
    data = encode_json({"audio_data": sound, "usage": usage, "model": "voxtral-tts"}).encode()
    exchange = speak(data, headers=[("content-type", "application/json")])
    assert (exchange.outcome, exchange.anomalies) == (Outcome.COMPLETED, ())
    told = span(exchange)
    assert decode_json(told["output.value"])["audio_data"] == f"<{len(sound)} base64 characters>"
    assert metadata_of(exchange)["output_bytes"] == len(SOUND)
    assert (told["llm.token_count.total"], told["llm.model_name"]) == (6, "voxtral-tts")
    broken = speak(data[:-1], headers=[], kind=EndKind.UPSTREAM_BROKEN)
    assert broken.outcome is Outcome.TRUNCATED


def test_what_is_no_speech_is_noted() -> None:
    """A page of some gateway's, another object, a request without a text."""
    page = speak(b"<html></html>", headers=[("content-type", "text/html")])
    assert (page.outcome, page.anomalies) == (Outcome.NOT_AN_ANSWER, ("response_undecodable",))
    other = speak(b'{"text": "Hi"}', headers=[("content-type", "application/json")])
    assert (other.outcome, other.anomalies) == (Outcome.NOT_AN_ANSWER, ("foreign_chunk",))
    assert speak(SOUND, asked={"input": 7}).anomalies == ("request_undecodable",)
