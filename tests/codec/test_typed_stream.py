"""``codec.typed_stream``: events with types, as streams of images, sound and texts have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from codec.apis.images.route import ImageStream
from codec.apis.speech.route import SpeechStream
from codec.apis.transcriptions.route import TranscriptionStream
from codec.text.jsontext import encode_json
from codec.typed_stream import MAX_ANSWER_BYTES, MAX_EVENT_BYTES

if TYPE_CHECKING:
    from codec.said import Said

STREAMS = (ImageStream, SpeechStream, TranscriptionStream)
READ_BYTES = 64 * 1024


def event(value: Any, name: str | None = None) -> bytes:
    named = f"event: {name}\n" if name is not None else ""
    return f"{named}data: {encode_json(value)}\n\n".encode()


def read(stream: Any, *data: bytes) -> Said:
    for piece in data:
        stream.feed(piece)
    answer: Said = stream.finish()
    return answer


def test_the_type_in_the_data_wins_over_the_name() -> None:
    """Which counts where there is none."""
    delta = {"type": "transcript.text.delta", "delta": "a"}
    said = read(TranscriptionStream(), event(delta, "transcript.text.done"), event(delta))
    assert said.body == {"text": "aa"}
    named = event({"text": "b"}, "transcript.text.done")
    stream = TranscriptionStream()
    assert read(stream, event(delta), named).body == {"text": "b"}
    assert stream.is_complete


@pytest.mark.parametrize("make", STREAMS)
def test_what_nobody_knows_is_a_chunk_and_passed_over(make: Any) -> None:
    """What has neither type nor name is foreign."""
    stream = make()
    said = read(stream, event({"type": "unheard.of", "x": 1}), event([1], "ping"))
    assert (stream.chunk_count, said.anomalies) == (2, ())
    assert not stream.has_content
    assert read(make(), event({"x": 1}), event(7)).anomalies == ("foreign_chunk",)


@pytest.mark.parametrize("make", STREAMS)
def test_the_first_error_is_kept_and_is_no_chunk(make: Any) -> None:
    """By its type, its name or its member."""
    errors = [
        event({"type": "error", "error": {"message": "one", "code": "c"}}),
        event({"message": "two"}, "error"),
        event({"error": {"message": "three"}}),
    ]
    for number, words in enumerate(("one", "two", "three")):
        stream = make()
        said = read(stream, *errors[number:])
        assert said.error is not None
        assert (said.error.message, stream.chunk_count) == (words, 0)


@pytest.mark.parametrize("make", STREAMS)
def test_what_is_no_json_and_what_is_cut_off_is_noted(make: Any) -> None:
    """The stream goes on."""
    assert read(make(), b"data: x\n\n", b"data: [DONE]\n\n").anomalies == ("non_json_event",)
    assert read(make(), b'data: {"type": "image_').anomalies == ("event_cut_off",)


def test_past_the_budget_the_end_and_its_usage_are_still_taken() -> None:
    """Of a text that is too long the beginning stays, of images their number."""
    piece = "x" * 1_000_000
    deltas = [event({"type": "transcript.text.delta", "delta": piece})] * 20
    usage = {"input_tokens": 3, "output_tokens": 4}
    end = event({"type": "transcript.text.done", "text": piece * 15, "usage": usage})
    stream = TranscriptionStream()
    said = read(stream, *deltas, end)
    assert stream.is_complete
    assert said.anomalies == ("observer_limit",)
    assert len(said.body["text"]) <= MAX_ANSWER_BYTES
    assert said.usage is not None
    assert (said.usage.prompt, said.usage.completion) == (3, 4)
    image = {"type": "image_generation.completed", "note": piece, "usage": usage}
    images = ImageStream(choice_count=20)
    said = read(images, *[event(image)] * 20)
    assert images.is_complete
    assert said.anomalies == ("observer_limit",)
    assert said.usage is not None
    assert len(said.body["data"]) == 20


def test_without_a_loan_nothing_is_kept() -> None:
    """But that something was said."""
    stream = TranscriptionStream(lend=lambda _: False)
    said = read(stream, event({"type": "transcript.text.delta", "delta": "x" * 100_000}))
    assert (said.body, said.anomalies) == ({}, ("observer_limit",))


def test_an_event_of_200_mb_takes_no_memory_and_its_counts_are_read() -> None:
    """Its image is shortened while it comes."""
    size = 200 * 1024 * 1024
    usage = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
    begin = b'data: {"type": "image_edit.completed", "b64_json": "iVBORw0KGgo'
    stream, most_bytes = ImageStream(), 0
    stream.feed(begin)
    for _ in range(size // READ_BYTES):
        stream.feed(b"A" * READ_BYTES)
        most_bytes = max(most_bytes, stream._decoder.pending_bytes)
    said = read(stream, f'", "usage": {encode_json(usage)}}}\n\n'.encode())
    assert most_bytes < 4 * READ_BYTES
    note = f"<{size + len('iVBORw0KGgo')} base64 characters, image/png>"
    assert said.body == {"data": [{"b64_json": note}], "usage": usage}
    assert (said.anomalies, stream.is_complete) == ((), True)


def test_an_event_that_is_long_for_another_reason_is_the_end_of_reading() -> None:
    """So much sound in one event is not counted: what was lost is not known."""
    stream = SpeechStream()
    stream.feed(b'data: {"type": "speech.audio.delta", "audio": "AAAA"}\n\n')
    stream.feed(b'data: {"type": "speech.audio.delta", "audio": "')
    for _ in range(MAX_EVENT_BYTES // READ_BYTES + 1):
        stream.feed(b"A" * READ_BYTES)
    said = read(stream, b'"}\n\n')
    assert (said.anomalies, said.output_bytes) == (("observer_limit",), None)
