"""Every recorded exchange of the Responses API, beside a second fold of the same bytes.

From a local server through the running proxy (R1, R3, R6), and by the codec alone: however the
reads are cut, however lines end and the body is coded, and wherever the answer breaks off.
"""

from __future__ import annotations

import os
import random
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from codec.apis.responses.asked import ResponseRequest
from codec.apis.responses.stream import ResponseStream
from codec.parts import Text, ToolCall
from telemetry.frames.ending import EndKind
from tests.corpus.oracle import is_stream, parse_json
from tests.corpus.recordings import FRAMINGS, NEEDS_RECORDINGS, load_all, load_responses
from tests.corpus.replay import (
    CUTS,
    Bench,
    find_faults,
    find_response_faults,
    observe_recording,
)
from tests.corpus.response_oracle import fold_response

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codec.apis.responses.said import ResponseAnswer
    from tests.corpus.recordings import Recording

RECORDINGS = load_all(load_responses)
STREAMS = [one for one in RECORDINGS if is_stream(one.body)]

FINELY_CUT_BYTES = 12_000
"""Of a stream that is read byte by byte as a whole."""

TRUNCATIONS = 12
"""Places at which each stream breaks off."""

VARIABLE = "SPANTAP_REPLAY"
"""Set to ``all``, every cut of reads is tried with every framing: minutes instead of seconds."""

pytestmark = NEEDS_RECORDINGS


def fold(body: bytes, size: int | random.Random | None = None) -> ResponseAnswer:
    """The answer of a stream, in reads of this size."""
    stream = ResponseStream()
    for piece in _cut(body, size):
        stream.feed(piece)
    return stream.finish()


def _cut(body: bytes, size: int | random.Random | None) -> Iterator[bytes]:
    start = 0
    while start < len(body):
        wanted = size.randrange(1, 700) if isinstance(size, random.Random) else size or len(body)
        yield body[start : start + wanted]
        start += wanted


def test_all_of_them_are_here() -> None:
    """None is left out by the reader but for one that is no text."""
    assert (len(STREAMS), len(RECORDINGS)) == (169, 516)


def vary(recording: Recording) -> Iterator[tuple[str, str, Recording]]:
    """The recording in each cut of reads, with what is done to it; some break off anywhere."""
    chance = random.Random(recording.id)
    chosen = [*zip(CUTS, chance.sample([*FRAMINGS], len(FRAMINGS)), strict=True)]
    broken = {chance.choice(chosen)}
    if os.environ.get(VARIABLE) == "all":
        chosen = [*product(CUTS, FRAMINGS)]
        broken = {*chosen}
    for cut, framing in chosen:
        framed = FRAMINGS[framing](recording)
        yield cut, framing, framed
        if (cut, framing) in broken and framed.body:
            body = framed.body[: chance.randrange(len(framed.body))]
            yield cut, f"{framing}, breaks off", replace(framed, body=body, breaks_off=True)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda one: one.id)
async def test_a_replay_is_transparent_and_gives_one_true_span(
    bench: Bench, recording: Recording
) -> None:
    """The client gets the bytes of the upstream, the span says what the second fold says."""
    for cut, framing, framed in vary(recording):
        replay = await bench.replay(framed, framed.request, cut)
        assert not find_faults(replay), (cut, framing)


@pytest.mark.parametrize("recording", STREAMS, ids=lambda one: one.id)
def test_a_stream_says_the_same_however_it_is_read(recording: Recording) -> None:
    """Whole, event by event, in sevens, anyhow, in bytes; with LF and with CRLF."""
    body = recording.body
    whole = fold(body)
    stream = ResponseStream()
    for event in body.replace(b"\r\n", b"\n").split(b"\n\n"):
        stream.feed(event + b"\n\n")
    assert stream.finish() == whole
    for written in (body, FRAMINGS["CRLF"](recording).body):
        for size in (7, random.Random(recording.id)):
            assert fold(written, size) == whole
        if len(body) <= FINELY_CUT_BYTES:
            assert fold(written, 1) == whole


@pytest.mark.parametrize("recording", STREAMS, ids=lambda one: one.id)
def test_a_stream_that_breaks_off_tells_the_truth_so_far(recording: Recording) -> None:
    """What the second fold says of the same bytes, and no more."""
    chance = random.Random(recording.id)
    for _ in range(TRUNCATIONS):
        body = recording.body[: chance.randrange(len(recording.body))]
        broken = replace(recording, body=body, breaks_off=True)
        exchange = observe_recording(broken, "responses", kind=EndKind.UPSTREAM_BROKEN)
        assert not find_response_faults(broken, exchange), len(body)


@pytest.mark.parametrize("recording", STREAMS, ids=lambda one: one.id)
def test_chunks_are_counted_and_content_is_noticed(recording: Recording) -> None:
    """Each event is a chunk but for errors; a stream with words or calls has content."""
    stream = ResponseStream()
    stream.feed(recording.body)
    answer = stream.finish()
    assert stream.chunk_count == fold_response(recording.body)["chunks"]
    parts = [part for one in answer.answers for part in one.message.parts]
    assert stream.has_content or not any(isinstance(part, Text | ToolCall) for part in parts)


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda one: one.id)
def test_a_recorded_request_is_read_item_by_item(recording: Recording) -> None:
    """The instructions, then a message for each item, roles and call ids as sent."""
    asked = parse_json(recording.request)
    if not isinstance(asked, dict):
        return
    request = ResponseRequest(asked)
    assert request.fault is None
    given = asked.get("input") or []
    items: list[Any] = [{"role": "user", "content": given}] if isinstance(given, str) else given
    messages = list(request.read_messages())
    if asked.get("instructions"):
        first = messages.pop(0)
        assert (first.role, first.content) == ("system", asked["instructions"])
    assert len(messages) == len(items)
    for message, item in zip(messages, items, strict=True):
        kind = item.get("type", "message")
        role = "tool" if kind.endswith("_output") else "assistant"
        assert message.role == (item.get("role") or role)
        if kind == "function_call":
            [call] = message.tool_calls
            assert (call.id, call.name, call.arguments) == (
                item["call_id"],
                item["name"],
                item["arguments"],
            )
    names = [tool.title for tool in request.read_tools()]
    brought = [item["tools"] for item in items if item.get("type") == "additional_tools"]
    given = [tool for some in (asked.get("tools") or [], *brought) for tool in some]
    tools = [one for tool in given for one in tool.get("tools") or [tool]]
    for name, tool in zip(names, tools, strict=True):
        assert name == (tool.get("server_label") or tool.get("name") or tool["type"])
