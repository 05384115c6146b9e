"""The turns of recorded Live sessions: spans from a connection's bytes, however these come."""

from __future__ import annotations

import base64
import itertools
import random
from typing import TYPE_CHECKING, Any

import pytest
from websockets.frames import Frame as WireFrame
from websockets.frames import Opcode

from codec.apis.gemini.live.session import LiveSession
from codec.text.jsontext import compact_text, decode_json
from codec.websockets import Deflate
from telemetry.frames.ending import EndKind
from telemetry.frames.frame import Begin, End, Frame, SocketData
from telemetry.observing.exchange import Outcome
from telemetry.observing.observer import Observer
from telemetry.observing.open_bodies import OpenBodies
from telemetry.observing.socket_calls import SocketCalls
from tests.corpus.live_recordings import NUMBER, load_sessions, observe_frames, write_frames
from tests.corpus.recordings import FOLDER, NEEDS_RECORDINGS
from tests.telemetry import tap_frames
from tests.telemetry.exchanges import build_exchange_attributes
from tests.telemetry.tap_frames import MS, START_NS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from telemetry.observing.exchange import Exchange
    from tests.corpus.live_recordings import Messages

pytestmark = pytest.mark.timeout(240)

COUNT = 7
"""How many connections were recorded."""


def with_sessions(test: Callable[..., None]) -> Callable[..., None]:
    """Let a test have the number of each recorded connection."""
    for mark in (pytest.mark.parametrize("number", range(COUNT)), *NEEDS_RECORDINGS):
        test = mark(test)
    return test


TOKENS = {
    "prompt_details.audio": "promptTokensDetails",
    "completion_details.audio": "responseTokensDetails",
}
"""Counts of sound."""

COUNTS = ("prompt", "completion", "completion_details.reasoning", "total", *TOKENS)


def session(number: int) -> Messages:
    """The messages of a recorded connection."""
    assert FOLDER is not None
    sessions = load_sessions(FOLDER)
    assert len(sessions) == COUNT
    return sessions[number]


def show(exchange: Exchange) -> dict[str, Any]:
    """What the span of a turn shows, in the words of :func:`fold`."""
    shown = build_exchange_attributes(exchange)
    asked = [*_list_words(shown, "input")]
    if shown.get("llm.input_messages.0.message.role") == "system":
        asked = asked[1:]
    metadata = decode_json(str(shown["metadata"]))
    return {
        "asked": asked,
        "said": "".join(_list_words(shown, "output")),
        "reason": shown.get("llm.finish_reason"),
        "sound": metadata.get("output_bytes", 0),
        "tokens": {
            name: count
            for name in COUNTS
            if (count := shown.get(f"llm.token_count.{name}")) is not None
        },
        "end_ns": exchange.end_ns,
        "outcome": exchange.outcome,
        "anomalies": exchange.anomalies,
    }


def _list_words(shown: dict[str, Any], side: str) -> Iterator[str]:
    """The words of each message, spoken or written, and of calls of tools."""
    words: dict[int, list[str]] = {}
    ends = ("content", ".text", ".transcript", "function.name", "function.arguments")
    for name, value in shown.items():
        if name.startswith(f"llm.{side}_messages."):
            place = int(name.split(".")[2])
            said = words.setdefault(place, [])
            if name.endswith(ends):
                said.append(value)
    for _, said in sorted(words.items()):
        yield "".join(said)


def fold(messages: Messages) -> list[dict[str, Any]]:
    """Read the turns of a session by hand."""
    history: list[str] = []
    turns: list[dict[str, Any]] = []
    opened: dict[str, Any] | None = None
    hears = False
    for at, (from_client, text) in enumerate(messages):
        message = decode_json(text)
        if from_client:
            written = message.get("client_content", {}).get("turns", [])
            results = message.get("tool_response", {}).get("functionResponses", [])
            history += ["".join(part["text"] for part in turn["parts"]) for turn in written]
            history += [compact_text(result["response"]) for result in results]
            continue
        said = message.get("serverContent", {})
        if (heard := said.get("inputTranscription", {}).get("text")) is not None:
            history += [] if hears else [""]
            hears = True
            history[-1] += heard
        spoken = said.get("outputTranscription")
        calls = message.get("toolCall", {}).get("functionCalls", [])
        if opened is None and (spoken or calls or "modelTurn" in said):
            opened = {"asked": [*history], "said": "", "sound": 0}
            turns.append(opened)
        if opened is None:
            continue
        for part in said.get("modelTurn", {}).get("parts", []):
            opened["said"] += part.get("text", "")
            opened["sound"] += len(base64.b64decode(part.get("inlineData", {}).get("data", "")))
        opened["said"] += (spoken or {}).get("text", "")
        opened["said"] += "".join(call["name"] + compact_text(call["args"]) for call in calls)
        if calls or said.get("turnComplete"):
            opened |= {
                "reason": "toolCall" if calls else "turnComplete",
                "tokens": _count_tokens(message.get("usageMetadata", {})),
                "end_ns": START_NS + (at + 1) * MS,
                "outcome": Outcome.COMPLETED,
                "anomalies": (),
            }
            history.append(opened["said"])
            opened, hears = None, False
    return turns


def _count_tokens(usage: dict[str, Any]) -> dict[str, int]:
    """The counts; those of thoughts are beside the others."""
    if not usage:
        return {}
    thoughts = usage.get("thoughtsTokenCount", 0)
    said = usage.get("responseTokenCount", usage.get("candidatesTokenCount"))
    counts = {"completion": said + thoughts, "total": usage["totalTokenCount"]}
    if thoughts and usage["totalTokenCount"] == usage["promptTokenCount"] + said:
        del counts["total"]  # it leaves out the thoughts
    for name, wire in TOKENS.items():
        details = usage.get(wire) or usage.get(wire.replace("response", "candidates"))
        found = {one["modality"]: one.get("tokenCount") for one in details or ()}
        if (count := found.get("AUDIO")) is not None:
            counts[name] = count
    counts["prompt"] = usage["promptTokenCount"]
    return counts | ({"completion_details.reasoning": thoughts} if thoughts else {})


def cut(frames: Iterable[Frame], size: int) -> Iterator[Frame]:
    """The frames with reads of so many bytes at most."""
    for frame in frames:
        if isinstance(frame, SocketData):
            for at in range(0, len(frame.data), size):
                piece = frame.data[at : at + size]
                yield SocketData(NUMBER, frame.at_ns, frame.from_client, piece)
        else:
            yield frame


def tell(exchanges: Iterable[Exchange]) -> list[tuple[Any, ...]]:
    """All that a record has, and its ids."""
    return [(one.identity, one.request_body, show(one)) for one in exchanges]


@with_sessions
def test_the_spans_of_a_session_are_those_of_a_fold_by_hand(number: int) -> None:
    """Inputs, words, calls, sound, counts, ends."""
    messages = session(number)
    turns = [show(exchange) for exchange in observe_frames(write_frames(messages))]
    assert turns == fold(messages)
    assert turns


@with_sessions
@pytest.mark.parametrize("size", [1, 7, 4_096])
def test_the_size_of_the_reads_changes_nothing(number: int, size: int) -> None:
    """Byte by byte as well."""
    frames = write_frames(session(number))
    assert tell(observe_frames(cut(frames, size))) == tell(observe_frames(frames))


@with_sessions
@pytest.mark.parametrize("deflate", [None, Deflate()], ids=["plain", "compressed"])
@pytest.mark.parametrize("size", [1_400, 10_000_000])
def test_fragments_pings_and_compression_change_nothing(
    number: int, deflate: Deflate | None, size: int
) -> None:
    """With what was said before as the context of what follows."""
    messages = session(number)
    frames = write_frames(messages, deflate=deflate, is_fragmented=True)
    assert tell(observe_frames(cut(frames, size))) == tell(observe_frames(write_frames(messages)))


@with_sessions
@pytest.mark.parametrize(
    ("kind", "outcome"),
    [
        (EndKind.CLIENT_GONE, Outcome.CLIENT_DISCONNECTED),
        (EndKind.UPSTREAM_BROKEN, Outcome.TRUNCATED),
    ],
)
def test_a_session_that_is_cut_anywhere_has_its_whole_turns_and_what_came_of_the_last(
    number: int, kind: EndKind, outcome: Outcome
) -> None:
    """Also within a message, and before an answer began."""
    messages = session(number)
    frames = write_frames(messages)[:-1]
    whole = tell(observe_frames(frames))
    dice = random.Random(number)
    for at in dice.sample(range(2, len(frames)), k=min(len(frames) - 2, 40)):
        last = frames[at]
        assert isinstance(last, SocketData)
        half = SocketData(NUMBER, last.at_ns, last.from_client, last.data[: len(last.data) // 2])
        end = End(exchange=NUMBER, at_ns=last.at_ns, kind=kind)
        turns = tell(observe_frames([*frames[:at], half, end]))
        told = fold(messages[: at - 2])
        ended = [turn for turn in told if "end_ns" in turn]
        assert turns[: len(ended)] == whole[: len(ended)]
        rest = turns[len(ended) :]
        assert [shown["outcome"] for _, _, shown in rest] == [outcome] * len(rest)
        for (_, _, shown), turn in zip(rest, told[len(ended) :], strict=False):
            assert (shown["asked"], shown["said"]) == (turn["asked"], turn["said"])
        assert len(rest) <= 1


@with_sessions
def test_a_turn_that_nobody_asked_for_has_no_time_to_its_first_chunk(number: int) -> None:
    """When the user stopped speaking is not known; in all other sessions the client wrote."""
    for turn in observe_frames(write_frames(session(number))):
        assert (turn.first_chunk_ns is None) is (number == 0)
        assert (turn.first_content_ns is None) is (number == 0)


@with_sessions
def test_the_turns_of_a_connection_have_one_session(number: int) -> None:
    """The id that Vertex AI gives, or else one of ours, even if nothing of the talk is written."""
    messages = session(number)
    given = {
        decode_json(text).get("setupComplete", {}).get("sessionId")
        for from_client, text in messages
        if not from_client
    } - {None}
    [named] = {turn.context.session_id for turn in observe_frames(write_frames(messages))}
    assert {named} == (given or {tap_frames.identity(NUMBER).span_id})


@with_sessions
def test_a_session_that_is_continued_from_each_of_its_states_has_the_same_spans(
    number: int,
) -> None:
    """As after a crash of telemetry, between any two turns."""
    begin, head, *frames = write_frames(session(number))
    assert isinstance(begin, Begin)
    given: list[Frame] = []
    numbers, states = itertools.count(1).__next__, 0
    calls = SocketCalls(begin, LiveSession, numbers, OpenBodies())
    given += calls.feed(head)
    for frame in frames:
        given += calls.feed(frame)
        if (state := calls.state) is not None:
            states += 1
            calls = SocketCalls(begin, LiveSession, numbers, OpenBodies())
            given += [*calls.feed(head), *calls.feed(state)]
    observer = Observer()
    turns = [turn for frame in given if (turn := observer.feed(frame)) is not None]
    assert tell(turns) == tell(observe_frames([begin, head, *frames]))
    assert states > 2


def write_close(code: int, reason: str) -> bytes:
    """The wire of a close by the server."""
    return WireFrame(Opcode.CLOSE, code.to_bytes(2, "big") + reason.encode()).serialize(mask=False)


ASKED: Messages = [
    (True, b'{"setup": {"model": "models/m-1"}}'),
    (False, b'{"setupComplete": {}}'),
    (True, b'{"clientContent": {"turns": [{"parts": [{"text": "Hi"}]}], "turnComplete": true}}'),
    (False, b'{"serverContent": {"outputTranscription": {"text": "Hel"}}}'),
]


@pytest.mark.parametrize(
    ("count", "outcome"),
    [
        (1, Outcome.UPSTREAM_ERROR),
        (3, Outcome.UPSTREAM_ERROR),
        (4, Outcome.STREAM_ERROR),
    ],
)
def test_an_error_by_which_the_server_closes_is_an_error_of_the_turn(
    count: int, outcome: Outcome
) -> None:
    """Or of the setup that it refuses. Google has no message for errors."""
    *frames, end = write_frames(ASKED[:count], EndKind.UPSTREAM_BROKEN)
    close = SocketData(NUMBER, START_NS + 99 * MS, False, write_close(1008, "no quota"))
    [turn] = observe_frames([*frames, close, end])
    assert (turn.outcome, turn.error_message) == (outcome, "no quota")


def test_a_close_that_is_no_error_cuts_the_turn() -> None:
    """As the end of the connection does."""
    *frames, end = write_frames(ASKED, EndKind.UPSTREAM_BROKEN)
    close = SocketData(NUMBER, START_NS + 99 * MS, False, write_close(1000, "bye"))
    [turn] = observe_frames([*frames, close, end])
    assert turn.outcome is Outcome.TRUNCATED


def test_words_that_come_late_are_in_the_record() -> None:
    """Whatever the model has said by then."""
    heard = [
        (False, b'{"serverContent": {"inputTranscription": {"text": "%b"}}}' % words)
        for words in (b"Ahoy", b" there")
    ]
    ends = (False, b'{"serverContent": {"turnComplete": true}}')
    [turn] = observe_frames(write_frames([*ASKED[:2], ASKED[3], *heard, ends]))
    assert show(turn)["asked"] == ["Ahoy there"]
    assert show(turn)["said"] == "Hel"


@with_sessions
def test_no_sound_is_in_a_record(number: int) -> None:
    """It is counted, and that is all."""
    messages = session(number)
    sounds = {
        part["inlineData"]["data"]
        for from_client, text in messages
        if not from_client
        for part in decode_json(text).get("serverContent", {}).get("modelTurn", {}).get("parts", [])
        if "inlineData" in part
    }
    sounds |= {
        blob["data"]
        for from_client, text in messages
        if from_client
        for blob in [decode_json(text).get("realtime_input", {}).get("audio")]
        if blob
    }
    assert sounds
    for exchange in observe_frames(write_frames(messages)):
        kept = repr((exchange.request_body, exchange.request, exchange.response))
        assert not any(sound in kept for sound in sounds)
