"""The calls of a WebSocket: one span for each response, whatever becomes of the connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from websockets.extensions.permessage_deflate import PerMessageDeflate
from websockets.frames import Frame as WireFrame
from websockets.frames import Opcode

from codec.apis.realtime.session import RealtimeSession
from codec.apis.responses.session import ResponseSession
from codec.apis.table import SESSIONS
from codec.parts import Text
from codec.rate_limits import read_rate_limits
from codec.text.jsontext import encode_json
from telemetry.frames.ending import EndKind
from telemetry.frames.frame import (
    Begin,
    End,
    Frame,
    RequestBody,
    ResponseHead,
    SocketData,
    SocketState,
)
from telemetry.frames.kept import frame_bytes
from telemetry.observing import source
from telemetry.observing.exchange import Exchange, Outcome
from telemetry.observing.observer import Observer
from telemetry.observing.open_bodies import Holding, OpenBodies
from telemetry.observing.socket_calls import SocketCalls
from telemetry.observing.source import FrameSource
from tests.telemetry import tap_frames
from tests.telemetry.tap_frames import MS, START_NS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from codec.parts import Message
    from telemetry.observing.source import Receipt

NUMBER = 7
DEFLATE = (("sec-websocket-extensions", "permessage-deflate"),)


class Wire:
    """Both directions of a connection, and the frames that a worker would make of them."""

    def __init__(self, *, is_compressed: bool = False, **begun: Any) -> None:
        defaults = {"endpoint": "responses", "method": "GET", "path": "/v1/responses"}
        self.frames: list[Frame] = [
            tap_frames.begin(NUMBER, is_socket=True, **{**defaults, **begun}),
            ResponseHead(
                exchange=NUMBER,
                at_ns=START_NS,
                status=101,
                headers=DEFLATE if is_compressed else (),
            ),
        ]
        self._deflates: dict[bool, list[Any]] = {
            from_client: [PerMessageDeflate(False, False, 15, 15)] if is_compressed else []
            for from_client in (True, False)
        }
        self._at_ns = START_NS

    def say(self, message: Any, *, from_client: bool) -> None:
        """One side sends a message."""
        text = message if isinstance(message, bytes) else encode_json(message).encode()
        frame = WireFrame(Opcode.TEXT, text)
        data = frame.serialize(mask=from_client, extensions=self._deflates[from_client])
        self._at_ns += MS
        self.frames.append(SocketData(NUMBER, self._at_ns, from_client, data))

    def create(self, text: str, **members: Any) -> None:
        """The client asks for a response."""
        create = {"type": "response.create", "model": "m-1", "input": text, **members}
        self.say(create, from_client=True)

    def answer(self, answer_id: str, text: str, previous: str | None = None) -> None:
        """The server answers."""
        self.begin_answer(answer_id, previous)
        content = [{"type": "output_text", "text": text, "annotations": []}]
        item = {"type": "message", "id": "m", "role": "assistant", "content": content}
        self.end_answer(answer_id, [item])

    def begin_answer(self, answer_id: str, previous: str | None = None) -> None:
        """The server begins an answer."""
        response: dict[str, Any] = {
            "id": answer_id,
            "object": "response",
            "status": "in_progress",
            "model": "m-1",
            "output": [],
            "previous_response_id": previous,
        }
        self.say({"type": "response.created", "response": response}, from_client=False)
        self.say(
            {"type": "response.output_text.delta", "output_index": 0, "delta": "a"},
            from_client=False,
        )

    def end_answer(self, answer_id: str, output: list[Any]) -> None:
        """The server ends it."""
        response = {
            "id": answer_id,
            "object": "response",
            "status": "completed",
            "model": "m-1",
            "output": output,
            "usage": {"input_tokens": 5, "output_tokens": 3, "total_tokens": 8},
        }
        self.say({"type": "response.completed", "response": response}, from_client=False)

    def end(self, kind: EndKind = EndKind.CLIENT_GONE) -> None:
        """The connection ends."""
        self.frames.append(End(exchange=NUMBER, at_ns=self._at_ns + MS, kind=kind))


class Recording:
    """What a source records."""

    def __init__(self, bodies: OpenBodies | None = None) -> None:
        self.failures: list[Exception] = []
        self.exchanges: list[Exchange] = []
        self.receipts: list[Receipt] = []
        self.unread_count = 0
        observer = Observer(self.failures.append, bodies=bodies)
        self.source = FrameSource(observer, self._record, self._note_unread)

    def _note_unread(self) -> None:
        self.unread_count += 1

    def _record(self, exchange: Exchange, receipt: Receipt | None) -> None:
        assert receipt is not None
        self.exchanges.append(exchange)
        self.receipts.append(receipt)

    def feed(self, frames: Iterable[Frame]) -> Recording:
        self.source.feed(*frames)
        assert self.failures == []
        return self

    @property
    def said(self) -> list[tuple[Outcome, str]]:
        """The outcome and the text of each answer."""
        return [(exchange.outcome, _text(exchange)) for exchange in self.exchanges]


def _text(exchange: Exchange) -> str:
    said = exchange.response
    return "" if said is None else "".join(_words(one.message) for one in said.answers)


def _words(message: Message) -> str:
    """The texts of a message."""
    parts = (part.text if isinstance(part, Text) else part for part in message.parts)
    return "".join(part for part in parts if isinstance(part, str))


def two_answers(**wire: Any) -> Wire:
    """A connection with a question, and one that continues it."""
    both = Wire(**wire)
    both.create("first")
    both.answer("resp-1", "one")
    both.create("second", previous_response_id="resp-1")
    both.answer("resp-2", "two", "resp-1")
    return both


def test_each_response_is_a_call_while_the_connection_lasts() -> None:
    """With its own ids, its counts, and the conversation as the connection knows it."""
    recording = Recording().feed(two_answers().frames)
    assert recording.said == [(Outcome.COMPLETED, "one"), (Outcome.COMPLETED, "two")]
    one, two = recording.exchanges
    assert one.identity.trace_id != two.identity.trace_id
    assert (one.protocol, two.protocol) == ("websocket", "websocket")
    assert one.response is not None
    assert one.response.usage is not None
    assert two.request is not None
    texts = [*map(_words, two.request.read_messages())]
    assert texts == ["first", "one", "second"]


def test_a_coding_that_a_handshake_names_is_not_that_of_messages() -> None:
    """Of neither side."""
    coding = ("content-encoding", "gzip")
    wire = two_answers(headers=(coding,))
    wire.frames[1] = ResponseHead(exchange=NUMBER, at_ns=START_NS, status=101, headers=(coding,))
    recording = Recording().feed(wire.frames)
    assert recording.said == [(Outcome.COMPLETED, "one"), (Outcome.COMPLETED, "two")]
    assert [exchange.anomalies for exchange in recording.exchanges] == [(), ()]


PICTURE = "data:image/png;base64,iVBORw0KGgo" + "A" * 6_700_000


@pytest.mark.parametrize("is_compressed", [False, True])
def test_a_picture_of_five_megabytes_is_kept_as_over_http(*, is_compressed: bool) -> None:
    """Whatever the characters beside it; what continues the response lacks it, and says so."""
    wire = Wire(is_compressed=is_compressed)
    image = {"type": "input_image", "image_url": PICTURE}
    content = [{"type": "input_text", "text": "What is it? \N{GRINNING FACE}"}, image]
    items = [{"role": "user", "content": content}, {"role": "user", "content": "Well?"}]
    create = {"type": "response.create", "model": "m-1", "input": items}
    wire.say(create, from_client=True)
    wire.answer("resp-1", "a cat")
    wire.create("really?", previous_response_id="resp-1")
    wire.answer("resp-2", "yes", "resp-1")
    recording = Recording()
    bodies = recording.source._observer.bodies
    for frame in in_reads(wire.frames):
        recording.feed([frame])
    one, two = recording.exchanges
    assert one.request is not None
    assert two.request is not None
    parts = [part for message in one.request.read_messages() for part in message.parts]
    assert [type(part).__name__ for part in parts] == ["Text", "Media", "str"]
    assert one.anomalies == ()
    words = ["What is it? \N{GRINNING FACE}", "Well?", "a cat", "really?"]
    assert [*map(_words, two.request.read_messages())] == words
    assert "input_partial" in two.anomalies
    assert bodies.held_bytes == 0


def in_reads(frames: Iterable[Frame]) -> Iterator[Frame]:
    """Cut what came into reads of 64 KiB."""
    for frame in frames:
        if not isinstance(frame, SocketData):
            yield frame
            continue
        for at in range(0, len(frame.data), 65536):
            data = frame.data[at : at + 65536]
            yield SocketData(frame.exchange, frame.at_ns, frame.from_client, data)


def test_a_request_for_which_there_is_no_room_is_known_by_its_beginning() -> None:
    """The largest message under way is cut, its room is given back, and the next one is read."""
    bodies = OpenBodies(max_bytes=3 * 1024 * 1024)
    wire = Wire()
    wire.say({"type": "response.create", "model": "m-1", "input": PICTURE}, from_client=True)
    wire.answer("resp-1", "a cat")
    wire.create("next")
    wire.answer("resp-2", "two")
    recording = Recording(bodies)
    recording.feed(in_reads(wire.frames))
    one, two = recording.exchanges
    assert one.request is not None
    assert one.request.model == "m-1"
    assert "input_partial" in one.anomalies
    assert two.request is not None
    assert [*map(_words, two.request.read_messages())] == ["next"]
    assert (two.anomalies, bodies.held_bytes) == ((), 0)


def test_requests_of_open_calls_share_the_room_for_bodies() -> None:
    """One for each lane, which nobody answers: the room does not depend on how many there are."""
    bodies = OpenBodies(max_bytes=14 * 1024 * 1024)
    recording, wire = Recording(bodies), Wire(is_compressed=True)
    recording.feed(wire.frames)
    held_bytes = []
    for number in range(17):
        wire.create("x" * 3_000_000, stream_id=f"lane-{number}")
        recording.feed(wire.frames[-1:])
        held_bytes.append(bodies.held_bytes)
    assert 6_000_000 < max(held_bytes) <= 14 * 1024 * 1024
    wire.end()
    recording.feed(wire.frames[-1:])
    assert bodies.held_bytes == 0
    partial = ["input_partial" in exchange.anomalies for exchange in recording.exchanges]
    assert len(partial) == 17
    assert sum(partial) >= 12


def test_an_open_call_whose_request_gave_its_room_back_continues() -> None:
    """Its answer is whole, its request is the one that was recorded, and the next call is usual."""
    bodies = OpenBodies(max_bytes=30_000_000)
    recording, wire = Recording(bodies), Wire()
    wire.create("x" * 11_000_000, stream_id="other")
    wire.create("first")
    wire.begin_answer("resp-1")
    recording.feed(wire.frames)
    assert bodies.held_bytes > 11_000_000
    others = [Holding(bodies, lambda: None), Holding(bodies, lambda: None)]
    assert all(other.reserve(10_000_000) for other in others)
    count = len(wire.frames)
    wire.end_answer("resp-1", [])
    wire.create("second", previous_response_id="resp-1")
    wire.answer("resp-2", "two", "resp-1")
    recording.feed(wire.frames[count:])
    first, second = recording.exchanges
    assert first.request is not None
    assert [*map(_words, first.request.read_messages())] == ["first"]
    assert "input_partial" not in first.anomalies
    assert second.request is not None
    assert [*map(_words, second.request.read_messages())][-1] == "second"
    assert "input_partial" in second.anomalies  # what resp-1 was asked is forgotten
    assert bodies.held_bytes == 20_000_000


@pytest.mark.parametrize("end", ["end", "again", "restart", "broken"])
def test_a_message_that_never_ends_gives_its_room_back(end: str) -> None:
    """When the connection ends, comes again or is lost, and when it breaks the protocol."""
    recording, wire = Recording(), Wire()
    wire.say({"type": "response.create", "model": "m-1", "input": PICTURE}, from_client=True)
    *begun, _ = in_reads(wire.frames)
    recording.feed(begun)
    bodies = recording.source._observer.bodies
    assert bodies.held_bytes > 5_000_000
    if end == "end":
        wire.end()
        recording.feed(wire.frames[-1:])
    elif end == "again":
        recording.feed(begun[:1])
    elif end == "restart":
        recording.source.forget_all()
    else:
        recording.feed([SocketData(NUMBER, START_NS + 500 * MS, False, b"\xff\xff\xff")])
    assert bodies.held_bytes == 0


def test_rate_limits_from_a_message_are_in_the_head_of_the_next_call() -> None:
    """As they are in the head of an answer over HTTP."""
    wire = Wire()
    limit = {"name": "tokens", "limit": 9, "remaining": 7, "reset_seconds": 0.5}
    limits = {"type": "rate_limits.updated", "rate_limits": [limit]}
    for answer_id in ("r1", "r2"):
        begun = {"type": "response.created", "response": {"id": answer_id}}
        wire.say(begun, from_client=False)
        wire.say(limits, from_client=False)
    begin, *frames = wire.frames
    assert isinstance(begin, Begin)
    calls = SocketCalls(
        begin, cast("Any", RealtimeSession), iter(range(1, 9)).__next__, OpenBodies()
    )
    given = [each for frame in frames for each in calls.feed(frame)]
    heads = [frame.headers for frame in given if isinstance(frame, ResponseHead)]
    assert heads[0] == ()
    [known] = read_rate_limits(dict(heads[1]))
    assert (known.name, known.limit, known.remaining) == ("tokens", 9, 7)


def test_a_connection_is_settled_once_it_has_ended_and_all_its_calls_are() -> None:
    """Until then its worker keeps its frames."""
    wire = two_answers()
    recording = Recording().feed(wire.frames)
    for receipt in recording.receipts:
        receipt.settle()
    assert recording.source.pop_acks().settled == []
    wire.end()
    recording.feed(wire.frames[-1:])
    assert recording.source.pop_acks().settled == [NUMBER]
    assert recording.source.pop_acks().settled == []


def test_a_call_that_waits_for_its_commit_holds_its_connection_back() -> None:
    """A crash would lose it."""
    wire = two_answers()
    wire.end()
    recording = Recording().feed(wire.frames)
    recording.receipts[0].settle()
    assert recording.source.pop_acks().settled == []
    recording.receipts[1].settle()
    assert recording.source.pop_acks().settled == [NUMBER]


def test_frames_that_come_again_give_the_same_ids() -> None:
    """To a new process, or to the same one."""
    frames = two_answers().frames
    first, second = Recording().feed(frames), Recording().feed(frames)
    ids = [exchange.identity for exchange in first.exchanges]
    assert [exchange.identity for exchange in second.exchanges] == ids
    second.feed(frames)
    assert [exchange.identity for exchange in second.exchanges] == ids * 2


def wire_bytes(frames: Iterable[Frame]) -> int:
    """How many bytes both directions have."""
    return sum(len(frame.data) for frame in frames if isinstance(frame, SocketData))


def kept_bytes(frames: Iterable[Frame]) -> int:
    """How much memory their sender needs for them."""
    return sum(frame_bytes(frame) for frame in frames if isinstance(frame, SocketData))


@pytest.mark.parametrize("is_compressed", [False, True])
def test_a_state_stands_for_all_that_was_read_before_it(
    monkeypatch: pytest.MonkeyPatch, *, is_compressed: bool
) -> None:
    """What begins with it gives the same spans, with the whole conversation."""
    wire = two_answers(is_compressed=is_compressed)
    first = len(wire.frames)
    monkeypatch.setattr(source, "UNACKNOWLEDGED_BYTES", kept_bytes(wire.frames))
    wire.create("third", previous_response_id="resp-2")
    wire.answer("resp-3", "three", "resp-2")
    expected = Recording().feed(wire.frames).exchanges
    recording = Recording().feed(wire.frames[:first])
    for receipt in recording.receipts:
        receipt.settle()
    [state] = recording.source.pop_acks().states
    assert state.read_bytes == wire_bytes(wire.frames[:first])
    again = Recording().feed([*wire.frames[:2], state, *wire.frames[first:]])
    [exchange] = again.exchanges
    assert exchange.identity == expected[2].identity
    assert exchange.request_body == expected[2].request_body
    assert b"first" in (exchange.request_body or b"")
    assert (exchange.start_ns, _text(exchange)) == (expected[2].start_ns, "three")


def test_there_is_no_state_before_the_calls_are_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash would lose them; nor within a call, which could not be continued."""
    wire = two_answers()
    monkeypatch.setattr(source, "UNACKNOWLEDGED_BYTES", kept_bytes(wire.frames))
    recording = Recording().feed(wire.frames)
    recording.receipts[0].settle()
    assert recording.source.pop_acks().states == []
    recording.receipts[1].settle()
    assert len(recording.source.pop_acks().states) == 1
    assert recording.source.pop_acks().states == []


@pytest.mark.parametrize("is_compressed", [False, True])
def test_there_is_no_state_within_a_call_or_a_message(
    monkeypatch: pytest.MonkeyPatch, *, is_compressed: bool
) -> None:
    """It could not be continued."""
    monkeypatch.setattr(source, "UNACKNOWLEDGED_BYTES", 1)
    wire = Wire(is_compressed=is_compressed)
    wire.create("first")
    wire.answer("resp-1", "one")
    last = wire.frames[-1]
    assert isinstance(last, SocketData)
    cut = [SocketData(NUMBER, last.at_ns, False, data) for data in (last.data[:3], last.data[3:])]
    recording = Recording()
    for frame in [*wire.frames[:-1], cut[0]]:
        recording.feed([frame])
        assert recording.source.pop_acks().states == []
    recording.feed(cut[1:])
    recording.receipts[0].settle()
    assert len(recording.source.pop_acks().states) == 1


def test_a_state_that_fails_costs_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connection's calls have their spans, and so have all others."""

    def fail(_calls: SocketCalls) -> None:
        raise RecursionError

    monkeypatch.setattr(source, "UNACKNOWLEDGED_BYTES", 1)
    monkeypatch.setattr(SocketCalls, "state", property(fail))
    recording = Recording()
    recording.source.feed(*two_answers().frames)
    assert len(recording.exchanges) == 2
    assert {type(failure) for failure in recording.failures} == {RecursionError}
    assert recording.source.pop_acks().states == []


def test_states_are_seldom() -> None:
    """The next one comes when as much is kept again as the last one has bytes, at the least."""
    wire = Wire()
    for number in range(400):
        wire.create("a" * 1000)
        wire.answer(f"resp-{number}", "b" * 1000)
    recording, states = Recording(), list[SocketState]()
    for frame in wire.frames:
        recording.feed([frame])
        for receipt in recording.receipts:
            receipt.settle()
        recording.receipts.clear()
        states += recording.source.pop_acks().states
    all_bytes = kept_bytes(wire.frames)
    assert 3 <= len(states) < all_bytes / source.UNACKNOWLEDGED_BYTES
    assert sum(len(state.data) for state in states[:-1]) <= all_bytes


@settings(max_examples=40, deadline=None)
@given(
    cuts=st.lists(st.integers(0, 5000), max_size=8),
    is_compressed=st.booleans(),
)
def test_reads_may_be_cut_anywhere(cuts: list[int], *, is_compressed: bool) -> None:
    """And be compressed, with what was said before as context."""
    whole = two_answers(is_compressed=is_compressed)
    cut_frames: list[Frame] = []
    for frame in whole.frames:
        if isinstance(frame, SocketData):
            cut_frames += [
                SocketData(NUMBER, frame.at_ns, frame.from_client, piece)
                for piece in tap_frames.cut(frame.data, cuts)
            ]
        else:
            cut_frames.append(frame)
    plain = Recording().feed(two_answers().frames).exchanges
    cut = Recording().feed(cut_frames).exchanges
    assert [(one.identity, one.request_body, _text(one)) for one in cut] == [
        (one.identity, one.request_body, _text(one)) for one in plain
    ]


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [
        (EndKind.CLIENT_GONE, Outcome.CLIENT_DISCONNECTED),
        (EndKind.UPSTREAM_EOF, Outcome.TRUNCATED),
        (EndKind.UPSTREAM_BROKEN, Outcome.TRUNCATED),
        (EndKind.DRAIN_DEADLINE, Outcome.DRAIN_DEADLINE),
    ],
)
def test_what_the_end_of_the_connection_cuts_says_how(kind: EndKind, outcome: Outcome) -> None:
    """As for a call over HTTP; a request without an answer has a span, too."""
    wire = Wire()
    wire.create("first")
    wire.begin_answer("resp-1")
    wire.create("second", stream_id="other")
    wire.end(kind)
    recording = Recording().feed(wire.frames)
    assert recording.exchanges[0].outcome is outcome
    assert len(recording.exchanges) == 2


def test_a_worker_that_is_lost_ends_its_open_calls() -> None:
    """Those that had ended stay as they are."""
    wire = two_answers()
    wire.create("third", previous_response_id="resp-2")
    wire.begin_answer("resp-3", "resp-2")
    recording = Recording().feed(wire.frames)
    recording.source.lose(START_NS + 9_000 * MS, "the worker process 1 ended")
    outcomes = [exchange.outcome for exchange in recording.exchanges]
    assert outcomes == [Outcome.COMPLETED, Outcome.COMPLETED, Outcome.WORKER_LOST]


def test_an_error_before_an_answer_is_a_refused_call() -> None:
    """With the provider's words, and the status that it names."""
    wire = Wire()
    wire.create("first")
    error = {"type": "invalid_request_error", "code": "no_model", "message": "no such model"}
    wire.say({"type": "error", "status": 404, "error": error}, from_client=False)
    wire.create("second")
    wire.answer("resp-1", "one")
    recording = Recording().feed(wire.frames)
    refused, answered = recording.exchanges
    assert (refused.outcome, refused.response_status) == (Outcome.UPSTREAM_ERROR, 404)
    assert "no such model" in (refused.error_body or "")
    assert answered.outcome is Outcome.COMPLETED


def test_bytes_that_are_no_websocket_end_the_observation_and_nothing_else() -> None:
    """The call that was open is marked; what came before stays."""
    wire = two_answers()
    wire.create("third")
    wire.begin_answer("resp-3")
    wire.frames.append(SocketData(NUMBER, START_NS + 500 * MS, False, b"\xff\xff\xff"))
    wire.end_answer("resp-3", [])
    wire.end()
    recording = Recording().feed(wire.frames)
    assert recording.unread_count == 1
    assert [exchange.outcome for exchange in recording.exchanges] == [
        *(Outcome.COMPLETED, Outcome.COMPLETED, Outcome.TRUNCATED)
    ]
    assert "observer_limit" in recording.exchanges[2].anomalies


def test_of_what_cannot_be_read_a_sender_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the connection lasts; the state says that it cannot be read."""
    wire = two_answers()
    wire.create("third")
    wire.begin_answer("resp-3")
    monkeypatch.setattr(source, "UNACKNOWLEDGED_BYTES", kept_bytes(wire.frames) + 1)
    wire.frames += [SocketData(NUMBER, START_NS + 500 * MS, False, b"\xff" * 100)] * 30
    recording = Recording().feed(wire.frames)
    assert recording.source.pop_acks().states == []
    for receipt in recording.receipts:
        receipt.settle()
    [state] = recording.source.pop_acks().states
    again = Recording().feed([*wire.frames[:2], state, *two_answers().frames[2:]])
    again.feed([End(exchange=NUMBER, at_ns=START_NS + 900 * MS, kind=EndKind.CLIENT_GONE)])
    assert (again.exchanges, again.unread_count) == ([], 1)


def test_a_call_of_which_a_worker_had_to_leave_bytes_out_says_so() -> None:
    """The end of the connection has their size."""
    wire = Wire()
    wire.create("first")
    wire.begin_answer("resp-1")
    end = End(exchange=NUMBER, at_ns=START_NS + MS, kind=EndKind.CLIENT_GONE, shed_bytes=900)
    [exchange] = Recording().feed([*wire.frames, end]).exchanges
    assert "observer_limit" in exchange.anomalies


@pytest.mark.parametrize("broken", ["feed", "close"])
def test_a_defect_of_a_session_costs_its_own_connection_alone(
    monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """The open call has its span, the defect is reported, and frames of others are read."""
    wire = two_answers()
    wire.create("third")
    wire.begin_answer("resp-3")
    other = [
        replace(frame, exchange=NUMBER + 1)
        for frame in two_answers(identity=tap_frames.identity(2)).frames
    ]
    recording = Recording().feed(wire.frames)
    wire.create("fourth")
    wire.end()
    with monkeypatch.context() as patch:
        patch.setattr(ResponseSession, broken, _fail)
        recording.source.feed(*wire.frames[-2:])
    assert [type(error) for error in recording.failures] == [ZeroDivisionError]
    recording.failures.clear()
    assert recording.feed(other).said[3:] == [
        (Outcome.COMPLETED, "one"),
        (Outcome.COMPLETED, "two"),
    ]
    cut = recording.exchanges[2]
    assert cut.outcome is Outcome.TRUNCATED
    assert "observer_limit" in cut.anomalies


def _fail(*_: object, **__: object) -> None:
    raise ZeroDivisionError


def test_a_client_that_asks_for_no_content_is_heeded_in_each_call() -> None:
    """It said so in its handshake, and no message takes that back."""
    wire = two_answers(headers=(("x-spantap-content", "off"),))
    wire.create("third", client_metadata={"x-spantap-content": "on"})
    wire.answer("resp-3", "three")
    exchanges = Recording().feed(wire.frames).exchanges
    assert len(exchanges) == 3
    for exchange in exchanges:
        assert exchange.hides_content


def test_words_that_come_one_by_one_do_not_each_repeat_the_conversation() -> None:
    """It would be read again for each of them; the request has them all in the end."""
    wire = Wire(endpoint="gemini.live", path="/ws/x.BidiGenerateContent")
    wire.say({"setup": {"model": "models/m-1"}}, from_client=True)
    wire.say({"setupComplete": {}}, from_client=False)
    turn = {"role": "user", "parts": [{"text": "before"}]}
    wire.say({"clientContent": {"turns": [turn], "turnComplete": True}}, from_client=True)
    wire.say({"serverContent": {"modelTurn": {"parts": [{"text": "a"}]}}}, from_client=False)
    for number in range(300):
        words = {"inputTranscription": {"text": f"{number} "}}
        wire.say({"serverContent": words}, from_client=False)
    wire.say({"serverContent": {"turnComplete": True}}, from_client=False)
    numbers = iter(range(1, 9)).__next__
    begin, *rest = wire.frames
    calls = SocketCalls(cast("Any", begin), SESSIONS["gemini.live"], numbers, OpenBodies())
    own = [one for frame in rest for one in calls.feed(frame)]
    requests = [frame for frame in own if isinstance(frame, RequestBody)]
    assert len(requests) == 3
    assert b"before" in (requests[-1].data or b"")
    assert b"298 299 " in (requests[-1].data or b"")
    [exchange] = Recording().feed(wire.frames).exchanges
    assert exchange.request is not None
    assert "298 299 " in str(exchange.request.body)


def test_an_api_without_sessions_is_settled_at_its_end() -> None:
    """A later version may have sent it."""
    wire = two_answers(endpoint="chat.completions")
    wire.end()
    recording = Recording().feed(wire.frames)
    assert recording.exchanges == []
    assert recording.source.pop_acks().settled == [NUMBER]
