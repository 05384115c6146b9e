"""Sessions of Realtime as a worker relays them: one span for each response.

The recorded ones whole, byte by byte, compressed, and cut anywhere. A second fold, of the codec's
tests (:mod:`tests.codec.apis.realtime.test_recorded`), says what the spans must say.
"""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.resources import Resource

from codec.apis.realtime.session import RealtimeSession
from codec.apis.realtime.transcripts import WAIT_NS
from codec.text.jsontext import decode_json
from telemetry.frames.frame import Begin, SocketData
from telemetry.observing.exchange import Outcome
from telemetry.observing.observer import Observer
from telemetry.observing.open_bodies import OpenBodies
from telemetry.observing.socket_calls import SocketCalls
from telemetry.spans.otlp.encoding import encode_span
from telemetry.spans.recorder import SpanRecorder, build_span_limits
from tests.codec.apis.realtime.talk import USAGE, spoken, user
from tests.codec.apis.realtime.test_recorded import COUNT, expect, session_at, text_of
from tests.corpus.recordings import NEEDS_RECORDINGS
from tests.telemetry.observing.test_socket_calls import Recording, Wire
from tests.telemetry.tap_frames import MS, START_NS, cut

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from telemetry.frames.frame import Frame
    from telemetry.observing.exchange import Exchange
    from telemetry.spans.otlp.writer import FinishedSpan
    from tests.codec.apis.realtime.test_recorded import Expected

REALTIME: dict[str, Any] = {"endpoint": "realtime", "path": "/v1/realtime"}
TRANSCRIBED = "conversation.item.input_audio_transcription.completed"
HEARD = {"type": "tokens", "total_tokens": 3}

recorder = SpanRecorder(Resource.get_empty(), build_span_limits())
recorded = pytest.mark.parametrize("number", range(COUNT))


def say_all(messages: Iterable[tuple[bool, dict[str, Any]]], **wire: Any) -> Wire:
    """A connection on which all of them are said, and which then ends."""
    said = Wire(**REALTIME, **wire)
    for from_client, event in messages:
        said.say(event, from_client=from_client)
    said.end()
    return said


def cut_frames(frames: Iterable[Frame], size: int | random.Random) -> Iterator[Frame]:
    """The same reads in pieces of a size, or cut at a few places."""
    for frame in frames:
        if not isinstance(frame, SocketData):
            yield frame
            continue
        length = len(frame.data)
        if isinstance(size, random.Random):
            at: Iterable[int] = (size.randrange(length + 1) for _ in range(3))
        else:
            at = range(0, length, size)
        for piece in cut(frame.data, at):
            yield SocketData(frame.exchange, frame.at_ns, frame.from_client, piece)


def record(exchanges: Iterable[Exchange]) -> list[FinishedSpan]:
    spans = [recorder.record(exchange) for exchange in exchanges]
    return [span for span in spans if span is not None]


def read_texts(attributes: dict[str, Any], side: str) -> list[str]:
    """What each message of a side says: words, transcripts, and arguments of calls."""
    texts: dict[int, str] = {}
    for key, value in attributes.items():
        place = key.removeprefix(f"llm.{side}_messages.")
        if place == key:
            continue
        texts.setdefault(int(place.partition(".")[0]), "")
        if place.endswith((".content", ".text", ".transcript", ".arguments")):
            texts[int(place.partition(".")[0])] += str(value)
    return [text for _, text in sorted(texts.items())]


def check(span: FinishedSpan, expected: Expected) -> None:
    """A span says what the second fold says."""
    told, response = dict(span.attributes or {}), expected.done["response"]
    metadata = decode_json(str(told["metadata"]))
    usage = response["usage"] or expected.done["usage"]
    inputs = read_texts(told, "input")
    assert inputs[len(inputs) - len(expected.inputs) :] == expected.inputs
    assert sorted(read_texts(told, "output")) == sorted(map(text_of, response["output"]))
    assert metadata.get("output_bytes") == (expected.sound_bytes or None)
    assert metadata["usage_raw"] == usage
    details = usage["input_token_details"], usage["output_token_details"]
    assert {
        "llm.token_count.prompt": usage["input_tokens"],
        "llm.token_count.completion": usage["output_tokens"],
        "llm.token_count.prompt_details.audio": details[0]["audio_tokens"],
        "llm.token_count.completion_details.audio": details[1]["audio_tokens"],
        "llm.finish_reason": "completed",
        "gen_ai.response.id": response["id"],
    }.items() <= told.items()
    assert told.get("llm.token_count.prompt_details.cache_read") == details[0].get("cached_tokens")
    assert (span.name, span.status.status_code.name) == ("Realtime", "OK")
    assert "anomalies" not in metadata


class TestRecorded:
    """Recorded sessions."""

    pytestmark = NEEDS_RECORDINGS

    @recorded
    def test_each_response_is_a_span_that_says_what_was_said(self, number: int) -> None:
        """All of a session have its id; a session that has none names none."""
        messages = session_at(number)
        exchanges = Recording().feed(say_all(messages).frames).exchanges
        expected = expect(messages)
        assert [exchange.outcome for exchange in exchanges] == [Outcome.COMPLETED] * len(expected)
        spans = record(exchanges)
        for span, each in zip(spans, expected, strict=True):
            check(span, each)
        said = [event.get("session", {}) for client, event in messages if not client]
        named = {(span.attributes or {}).get("session.id") for span in spans}
        assert named == ({it["id"] for it in said if "id" in it} or {None})

    @recorded
    @pytest.mark.parametrize("how", ["bytes", "anyhow", "compressed"])
    def test_the_spans_are_the_same_however_reads_are_cut(self, number: int, how: str) -> None:
        """Ids, times and all else; telemetry reads what the relay read, wherever that ends."""
        messages = session_at(number)
        whole = record(Recording().feed(say_all(messages).frames).exchanges)
        said = say_all(messages, is_compressed=how == "compressed")
        size = 1 if how == "bytes" else random.Random(number)
        cut = record(Recording().feed(cut_frames(said.frames, size)).exchanges)
        assert [*map(encode_span, cut)] == [*map(encode_span, whole)]

    @recorded
    def test_a_session_may_be_continued_wherever_it_has_a_state(self, number: int) -> None:
        """As after a crash of telemetry, between any two responses."""
        begun, head, *frames = say_all(session_at(number)).frames
        assert isinstance(begun, Begin)
        next_number = itertools.count(1).__next__
        calls = SocketCalls(begun, RealtimeSession, next_number, OpenBodies())
        given, count = [*calls.feed(head)], 0
        for frame in frames:
            given += calls.feed(frame)
            if (state := calls.state) is not None:
                count += 1
                calls = SocketCalls(begun, RealtimeSession, next_number, OpenBodies())
                given += [*calls.feed(head), *calls.feed(state)]
        observer = Observer()
        continued = [it for frame in given if (it := observer.feed(frame)) is not None]
        whole = Recording().feed([begun, head, *frames]).exchanges
        assert [*map(encode_span, record(continued))] == [*map(encode_span, record(whole))]
        assert count > 2

    @recorded
    def test_no_sound_is_in_a_span(self, number: int) -> None:
        """Of neither side."""
        messages = session_at(number)
        sound = [event["audio"] for _, event in messages if event["type"].endswith("append")]
        sound += [event["delta"] for _, event in messages if event["type"].endswith("audio.delta")]
        for span in record(Recording().feed(say_all(messages).frames).exchanges):
            told = str(dict(span.attributes or {}))
            assert not [piece for piece in sound if piece in told]


def begin(*, transcribes: bool = True) -> Wire:
    """A session, and a question in it that was spoken."""
    wire = Wire(**REALTIME)
    heard = {"transcription": {"model": "t-1"} if transcribes else None}
    session = {"id": "sess-1", "model": "m-1", "audio": {"input": heard}}
    wire.say({"type": "session.created", "session": session}, from_client=False)
    wire.say(
        {"type": "conversation.item.added", "item": user("u1"), "previous_item_id": None},
        from_client=False,
    )
    return wire


def answer(wire: Wire, answer_id: str = "r1") -> None:
    """The server answers."""
    response = {"id": answer_id, "object": "realtime.response", "status": "in_progress"}
    wire.say({"type": "response.created", "response": response}, from_client=False)
    done = {"status": "completed", "output": [spoken(f"a-{answer_id}", "Hello")], "usage": USAGE}
    wire.say({"type": "response.done", "response": response | done}, from_client=False)


def transcribe(wire: Wire) -> None:
    """The server says what the user said."""
    said = {"item_id": "u1", "content_index": 0, "transcript": "Hi there", "usage": HEARD}
    wire.say({"type": TRANSCRIBED, **said}, from_client=False)


def told(recording: Recording) -> list[tuple[list[str], dict[str, Any]]]:
    """What the user said in each span, and its metadata."""
    attributes = [dict(span.attributes or {}) for span in record(recording.exchanges)]
    return [(read_texts(it, "input"), decode_json(str(it["metadata"]))) for it in attributes]


class TestLateTranscripts:
    """What the user said is known after the answer began, or after it ended."""

    @pytest.mark.parametrize("is_late", [False, True])
    def test_a_transcript_is_in_the_span_of_its_answer(self, *, is_late: bool) -> None:
        """With what it cost; the span ends with the answer, however long it waited."""
        wire = begin()
        if is_late:
            answer(wire)
            end_ns = wire.frames[-1].at_ns  # type: ignore[union-attr]
            recording = Recording().feed(wire.frames)
            assert recording.exchanges == []
            transcribe(wire)
            recording.feed(wire.frames[-1:])
        else:
            response = {"id": "r1", "object": "realtime.response", "status": "in_progress"}
            wire.say({"type": "response.created", "response": response}, from_client=False)
            transcribe(wire)
            done = {"status": "completed", "output": [spoken("a1", "Hello")], "usage": USAGE}
            wire.say({"type": "response.done", "response": response | done}, from_client=False)
            end_ns = wire.frames[-1].at_ns  # type: ignore[union-attr]
            recording = Recording().feed(wire.frames)
        [(texts, metadata)] = told(recording)
        assert texts == ["Hi there"]
        assert metadata["transcription_usage"] == [HEARD]
        assert "anomalies" not in metadata
        [exchange] = recording.exchanges
        assert (exchange.outcome, exchange.end_ns) == (Outcome.COMPLETED, end_ns)

    def test_a_session_that_asks_for_none_waits_for_none(self) -> None:
        """Its spans are there at once."""
        wire = begin(transcribes=False)
        answer(wire)
        assert len(Recording().feed(wire.frames).exchanges) == 1

    def test_a_transcript_that_does_not_come_is_waited_for_some_seconds(self) -> None:
        """By the clock, or by the next read, whichever comes first."""
        wire = begin()
        item_ns = wire.frames[-1].at_ns  # type: ignore[union-attr]
        answer(wire)
        by_clock, by_read = Recording().feed(wire.frames), Recording().feed(wire.frames)
        by_clock.source.end_due(item_ns + WAIT_NS - 1)
        assert by_clock.exchanges == []
        by_clock.source.end_due(item_ns + WAIT_NS)
        by_read.feed([SocketData(7, item_ns + WAIT_NS, True, b"")])
        for recording in (by_clock, by_read):
            [(texts, _)] = told(recording)
            assert texts == [""]

    def test_the_end_of_the_connection_ends_the_wait(self) -> None:
        """The answer was whole."""
        wire = begin()
        answer(wire)
        end_ns = wire.frames[-1].at_ns  # type: ignore[union-attr]
        wire.end()
        recording = Recording().feed(wire.frames)
        [exchange] = recording.exchanges
        assert (exchange.outcome, exchange.end_ns) == (Outcome.COMPLETED, end_ns)
        for receipt in recording.receipts:
            receipt.settle()
        assert recording.source.pop_acks().settled == [7]

    def test_what_cannot_be_read_afterwards_cuts_nothing_off(self) -> None:
        """The answer had ended before."""
        wire = begin()
        answer(wire)
        wire.frames.append(SocketData(7, START_NS + 500 * MS, False, b"\xff\xff\xff"))
        wire.end()
        [(_, metadata)] = told(Recording().feed(wire.frames))
        assert "anomalies" not in metadata

    def test_calls_that_wait_end_in_their_order(self) -> None:
        """A second answer to the same words, after the result of a tool."""
        wire = begin()
        answer(wire, "r1")
        answer(wire, "r2")
        transcribe(wire)
        recording = Recording().feed(wire.frames)
        assert [exchange.response and exchange.response.id for exchange in recording.exchanges] == [
            "r1",
            "r2",
        ]
        assert [texts for texts, _ in told(recording)] == [["Hi there"], ["Hi there", "Hello"]]


def test_a_worker_that_is_lost_leaves_a_call_that_waits_as_it_ended() -> None:
    """Nothing of its answer is missing."""
    wire = begin()
    answer(wire)
    recording = Recording().feed(wire.frames)
    recording.source.lose(START_NS + 9_000 * MS, "the worker process 1 ended")
    assert [exchange.outcome for exchange in recording.exchanges] == [Outcome.COMPLETED]


def test_a_call_that_waits_is_shown_as_open() -> None:
    """And it is forgotten with its connection, if that comes again."""
    wire = begin()
    answer(wire)
    recording = Recording().feed(wire.frames)
    assert len(recording.source) == 1
    recording.source.forget(7)
    assert len(recording.source) == 0


def test_an_interrupted_answer_is_no_error() -> None:
    """The user spoke."""
    wire = begin(transcribes=False)
    response = {"id": "r1", "object": "realtime.response", "status": "in_progress"}
    wire.say({"type": "response.created", "response": response}, from_client=False)
    details = {"type": "cancelled", "reason": "turn_detected"}
    ended = {"status": "cancelled", "status_details": details, "output": [spoken("a", "Once up")]}
    wire.say({"type": "response.done", "response": response | ended}, from_client=False)
    recording = Recording().feed(wire.frames)
    [span] = record(recording.exchanges)
    assert recording.exchanges[0].outcome is Outcome.CANCELLED
    assert span.status.status_code.name == "UNSET"
    attributes = dict(span.attributes or {})
    assert attributes["llm.finish_reason"] == "turn_detected"
    assert read_texts(attributes, "output") == ["Once up"]
