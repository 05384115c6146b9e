"""Whole spans of transcriptions and translations, by hand.

See ``docs/apis.md#transcriptions-and-translations``.
"""

from __future__ import annotations

from typing import Any

import pytest

from codec.text.jsontext import decode_json, encode_json
from telemetry.frames.ending import EndKind
from telemetry.observing.exchange import Exchange, Outcome
from telemetry.spans.rules import SpanRules
from tests.telemetry.exchanges import build_exchange_attributes
from tests.telemetry.observed import observe
from tests.telemetry.tap_frames import begin, exchange_frames

FILE = {"filename": "a.mp3", "content_type": "audio/mpeg", "bytes": 121_671}
ASKED = {"model": "gpt-4o-transcribe", "file": FILE, "prompt": "Ruby", "temperature": "0.5"}
USAGE = {
    "type": "tokens",
    "input_tokens": 26,
    "input_token_details": {"text_tokens": 5, "audio_tokens": 21},
    "output_tokens": 4,
    "total_tokens": 30,
}
OUTPUT = "llm.output_messages.0.message.content"


def write(
    *data: bytes,
    asked: Any = ASKED,
    endpoint: str = "audio.transcriptions",
    status: int = 200,
    **ending: Any,
) -> Exchange:
    """The record of a call."""
    body = encode_json(asked).encode()
    frames = exchange_frames(*data, asked=body, status=status, **ending)
    return observe([begin(endpoint=endpoint, path="/v1/audio/x"), *frames[1:]])


def answer(**members: Any) -> bytes:
    return encode_json(members).encode()


def event(kind: str, **members: Any) -> bytes:
    return f"data: {encode_json({'type': kind, **members})}\n\n".encode()


def delta(text: str) -> bytes:
    return event("transcript.text.delta", delta=text)


def spoken(text: Any) -> bytes:
    return event("transcript.text.segment", text=text, speaker="A")


def done(text: str = "Hello friend.", **members: Any) -> bytes:
    return event("transcript.text.done", text=text, **members)


def span(exchange: Exchange) -> dict[str, Any]:
    return {**build_exchange_attributes(exchange, SpanRules(shows_genai_content=True))}


def test_a_whole_span() -> None:
    """The recording's type, the text, the counts; all fields are parameters."""
    answered = {"text": "Hello friend.", "usage": USAGE}
    exchange = write(answer(**answered))
    assert (exchange.outcome, exchange.anomalies) == (Outcome.COMPLETED, ())
    told = span(exchange)
    assert decode_json(told.pop("input.value")) == ASKED
    assert decode_json(told.pop("llm.invocation_parameters")) == ASKED
    assert decode_json(told.pop("output.value")) == answered
    assert decode_json(told.pop("metadata"))["usage_raw"] == USAGE
    assert decode_json(told.pop("gen_ai.input.messages")) == [{"role": "user", "parts": []}]
    assert decode_json(told.pop("gen_ai.output.messages")) == [
        {"role": "assistant", "parts": [{"type": "text", "content": "Hello friend."}]}
    ]
    part = "llm.input_messages.0.message.contents.0.message_content"
    assert told == {
        "openinference.span.kind": "LLM",
        "llm.system": "openai",
        "llm.model_name": "gpt-4o-transcribe",
        "llm.input_messages.0.message.role": "user",
        f"{part}.type": "audio",
        f"{part}.audio.audio.mime_type": "audio/mpeg",
        "llm.output_messages.0.message.role": "assistant",
        OUTPUT: "Hello friend.",
        "llm.token_count.prompt": 26,
        "llm.token_count.prompt_details.audio": 21,
        "llm.token_count.completion": 4,
        "llm.token_count.total": 30,
        "gen_ai.operation.name": "transcription",
        "gen_ai.provider.name": "openai_compatible",
        "gen_ai.request.model": "gpt-4o-transcribe",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.usage.input_tokens": 26,
        "gen_ai.usage.output_tokens": 4,
        "url.path": exchange.path,
        "http.response.status_code": 200,
        "input.mime_type": "application/json",
        "output.mime_type": "application/json",
    }


def test_a_translation_has_words_of_its_own() -> None:
    """Its span's name and its operation."""
    exchange = write(answer(text="Hi"), endpoint="audio.translations")
    assert exchange.api.span_name == "Translation"
    assert span(exchange)["gen_ai.operation.name"] == "translation"
    assert write(answer(text="Hi")).api.span_name == "Transcription"


@pytest.mark.parametrize(
    "text",
    [
        "Hello.\n",
        "[Music]\n",
        "WEBVTT\n\n00:00.000 --> 00:01.000\nHi\n",
        "1\n00:00:00,000 --> 00:00:01,000\nÜber\n\n",
        "data and more",
    ],
)
def test_a_bare_text_is_the_output(text: str) -> None:
    """As it came; text/plain is the default."""
    assert_bare(text, write(text.encode()))


@pytest.mark.parametrize("text", ["42", '"quoted"'])
def test_a_text_that_is_json_by_chance_is_the_output_where_a_text_was_asked_for(text: str) -> None:
    """As it came; where JSON was asked for, it is no answer."""
    assert_bare(text, write(text.encode(), asked=ASKED | {"response_format": "text"}))
    assert write(text.encode()).outcome is Outcome.NOT_AN_ANSWER


def assert_bare(text: str, exchange: Exchange) -> None:
    """Check that a bare text was taken as a whole answer."""
    assert (exchange.outcome, exchange.anomalies, exchange.streamed) == (
        Outcome.COMPLETED,
        (),
        False,
    )
    told = span(exchange)
    assert told[OUTPUT] == told["output.value"] == text
    assert "output.mime_type" not in told


@pytest.mark.parametrize("text", ['{"text": "Hel', "<html><p>", "<!DOCTYPE html>", "\xff"])
def test_what_is_no_text_is_noted(text: str) -> None:
    """Broken JSON, a page of a gateway's, bytes."""
    exchange = write(text.encode("latin-1"))
    assert exchange.error_type in {"not_an_answer", "stream_truncated"}
    assert exchange.anomalies == ("response_undecodable",)
    assert OUTPUT not in span(exchange)


def test_a_refusal_is_no_text() -> None:
    """In JSON or in words."""
    for said, words in ((b"Too Large", "Too Large"), (b'{"detail": "No key."}', "No key.")):
        exchange = write(said, status=413)
        assert (exchange.error_type, exchange.error_message) == ("413", words)
        told = span(exchange)
        assert not [key for key in told if key.startswith(("output.", "llm.output"))]


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        ({"type": "duration", "seconds": 317}, {}),
        (
            {"prompt_audio_seconds": 36, "prompt_tokens": 13, "completion_tokens": 151},
            {"prompt": 13, "completion": 151},
        ),
        (
            {
                "prompt_tokens": 5,
                "completion_tokens": 20,
                "total_tokens": 400,
                "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 375},
            },
            {
                "prompt": 380,
                "completion": 20,
                "total": 400,
                "prompt_details.audio": 375,
                "prompt_details.cache_read": 0,
            },
        ),
        (
            {"input_tokens": 9, "output_tokens": 3, "total_tokens": 2},
            {"prompt": 9, "completion": 3},
        ),
    ],
)
def test_usage(usage: dict[str, Any], counts: dict[str, int]) -> None:
    """Seconds are no tokens; all of it stays in the raw usage."""
    exchange = write(answer(text="Hi", usage=usage))
    told = span(exchange)
    prefix = "llm.token_count."
    shown = {key.removeprefix(prefix): n for key, n in told.items() if key.startswith(prefix)}
    assert shown == counts
    assert decode_json(told["metadata"])["usage_raw"] == usage
    assert ("total_inconsistent" in exchange.anomalies) is (usage.get("total_tokens") == 2)


def test_a_cost_that_was_told() -> None:
    """OpenRouter's."""
    exchange = write(answer(text="Hi", usage={"input_tokens": 37, "cost": 0.000_106_25}))
    assert exchange.response is not None
    assert exchange.response.cost is not None
    assert exchange.response.cost.total == 0.000_106_25


def test_a_stream_is_one_object_and_its_last_event_wins() -> None:
    """Segments stand beside the text; ``[DONE]`` says nothing."""
    segment = {"id": "seg_0", "start": 0.0, "end": 1.5, "speaker": "A", "text": "Hello friend."}
    data = [
        delta("Hello "),
        delta("fiend."),
        event("transcript.text.segment", **segment),
        event("transcript.text.unheard_of", delta="?"),
        done(usage=USAGE, logprobs=[]),
        b"data: [DONE]\n\n",
    ]
    exchange = write(*data, asked={**ASKED, "stream": "true"})
    assert (exchange.outcome, exchange.anomalies) == (Outcome.COMPLETED, ())
    told = span(exchange)
    assert told[OUTPUT] == "Hello friend."
    assert decode_json(told["output.value"]) == {
        "text": "Hello friend.",
        "segments": [segment],
        "logprobs": [],
        "usage": USAGE,
    }
    assert told["llm.token_count.total"] == 30
    assert told["gen_ai.request.stream"] is True
    metadata = decode_json(told["metadata"])
    assert (metadata["chunk_count"], metadata["first_content_ms"]) == (5, 100.0)


def test_whisper_ignores_that_a_stream_is_wanted() -> None:
    """What comes is read as what it is."""
    asked = {"model": "whisper-1", "file": FILE, "stream": "True"}
    exchange = write(answer(text="Hi"), asked=asked)
    assert (exchange.outcome, exchange.streamed) == (Outcome.COMPLETED, False)
    assert span(exchange)["gen_ai.request.stream"] is True


@pytest.mark.parametrize(
    ("data", "kind", "outcome", "text"),
    [
        ([delta("Hel"), done()], EndKind.CLIENT_GONE, Outcome.COMPLETED, "Hello friend."),
        ([delta("Hel"), delta("lo")], EndKind.UPSTREAM_EOF, Outcome.TRUNCATED, "Hello"),
        ([delta("Hel"), done()[:-9]], EndKind.UPSTREAM_BROKEN, Outcome.TRUNCATED, "Hel"),
        ([delta("Hel")], EndKind.CLIENT_GONE, Outcome.CLIENT_DISCONNECTED, "Hel"),
        (
            [delta("Hel"), event("error", error={"message": "m", "code": "c"})],
            EndKind.UPSTREAM_EOF,
            Outcome.STREAM_ERROR,
            "Hel",
        ),
        ([spoken(" Hello ")], EndKind.UPSTREAM_BROKEN, Outcome.TRUNCATED, "Hello"),
        ([spoken("Hel-"), spoken(""), spoken("lo")], EndKind.TIMEOUT, Outcome.TIMEOUT, "Hel- lo"),
        ([spoken("Hi"), delta("Hello")], EndKind.UPSTREAM_EOF, Outcome.TRUNCATED, "Hello"),
        ([spoken("Hi"), done()], EndKind.UPSTREAM_EOF, Outcome.COMPLETED, "Hello friend."),
        ([spoken(7)], EndKind.CLIENT_GONE, Outcome.CLIENT_DISCONNECTED, None),
        ([answer(text="Hi")], EndKind.CLIENT_GONE, Outcome.COMPLETED, "Hi"),
        ([b"Hi"], EndKind.CLIENT_GONE, Outcome.CLIENT_DISCONNECTED, "Hi"),
        ([b"Hi"], EndKind.UPSTREAM_UNFRAMED_END, Outcome.COMPLETED, "Hi"),
        ([b"Hi"], EndKind.UPSTREAM_BROKEN, Outcome.TRUNCATED, "Hi"),
        (["né".encode()[:2]], EndKind.UPSTREAM_BROKEN, Outcome.TRUNCATED, "n"),
        ([answer(error={"message": "m"})], EndKind.UPSTREAM_EOF, Outcome.STREAM_ERROR, None),
    ],
)
def test_endings(data: list[bytes], kind: EndKind, outcome: Outcome, text: str | None) -> None:
    """The last event ends a stream, the text a plain answer; a bare text has no end of its own.

    What speakers said is the text so far, where no pieces of one came.
    """
    exchange = write(*data, kind=kind)
    assert exchange.outcome is outcome
    assert span(exchange).get(OUTPUT) == text


def test_mistrals_stream() -> None:
    """Other names, the same things."""
    data = [
        event("transcription.language", audio_language="en"),
        event("transcription.text.delta", text="Hel"),
        event("transcription.text.delta", text="lo"),
        event("transcription.segment", text="Hello", start=0, end=1),
    ]
    told = span(write(*data))
    assert decode_json(told["output.value"]) == {
        "text": "Hello",
        "segments": [{"text": "Hello", "start": 0, "end": 1}],
        "language": "en",
    }
    end = event("transcription.done", text="Hello.", model="voxtral", usage={"prompt_tokens": 5})
    exchange = write(*data, end)
    told = span(exchange)
    assert exchange.outcome is Outcome.COMPLETED
    assert (told[OUTPUT], told["llm.model_name"]) == ("Hello.", "voxtral")
    assert told["llm.token_count.prompt"] == 5


@pytest.mark.parametrize(
    ("members", "mime_type"),
    [
        ({"file": [FILE, FILE]}, "audio/mpeg"),
        ({"file": {"bytes": 9}}, None),
        ({"input_audio": {"data": "AAAA", "format": "wav"}}, "audio/wav"),
        ({"file_url": "https://x.test/a.mp3"}, None),
        ({"file_id": "f-1"}, None),
        ({"file": 7}, None),
    ],
)
def test_of_the_recording_no_more_than_its_type_is_shown(
    members: dict[str, Any], mime_type: str | None
) -> None:
    """Whatever way it came; base64 stays in the raw value."""
    told = span(write(answer(text="Hi"), asked={"model": "m", **members}))
    part = "llm.input_messages.0.message.contents.0.message_content"
    assert told[f"{part}.type"] == "audio"
    assert told.get(f"{part}.audio.audio.mime_type") == mime_type
    assert f"{part}.audio.audio.url" not in told
    assert "AAAA" not in told["llm.invocation_parameters"]


def test_a_call_without_a_recording() -> None:
    """No message, and an anomaly."""
    exchange = write(answer(text="Hi"), asked={"model": "m"})
    assert exchange.anomalies == ("request_undecodable",)
    told = span(exchange)
    assert not [key for key in told if key.startswith("llm.input_messages")]
