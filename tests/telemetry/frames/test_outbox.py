"""``telemetry.frames.outbox``: frames are kept until they are acknowledged, within limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.frames.frame import Begin, RequestBody, ResponseData, SocketData, SocketState
from telemetry.frames.kept import frame_bytes
from telemetry.frames.outbox import FrameOutbox, Way
from telemetry.frames.records import Acks, RecordReader, decode_record
from telemetry.frames.shedding import Shedding
from telemetry.observing.exchange import Exchange, Outcome
from telemetry.observing.observer import Observer
from tests.telemetry import tap_frames
from tests.telemetry.tap_frames import ANSWER, ASKED, DONE, WHOLE_STREAM, add_frame, exchange_frames

if TYPE_CHECKING:
    from collections.abc import Iterable

    from telemetry.frames.frame import Frame


def emit(outbox: FrameOutbox, frames: Iterable[Frame]) -> list[Frame]:
    """Emit frames; they are given back as a list."""
    emitted = list(frames)
    for frame in emitted:
        add_frame(outbox, frame)
    return emitted


def add(exchange: Any, frames: Iterable[Frame]) -> None:
    """Add the next frames of an exchange."""
    for frame in frames:
        exchange.add(frame, frame_bytes(frame))


def read_all(way: FrameOutbox | Way, limit_bytes: int) -> list[Frame]:
    """All frames that go this way now."""
    pieces = []
    while read := way.read(limit_bytes):
        pieces += read
    records = RecordReader().feed(b"".join(pieces))
    return [frame for record in records for frame in decode_record(record)]


def sent(outbox: FrameOutbox, limit_bytes: int = 1 << 20) -> list[Frame]:
    """All frames that the outbox gives out now."""
    return read_all(outbox, limit_bytes)


def spooled(outbox: FrameOutbox) -> list[Frame]:
    """All frames that the outbox gives to the spool now."""
    frames = read_all(outbox.to_spool, 1 << 20)
    outbox.note_written()
    return frames


def observed(outbox: FrameOutbox, observer: Observer | None = None) -> list[Exchange]:
    """What an observer makes of all that the outbox gives out now."""
    feed = Observer().feed if observer is None else observer.feed
    made = map(feed, sent(outbox))
    return [exchange for exchange in made if exchange is not None]


def test_what_is_emitted_is_sent_once_in_order() -> None:
    """Two exchanges, their frames mixed."""
    outbox = FrameOutbox()
    one, two = (exchange_frames(*WHOLE_STREAM, number=number) for number in (1, 2))
    mixed = [frame for pair in zip(one, two, strict=True) for frame in pair]
    assert sent(outbox) == []
    emit(outbox, mixed)
    assert sent(outbox, limit_bytes=100) == one + two
    assert sent(outbox) == []
    assert emit(outbox, mixed[:2]) == sent(outbox)


def test_who_sends_is_told_once_until_all_is_sent() -> None:
    """Of the first frame that waits; of the next one after everything was taken."""
    outbox = FrameOutbox()
    told: list[int] = []
    outbox.to_telemetry.when_unsent = lambda: told.append(len(outbox))
    for number in (1, 2, 3):
        emit(outbox, [tap_frames.begin(number)])
    assert len(told) == 1
    assert outbox.read(1)
    emit(outbox, [tap_frames.begin(4)])
    assert len(told) == 1
    assert len(sent(outbox)) == 3
    emit(outbox, [tap_frames.begin(5)])
    assert len(told) == 2


def test_what_is_not_acknowledged_is_sent_again_after_a_rewind() -> None:
    """By exchange, in the order of their begins; what was acknowledged is forgotten."""
    outbox = FrameOutbox()
    one, two, three = (emit(outbox, exchange_frames(ANSWER, number=number)) for number in (1, 2, 3))
    assert sent(outbox) == one + two + three
    outbox.acknowledge(Acks([2]))
    outbox.acknowledge(Acks([99]))
    begun = emit(outbox, [tap_frames.begin(4)])
    outbox.rewind()
    assert sent(outbox) == one + three + begun
    for number in (1, 3, 4):
        outbox.acknowledge(Acks([number]))
    assert (len(outbox), outbox.held_bytes) == (0, 0)
    outbox.rewind()
    assert sent(outbox) == []


def test_what_was_half_sent_when_the_connection_broke_is_sent_whole() -> None:
    """A rewind begins at the beginning, whatever was taken before it."""
    outbox = FrameOutbox()
    frames = emit(outbox, exchange_frames(*WHOLE_STREAM))
    assert len(outbox.read(1)) == 1
    outbox.rewind()
    assert sent(outbox) == frames


def test_what_is_added_to_a_settled_exchange_is_counted_and_sent_alone() -> None:
    """Whatever became of its frames: they are forgotten once, sent or not."""
    for sends in (True, False):
        outbox = FrameOutbox()
        exchange = outbox.open_exchange(1)
        *frames, end = exchange_frames(*WHOLE_STREAM)
        add(exchange, frames)
        if sends:
            assert sent(outbox) == frames
        outbox.acknowledge(Acks([1, 1]))
        assert (len(outbox), outbox.held_bytes) == (0, 0)
        add(exchange, [end])
        assert outbox.held_bytes == frame_bytes(end)
        assert sent(outbox) == [end]
        outbox.rewind()
        assert sent(outbox) == [end]
        outbox.acknowledge(Acks([1]))
        assert (len(outbox), outbox.held_bytes) == (0, 0)


LONG = [tap_frames.event(f'"content":"{"x" * 100}"')] * 100


def test_what_was_sent_is_forgotten_before_anything_is_left_out() -> None:
    """Long streams of a telemetry that keeps up are observed whole, whatever the limit."""
    outbox = FrameOutbox(Shedding(shed_bytes=10_000, max_bytes=100_000))
    observer = Observer()
    made = []
    for frames in zip(
        *(exchange_frames(*LONG, *WHOLE_STREAM, number=n) for n in (1, 2, 3)), strict=False
    ):
        emit(outbox, frames)
        made += observed(outbox, observer)
        assert outbox.held_bytes < 13_000
    assert [exchange.anomalies for exchange in made] == [()] * 3
    assert (outbox.shedding.shed_bytes, outbox.shedding.shed_exchanges) == (0, 0)


@pytest.mark.parametrize("ended", [True, False])
def test_what_was_forgotten_is_missing_in_the_span_when_telemetry_died(*, ended: bool) -> None:
    """It is all there is, marked, and never a whole answer with a hole."""
    outbox = FrameOutbox(Shedding(shed_bytes=10_000, max_bytes=100_000))
    *frames, end = exchange_frames(*LONG, *WHOLE_STREAM, number=1)
    for frame in (*frames, end) if ended else frames:
        emit(outbox, [frame])
        sent(outbox)
    outbox.rewind()
    if not ended:
        emit(outbox, [ResponseData(1, tap_frames.START_NS, DONE), end])
    [exchange] = observed(outbox)
    assert "observer_limit" in exchange.anomalies
    assert exchange.response is None or not exchange.response.answers
    outbox.rewind()
    assert "observer_limit" in observed(outbox)[0].anomalies
    outbox.acknowledge(Acks([1]))
    assert outbox.held_bytes == 0


def test_large_bodies_are_forgotten_whole_or_not_at_all() -> None:
    """A request and an answer with payloads of their own; half sent is not sent."""
    large = b"y" * 100_000
    outbox = FrameOutbox(Shedding(shed_bytes=150_000, max_bytes=1_000_000))
    begin, *rest = exchange_frames(large, number=1, asked=large)
    emit(outbox, [begin, rest[0], rest[1]])
    assert outbox.read(1)  # begin alone
    emit(outbox, rest[2:3])  # no room, and the request was not sent: left out
    assert outbox.shedding.shed_bytes == len(large)
    assert sent(outbox) == [*rest[:2]]
    emit(outbox, exchange_frames(large, number=2)[:-1])
    outbox.rewind()
    replayed = sent(outbox)
    assert [frame for frame in replayed if frame.exchange == 1] == [
        begin,
        RequestBody(exchange=1, data=None, size_bytes=len(large)),
        rest[1],
    ]
    assert ResponseData(2, tap_frames.START_NS + 100 * tap_frames.MS, large) in replayed


def test_as_much_is_forgotten_as_there_must_be() -> None:
    """Of many small ones, behind many calls of which nothing can be forgotten."""
    outbox = FrameOutbox(Shedding(shed_bytes=600_000, max_bytes=1_000_000))
    for number in range(1, 201):
        emit(outbox, [tap_frames.begin(number)])
    for number in range(201, 301):
        emit(outbox, exchange_frames(b"y" * 3_000, number=number)[:-1])
    assert sent(outbox)
    emit(outbox, exchange_frames(b"z" * 200_000, number=400, asked=b"q" * 150_000))
    assert outbox.shedding.shed_bytes == 0
    assert outbox.held_bytes < 600_000


def test_what_is_missing_when_telemetry_died_is_counted_once() -> None:
    """Requests and answers, of calls that are open and of those that have ended."""
    outbox = FrameOutbox(Shedding(shed_bytes=25_000, max_bytes=1_000_000))
    ended = exchange_frames(b"y" * 10_000, number=1, asked=b"q" * 5_000)
    still_open = exchange_frames(b"y" * 10_000, number=2, asked=b"q" * 5_000)[:-1]
    for frame in (*ended, *still_open, *exchange_frames(b"y" * 19_000, number=3, asked=b"q" * 10)):
        emit(outbox, [frame])
        sent(outbox)
    assert outbox.shedding.shed_bytes == 0
    for _ in range(2):
        outbox.rewind()
        assert outbox.shedding.shed_bytes == 2 * (10_000 + 5_000) + 10


def test_past_the_limit_bodies_are_left_out_and_the_span_says_so() -> None:
    """Begin, head and end pass; the record is marked."""
    outbox = FrameOutbox(Shedding(shed_bytes=2_000, max_bytes=100_000))
    frames = exchange_frames(ANSWER, b"x" * 4_000, asked=ASKED, number=1)
    emit(outbox, frames)
    [exchange] = observed(outbox)
    assert "observer_limit" in exchange.anomalies
    assert outbox.shedding.shed_bytes == 4_000


def test_past_the_second_limit_exchanges_are_left_out_whole() -> None:
    """They are counted, and hold nothing."""
    outbox = FrameOutbox(Shedding(shed_bytes=100, max_bytes=1_000))
    for number in range(1, 50):
        emit(outbox, exchange_frames(ANSWER, number=number))
    assert outbox.shedding.shed_exchanges == 49 - len(outbox) > 30


@given(st.lists(st.sampled_from(["emit", "take", "ack", "rewind"]), max_size=40), st.data())
def test_whatever_happens_each_exchange_is_there_whole_after_the_last_rewind(
    steps: list[str], data: st.DataObject
) -> None:
    """Every exchange that was not acknowledged gives its record, complete."""
    outbox = FrameOutbox()
    unsettled: set[int] = set()
    for number, step in enumerate(steps, start=1):
        if step == "emit":
            emit(outbox, exchange_frames(*WHOLE_STREAM, number=number))
            unsettled.add(number)
        elif step == "take":
            outbox.read(data.draw(st.integers(1, 5_000)))
        elif step == "rewind":
            outbox.rewind()
        elif unsettled:
            settled = data.draw(st.sampled_from(sorted(unsettled)))
            outbox.acknowledge(Acks([settled]))
            unsettled.discard(settled)
    outbox.rewind()
    made = observed(outbox)
    assert [int(exchange.identity.span_id, 16) for exchange in made] == sorted(unsettled)
    assert all(exchange.outcome is Outcome.COMPLETED for exchange in made)


def test_what_begins_while_telemetry_does_not_follow_goes_to_the_spool() -> None:
    """With what waits from its beginning; what was begun to be sent goes on as it was."""
    outbox = FrameOutbox()
    outbox.can_spool = True
    one, two, three = (exchange_frames(*WHOLE_STREAM, number=number) for number in (1, 2, 3))
    emit(outbox, one[:3])
    assert len(sent(outbox)) == 3
    emit(outbox, one[3:5] + two)
    outbox.divert()
    exchange = outbox.open_exchange(3)
    add(exchange, three[:4])
    assert spooled(outbox) == two + three[:4]
    outbox.spools = False
    add(exchange, three[4:])
    emit(outbox, one[5:])
    assert (spooled(outbox), sent(outbox)) == (three[4:], one[3:])
    outbox.acknowledge(Acks([1]))
    assert (len(outbox), outbox.held_bytes, outbox.has_spooled) == (0, 0, False)


def test_what_changes_over_goes_to_the_spool_from_its_beginning() -> None:
    """Sent or not; but not while its begin is on its way, nor with something forgotten."""
    outbox = FrameOutbox()
    outbox.can_spool = True
    one, two = (exchange_frames(*WHOLE_STREAM, number=number) for number in (1, 2))
    emit(outbox, one[:3])
    sent(outbox)
    outbox.note_sent()
    emit(outbox, two[:3])
    assert len(sent(outbox)) == 3
    emit(outbox, [one[3], two[3]])
    outbox.divert_unsent()
    assert spooled(outbox) == one[:4]
    outbox.note_sent()
    outbox.divert_all()
    assert (spooled(outbox), sent(outbox)) == (two[:4], [])
    outbox.rewind()
    assert sent(outbox) == []


def test_while_the_spool_takes_something_nothing_is_left_out() -> None:
    """Of a stream that telemetry had begun to read, too."""
    outbox = FrameOutbox(Shedding(shed_bytes=10_000, max_bytes=20_000))
    outbox.can_spool = True
    *frames, end = exchange_frames(*LONG, *WHOLE_STREAM, number=1)
    emit(outbox, frames[:2])
    assert len(sent(outbox)) == 2
    outbox.note_sent()
    wanted = [*frames, end]
    got: list[Frame] = []
    exchange = outbox._kept[1]
    for frame in wanted[2:]:
        add(exchange, [frame])
        if outbox.held_bytes > 15_000:
            got += spooled(outbox)
    got += spooled(outbox)
    assert got == wanted
    assert outbox.shedding.shed_bytes == 0


def test_what_the_client_wants_unrecorded_is_never_spooled() -> None:
    """A header that says so; it waits in memory."""
    outbox = FrameOutbox()
    outbox.can_spool = outbox.spools = True
    for name, value in (("x-spantap-content", "off"), ("content-type", "application/json")):
        frames = exchange_frames(ANSWER, number=len(outbox) + 1, request_headers=[(name, value)])
        exchange = outbox.open_exchange(frames[0].exchange)
        add(exchange, frames)
    outbox.divert_all()
    assert {frame.exchange for frame in spooled(outbox)} == {2}
    assert {frame.exchange for frame in sent(outbox)} == {1}


def test_what_the_spool_did_not_take_comes_again() -> None:
    """Behind its begin, which is there; with what was added meanwhile, in its order."""
    outbox = FrameOutbox()
    outbox.can_spool = outbox.spools = True
    frames = exchange_frames(*WHOLE_STREAM, number=1)
    exchange = outbox.open_exchange(1)
    add(exchange, [frames[0]])
    assert spooled(outbox) == frames[:1]
    add(exchange, frames[1:4])
    assert outbox.to_spool.read(300)
    assert outbox.to_spool.read(300)
    add(exchange, [frames[4]])
    outbox.note_unwritten()
    assert [outbox.can_spool, outbox.spools] == [False, False]
    add(exchange, frames[5:])
    assert (sent(outbox), spooled(outbox)) == ([], frames[1:])
    assert (len(outbox), outbox.held_bytes) == (0, 0)


def test_what_the_spool_took_nothing_of_goes_to_telemetry_after_all() -> None:
    """From its beginning, whether it was to be written now or later; for good, once it is sent."""
    outbox = FrameOutbox()
    outbox.can_spool = outbox.spools = True
    exchanges = {number: outbox.open_exchange(number) for number in (1, 2)}
    one, two = (exchange_frames(*WHOLE_STREAM, number=number) for number in exchanges)
    for frame in (*one[:3], *two[:2]):
        add(exchanges[frame.exchange], [frame])
    assert outbox.to_spool.read(1)
    outbox.note_unwritten()
    for frame in (*one[3:], *two[2:]):
        add(exchanges[frame.exchange], [frame])
    assert (sent(outbox), spooled(outbox)) == ([*one, *two], [])
    outbox.acknowledge(Acks([1, 2]))
    assert (len(outbox), outbox.held_bytes) == (0, 0)


_STEPS = ("add", "add", "add", "take", "sent", "write", "written", "unwritten", "divert")
_MORE_STEPS = ("unsent", "all", "ack", "rewind")


@given(
    st.lists(
        st.tuples(st.sampled_from(_STEPS + _MORE_STEPS), st.integers(1, 5), st.integers(1, 5_000)),
        max_size=80,
    ),
    st.sampled_from([(5_000, 3_000), (100_000, 60_000)]),
)
def test_whatever_happens_what_is_held_is_what_all_frames_weigh(
    steps: list[tuple[str, int, int]], limits: tuple[int, int]
) -> None:
    """On both ways, with writes that fail, acknowledgements and rewinds in any order."""
    outbox = FrameOutbox(Shedding(limits[0], shed_bytes=limits[1]))
    outbox.can_spool = True
    open_ones = {
        number: (outbox.open_exchange(number), exchange_frames(*WHOLE_STREAM, number=number))
        for number in range(1, 6)
    }
    for step, number, limit_bytes in steps:
        exchange, frames = open_ones[number]
        if step == "add" and frames:
            add(exchange, [frames.pop(0)])
        elif step == "ack" and not frames:
            outbox.acknowledge(Acks([number]))
        elif step == "unwritten":
            outbox.note_unwritten()
            outbox.can_spool = True
        elif step == "take":
            outbox.read(limit_bytes)
        elif step == "write":
            outbox.to_spool.read(limit_bytes)
        else:
            act = {"sent": outbox.note_sent, "written": outbox.note_written}
            act |= {"divert": outbox.divert, "unsent": outbox.divert_unsent}
            act |= {"all": outbox.divert_all, "rewind": outbox.rewind}
            act.get(step, lambda: None)()
        kept = [*outbox._kept.values(), *outbox._spooled.values()]
        weight_bytes = sum(frame_bytes(frame) for one in kept for frame in one.frames)
        assert outbox.held_bytes == weight_bytes == sum(one.size_bytes for one in kept)


class SocketObserver:
    """Reads a WebSocket's frames as telemetry does, and knows where it is.

    Attributes:
        read_bytes: where it is; it begins again with each ``begin``.
        text: what it has read itself, behind the last state that it began with.
    """

    def __init__(self) -> None:
        self.read_bytes = 0
        self.text = b""

    def feed(self, frames: Iterable[Frame]) -> None:
        """Read frames."""
        for frame in frames:
            if isinstance(frame, Begin):
                self.read_bytes, self.text = 0, b""
            elif isinstance(frame, SocketState):
                assert not self.text
                self.read_bytes = frame.read_bytes
            elif isinstance(frame, SocketData):
                self.text += frame.data
                self.read_bytes += len(frame.data)

    @property
    def state(self) -> SocketState:
        """What is acknowledged now."""
        return SocketState(1, tap_frames.START_NS, self.read_bytes, bytes(20))


@given(
    st.lists(
        st.one_of(
            st.integers(1, 400),
            st.sampled_from(["send", "send some", "look", "acknowledge", "rewind", "squeeze"]),
        ),
        max_size=40,
    )
)
def test_a_state_takes_the_place_of_what_was_read(steps: list[int | str]) -> None:
    """Whatever was sent, forgotten, sent again, or acknowledged late meanwhile."""
    outbox = FrameOutbox()
    observer, states = SocketObserver(), list[SocketState]()
    emit(outbox, [tap_frames.begin(1, is_socket=True)])
    whole = b""
    for number, step in enumerate(steps):
        if isinstance(step, int):
            data = bytes([number % 251]) * step
            whole += data
            emit(outbox, [SocketData(1, tap_frames.START_NS, False, data)])
        elif step == "send":
            observer.feed(sent(outbox))
        elif step == "send some" and outbox.has_unsent:
            observer.feed(read_once(outbox))
        elif step == "look":
            states.append(observer.state)
        elif step == "acknowledge" and states:
            outbox.acknowledge(Acks(states=[states.pop(0)]))
        elif step == "rewind":
            states.clear()
            outbox.rewind()
        elif step == "squeeze" and not outbox.shedding.has_gaps:
            outbox._make_room(1, 0)
        assert whole[observer.read_bytes - len(observer.text) :].startswith(observer.text)
    observer.feed(sent(outbox))
    if not outbox.shedding.has_gaps:
        assert observer.read_bytes == len(whole)
        outbox.acknowledge(Acks(states=[observer.state]))
        outbox.rewind()
        assert [type(frame) for frame in sent(outbox)] == [Begin, SocketState]
    outbox.acknowledge(Acks([1]))
    assert (len(outbox), outbox.held_bytes) == (0, 0)


def read_once(outbox: FrameOutbox) -> list[Frame]:
    """The next few frames."""
    records = RecordReader().feed(b"".join(outbox.read(500)))
    return [frame for record in records for frame in decode_record(record)]


def test_a_state_of_a_websocket_that_is_gone_is_ignored() -> None:
    """It ended and was settled, or went to the spool meanwhile."""
    outbox = FrameOutbox()
    outbox.acknowledge(Acks(states=[SocketObserver().state]))
    assert (len(outbox), outbox.held_bytes) == (0, 0)
