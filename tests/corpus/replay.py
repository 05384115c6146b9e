"""Plays recordings from a local server through a running proxy, and finds what went wrong.

One server and one proxy serve all replays. The server writes an answer in pieces and waits after
each until the proxy has read it, so that the proxy's reads are exactly these pieces, over real
sockets. A cut of few bytes is made at both ends of an answer, :data:`MAX_PIECES` in all, with the
middle in one piece; :func:`observe_cut` and :func:`filter_cut` cut the whole of it, at the level
of tap frames and of the usage filter, where a read costs microseconds and no system call.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.resources import Resource

from codec.chat.usage_filter import UsageFilter
from telemetry.frames.frame import ResponseData
from telemetry.observing.observer import Observer
from telemetry.spans.recorder import SpanRecorder, build_span_limits
from tests.corpus import (
    gemini_oracle,
    media_oracle,
    message_oracle,
    ollama_oracle,
    ranking_oracle,
    response_oracle,
)
from tests.corpus.folds import describe_response
from tests.corpus.oracle import (
    expect_outcome,
    fold_answer,
    is_stream,
    parse_json,
    without_usage_events,
)
from tests.corpus.spans import expected_attributes, select_attributes
from tests.proxy.harness import (
    Connection,
    ObservingSink,
    RunningProxy,
    ScriptedUpstream,
    request_bytes,
    running_proxy,
)
from tests.proxy.raw_client import join_chunks, send_raw, split_answer
from tests.telemetry.observed import chat_answer, observe
from tests.telemetry.tap_frames import begin, exchange_frames

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from telemetry.frames.frame import Frame
    from telemetry.observing.exchange import Exchange
    from tests.corpus.recordings import Recording

__all__ = (
    "CUTS",
    "Bench",
    "Replay",
    "cut_bytes",
    "filter_cut",
    "find_answer_faults",
    "find_faults",
    "observe_cut",
    "observe_recording",
    "open_bench",
)

MAX_PIECES = 50
"""Pieces of a fixed size in one replay: each is a turn of the server, the proxy and the client."""

MAX_TURNS = 200
"""How often the server looks whether the proxy has read, before it goes on all the same."""

ORACLES = {
    "audio.speech": media_oracle.expect_speech_span,
    "audio.transcriptions": media_oracle.expect_transcription_span,
    "audio.translations": media_oracle.expect_transcription_span,
    "code_assist.count": message_oracle.expect_count_span,
    "code_assist.generate": gemini_oracle.expect_plain_span,
    "code_assist.stream": gemini_oracle.expect_stream_span,
    "count_tokens": message_oracle.expect_count_span,
    "gemini.count": message_oracle.expect_count_span,
    "gemini.embed": gemini_oracle.expect_embedding_span,
    "gemini.generate": gemini_oracle.expect_plain_span,
    "gemini.stream": gemini_oracle.expect_stream_span,
    "images": media_oracle.expect_image_span,
    "messages": message_oracle.expect_span,
    "moderations": ranking_oracle.expect_moderation_span,
    "rerank": ranking_oracle.expect_ranking_span,
    "ollama.chat": ollama_oracle.expect_chat_span,
    "ollama.embed": ollama_oracle.expect_embedding_span,
    "ollama.generate": ollama_oracle.expect_text_span,
    "responses": response_oracle.expect_span,
}
"""What the span of an exchange must say, by its API; the others have a fold of their own."""

OF_METADATA = {
    "audio.speech": ("output_bytes", "usage_raw"),
    "audio.transcriptions": ("usage_raw",),
    "audio.translations": ("usage_raw",),
    "images": ("partial_images", "usage_raw"),
    "moderations": ("model", "flagged", "flagged_categories", "usage_raw"),
    "rerank": ("model", "usage_raw"),
}
"""Members of the metadata that these oracles know."""

_SPLICE = b',"stream_options":{"include_usage":true}'
_recorder = SpanRecorder(Resource.get_empty(), build_span_limits())
_HOP_FIELDS = {b"connection", b"content-length", b"transfer-encoding"}


def cut_bytes(data: bytes, size: int, max_pieces: int | None = None) -> list[bytes]:
    """The bytes in pieces of a size; where these are too many, the middle is one piece."""
    if max_pieces is None or len(data) <= size * max_pieces:
        return [data[start : start + size] for start in range(0, len(data), size)]
    edge = size * (max_pieces // 2)
    return [*cut_bytes(data[:edge], size), data[edge:-edge], *cut_bytes(data[-edge:], size)]


def _cut_anywhere(data: bytes) -> list[bytes]:
    dice = random.Random(len(data))  # the same cuts in every run
    places = sorted({dice.randrange(len(data) + 1) for _ in range(12)} | {0, len(data)})
    return [data[start:end] for start, end in itertools.pairwise(places)]


CUTS: dict[str, Callable[[bytes], list[bytes]]] = {
    "whole": lambda data: [data],
    "random": _cut_anywhere,
    "7": lambda data: cut_bytes(data, 7, MAX_PIECES),
    "1": lambda data: cut_bytes(data, 1, MAX_PIECES),
}


class _CountingSink(ObservingSink):
    """Knows how much of the answer under way the proxy has read, and in how many reads."""

    def __init__(self) -> None:
        super().__init__()
        self.begin()

    def begin(self) -> None:
        """Forget the exchange before."""
        self.frames.clear()
        self.exchanges.clear()
        self.read_bytes = self.read_count = 0

    def emit(self, frame: Frame) -> None:
        if isinstance(frame, ResponseData):
            self.read_bytes += len(frame.data)
            self.read_count += 1
        super().emit(frame)


@dataclass(kw_only=True)
class Replay:
    """One replay: what was played, what the client and the upstream got, what was recorded."""

    recording: Recording
    request: bytes
    pieces: list[bytes]
    status_line: bytes = b""
    fields: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes = b""
    ended_cleanly: bool = True
    upstream_line: bytes = b""
    upstream_bodies: list[bytes] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    read_count: int = 0


@dataclass
class Bench:
    """The server, the proxy and its sink."""

    running: RunningProxy
    upstream: ScriptedUpstream
    sink: _CountingSink
    player: _Player

    async def replay(self, recording: Recording, request: bytes, cut: str = "whole") -> Replay:
        """Play one recording to a client that sends this request body."""
        replay = Replay(
            recording=recording, request=request, pieces=[p for p in CUTS[cut](recording.body) if p]
        )
        self.sink.begin()
        self.upstream.requests.clear()
        self.player.begin(replay, counted=cut == "whole")
        kind = recording.content_type
        data = request_bytes(request, target=recording.target, content_type=kind)
        answer = await send_raw(self.running.address, data)
        replay.status_line, replay.fields, body = split_answer(answer)
        if (b"Transfer-Encoding", b"chunked") in replay.fields:
            replay.body, replay.ended_cleanly = join_chunks(body)
        else:
            replay.body = body
            replay.ended_cleanly = (b"Content-Length", b"%d" % len(body)) in replay.fields
        await self._take_record(replay)
        return replay

    async def _take_record(self, replay: Replay) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(3.0):
                while not self.sink.exchanges:
                    await asyncio.sleep(0)
        for _ in range(3):  # for a second record, should there be one
            await asyncio.sleep(0)
        replay.exchanges = list(self.sink.exchanges)
        replay.frames = list(self.sink.frames)
        replay.read_count = self.sink.read_count
        replay.upstream_bodies = [request.body for request in self.upstream.requests]
        if self.upstream.requests:
            replay.upstream_line = self.upstream.requests[0].request_line


class _Player:
    """The script of the server: answers with the recording that is to be replayed."""

    def __init__(self, sink: _CountingSink) -> None:
        self._sink = sink

    def begin(self, replay: Replay, *, counted: bool) -> None:
        self._replay = replay
        self._counted = counted

    async def __call__(self, connection: Connection) -> None:
        recording = self._replay.recording
        framing = b"Transfer-Encoding: chunked"
        if self._counted:
            framing = b"Content-Length: %d" % (len(recording.body) + recording.breaks_off)
        fields = [b"%b: %b" % pair for pair in recording.head]
        head = [b"HTTP/1.1 %d As Recorded" % recording.status, *fields, framing]
        connection.writer.write(b"\r\n".join(head) + b"\r\n\r\n")
        before, sent = self._sink.read_bytes, 0
        for piece in self._replay.pieces:
            wire = piece if self._counted else b"%x\r\n%b\r\n" % (len(piece), piece)
            connection.writer.write(wire)
            sent += len(piece)
            for _ in range(MAX_TURNS):
                if self._sink.read_bytes >= before + sent:
                    break
                await asyncio.sleep(0)
        if recording.breaks_off:
            connection.writer.close()
        elif not self._counted:
            connection.writer.write(b"0\r\n\r\n")
        await connection.writer.drain()


@contextlib.asynccontextmanager
async def open_bench() -> AsyncIterator[Bench]:
    """Start server and proxy."""
    sink = _CountingSink()
    player = _Player(sink)
    async with (
        ScriptedUpstream(player) as upstream,
        running_proxy(upstream.url, sink=sink) as proxy,
    ):
        yield Bench(proxy, upstream, sink, player)


# --- judging ---------------------------------------------------------------------------------


def find_faults(replay: Replay) -> list[str]:
    """What is wrong with a replay, in words; nothing where all is well."""
    return [*_find_relay_faults(replay), *_find_record_faults(replay)]


def expected_body(recording: Recording, request: bytes) -> bytes:
    """What the client must get: all, but for the usage events that only spantap asked for."""
    options = (parse_json(request) or {}).get("stream_options") or {}
    asked = options.get("include_usage") is True
    caused = recording.takes_usage_option and recording.asks_stream and not asked
    if caused and recording.status < 300 and is_stream(recording.body):
        return without_usage_events(recording.body)
    return recording.body


def _find_relay_faults(replay: Replay) -> list[str]:
    """R1: bytes and heads, both ways."""
    recording, request = replay.recording, replay.request
    faults = []
    body = expected_body(recording, request)
    if replay.body != body:
        faults.append(f"the client got {len(replay.body)} bytes that differ from {len(body)}")
    if replay.ended_cleanly is recording.breaks_off:
        faults.append(f"the client's body ended cleanly: {replay.ended_cleanly}")
    if replay.status_line != b"HTTP/1.1 %d As Recorded" % recording.status:
        faults.append(f"status line {replay.status_line!r}")
    fields = [pair for pair in replay.fields if pair[0].lower() not in _HOP_FIELDS]
    if fields != list(recording.head):
        faults.append(f"fields {fields} differ from {list(recording.head)}")
    if replay.upstream_line != b"POST %b HTTP/1.1" % recording.target:
        faults.append(f"the upstream got {replay.upstream_line!r}")
    asks = recording.takes_usage_option and recording.asks_stream
    asks = asks and b"stream_options" not in request
    for number, sent in enumerate(replay.upstream_bodies):
        # One splice and the rest to the byte; a second sending is the client's own body.
        before, spliced, after = sent.partition(_SPLICE)
        if (spliced and before + after if asks and not number else sent) != request:
            faults.append(f"the upstream got the body {sent!r}")
    return faults


def _find_record_faults(replay: Replay) -> list[str]:
    """R3 and R6: one record, and it says what the recording says."""
    if len(replay.exchanges) != 1:
        return [f"{len(replay.exchanges)} records"]
    recording, [exchange] = replay.recording, replay.exchanges
    if exchange.endpoint in ORACLES:
        return [
            *([] if _is_request(exchange, replay) else ["another request"]),
            *find_answer_faults(recording, exchange),
        ]
    told = describe_response(chat_answer(exchange)) if exchange.response is not None else {}
    expected = fold_answer(recording.body)
    pairs: dict[str, tuple[Any, Any]] = {
        **{key: (told.get(key), expected.get(key)) for key in {*told, *expected}},
        "outcome": (
            exchange.outcome.value,
            expect_outcome(recording.status, recording.body, expected),
        ),
        "status": (exchange.response_status, recording.status),
        "request body": (exchange.request_body, replay.request),
        "anomalies": (set(exchange.anomalies) & {"observer_limit", "response_undecodable"}, set()),
    }
    faults = [f"{key}: {got!r}, not {want!r}" for key, (got, want) in pairs.items() if got != want]
    return [*faults, *_find_output_faults(replay, exchange), *_find_span_faults(exchange, expected)]


def _is_request(exchange: Exchange, replay: Replay) -> bool:
    """Whether the request was recorded as it was sent, a form as its fields."""
    if b"json" in replay.recording.content_type:
        return exchange.request_body == replay.request
    told = parse_json(exchange.request_body or b"")
    return bool(told == media_oracle.expect_request(replay.recording))


def _find_span_faults(exchange: Exchange, fold: dict[str, Any]) -> list[str]:
    """The record becomes one span, and that says what the recording says."""
    span = _recorder.record(exchange)
    if span is None:
        return ["no span"]
    legacy = exchange.endpoint == "completions"
    return _compare(select_attributes(span.attributes), expected_attributes(fold, legacy=legacy))


def find_answer_faults(recording: Recording, exchange: Exchange) -> list[str]:
    """What a span says of the answer, and should not, by the second fold of its API."""
    span = _recorder.record(exchange)
    if span is None:
        return ["no span"]
    told = select_attributes(span.attributes) | {
        "outcome": exchange.outcome.value,
        "error": exchange.error_message if exchange.error_is_providers else None,
        "status": span.status.status_code.name,
        "lost": bool({"observer_limit", "response_undecodable"} & {*exchange.anomalies}),
    }
    attributes = span.attributes or {}
    told |= {key: attributes.get(key) for key in ("llm.model_name", "gen_ai.response.id")}
    if exchange.endpoint == "audio.speech":
        told["output.mime_type"] = attributes.get("output.mime_type")
    if exchange.endpoint in OF_METADATA:
        metadata = parse_json(str(attributes["metadata"]))
        names = OF_METADATA[exchange.endpoint]
        told |= {f"metadata.{name}": metadata.get(name) for name in names}
    output = str(attributes.get("output.value", ""))
    told["output.value"] = parse_json(output) or output
    expected = ORACLES[exchange.endpoint](recording)
    words = expected.get("error") or ""
    if recording.breaks_off and words.startswith(told["error"] or ""):
        told["error"] = expected.get("error")  # half a word may be half a secret, and is left out
    return _compare(told, expected)


def _compare(told: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    return [
        f"{key}: {told.get(key)!r}, not {expected.get(key)!r}"
        for key in sorted(told.keys() | expected.keys())
        if told.get(key) != expected.get(key)
    ]


def _find_output_faults(replay: Replay, exchange: Exchange) -> list[str]:
    """``output.value`` is what the client received (``docs/contract/spans.md#output-value``)."""
    if exchange.response is None:
        return []
    output = exchange.response.body
    if not is_stream(replay.recording.body):
        value = parse_json(replay.body)
        return [] if output in (value, [value]) else ["the output is not the body"]
    received = fold_answer(replay.body)
    if ("usage" in output) != (b'"usage"' in replay.body and _shows_usage(replay.body)):
        return [f"usage in the output: {output.get('usage')}"]
    choices = {str(choice["index"]): choice for choice in output.get("choices", ())}
    told = {index: choice.get("finish_reason") for index, choice in choices.items()}
    expected = {
        index: choice.get("finish_reason") for index, choice in received.get("choices", {}).items()
    }
    return [] if told == expected else [f"the output's choices: {told}, not {expected}"]


def _shows_usage(body: bytes) -> bool:
    lines = (line.removeprefix(b"data:") for line in body.splitlines())
    values = (parse_json(line) for line in lines)
    return any(isinstance(value, dict) and value.get("usage") for value in values)


def observe_recording(recording: Recording, endpoint: str, **ending: Any) -> Exchange:
    """The record of an exchange that nobody relayed."""
    head = tuple((name.decode().lower(), value.decode()) for name, value in recording.head)
    asked = media_oracle.write_request(recording)
    _, *frames = exchange_frames(
        recording.body, asked=asked, status=recording.status, headers=head, **ending
    )
    path = recording.target.decode().partition("?")[0]
    return observe([begin(endpoint=endpoint, path=path), *frames])


def observe_cut(replay: Replay, size: int) -> Exchange | None:
    """The record of the same frames with the whole answer in pieces of a size."""
    observer = Observer()
    data = b"".join(frame.data for frame in replay.frames if isinstance(frame, ResponseData))
    times = [frame for frame in replay.frames if isinstance(frame, ResponseData)]
    others = [frame for frame in replay.frames if not isinstance(frame, ResponseData)]
    for frame in others[:-1]:
        observer.feed(frame)
    for piece in cut_bytes(data, size):
        observer.feed(ResponseData(times[0].exchange, times[0].at_ns, piece))
    return observer.feed(others[-1])


def filter_cut(body: bytes, size: int) -> bytes:
    """What the usage filter lets through of a body in pieces of a size."""
    usage_filter = UsageFilter()
    passed = b"".join(usage_filter.feed(piece) for piece in cut_bytes(body, size))
    return passed + usage_filter.finish()
