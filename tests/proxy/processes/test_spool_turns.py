"""``proxy.processes.spool_turns``: what the spool has comes before what goes on from it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from proxy.processes import spool_turns
from proxy.processes.spool_turns import SpoolTurns
from telemetry.errors import StoreError
from telemetry.frames.spool import measure_spool
from telemetry.observing.call_ordering import CallOrdering
from tests.proxy.processes.channels import Intake, connected, emit, spooling, until
from tests.telemetry.exchanges import make_exchange
from tests.telemetry.tap_frames import START_NS, WHOLE_STREAM, add_frame, exchange_frames

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator

    from proxy.processes.frame_channel import FrameChannel

SECOND_NS = 10**9


@contextlib.asynccontextmanager
async def turning(listener: socket.socket, intake: Intake) -> AsyncIterator[FrameChannel]:
    """A channel with a spool beside it, that ends with the intake."""
    async with connected(listener) as channel, spooling(channel, intake.spool):
        yield channel
    intake.finish()


async def turn_aside(channel: FrameChannel, intake: Intake) -> None:
    """Call 1 goes to the spool, call 2, which ends later, to telemetry."""
    channel.outbox.divert()
    emit(channel, 1)
    await until(lambda: measure_spool(intake.spool) > 0)
    await asyncio.sleep(2 * spool_turns.LOOK_SECONDS)  # no agent calls again as soon as that
    channel.outbox.spools = False
    for frame in exchange_frames(*WHOLE_STREAM, number=2, at_ns=START_NS + 2 * SECOND_NS):
        add_frame(channel.outbox, frame)
    await until(lambda: not channel.outbox.has_unsent)


def list_recorded(intake: Intake) -> list[int]:
    """The numbers of calls, in the order in which they were recorded."""
    return [int(row.span_id, 16) for row in intake.store.rows]


@pytest.mark.parametrize("little_bytes", [0, spool_turns.LITTLE_BYTES])
async def test_what_is_in_the_spool_comes_before_what_was_sent_later(
    little_bytes: int, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A little is read at once; more is waited for."""
    monkeypatch.setattr(spool_turns, "LITTLE_BYTES", little_bytes)
    intake = Intake(listener)
    async with turning(listener, intake) as channel:
        await turn_aside(channel, intake)
        intake.start()
        await until(lambda: len(intake.outcomes) == 2)
    assert list_recorded(intake) == [1, 2]


async def test_nothing_is_recorded_out_of_its_order_while_the_store_fails(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was sent waits for what is in the spool, however long nothing can be stored."""
    monkeypatch.setattr(spool_turns, "MAX_BEHIND_SECONDS", 0.01)
    intake = Intake(listener)
    intake.store.error = StoreError("no")
    intake.start()
    async with turning(listener, intake) as channel:
        emit(channel, 7)
        await until(lambda: intake.waiting == 1 and not intake.has_room)
        await turn_aside(channel, intake)
        await asyncio.sleep(0.2)
        intake.store.error = None
        await until(lambda: len(intake.outcomes) == 3)
    assert list_recorded(intake) == [7, 1, 2]


async def test_workers_are_not_held_back_for_ever(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A spool that is not read in time comes when its turn is."""
    monkeypatch.setattr(spool_turns, "LITTLE_BYTES", 0)
    monkeypatch.setattr(spool_turns, "MAX_BEHIND_SECONDS", -1.0)
    intake = Intake(listener)
    async with turning(listener, intake) as channel:
        await turn_aside(channel, intake)
        intake.start()
        await until(lambda: len(intake.outcomes) == 2)
        await until(lambda: measure_spool(intake.spool) == 0)
    assert sorted(list_recorded(intake)) == [1, 2]


def test_a_spool_that_grows_while_it_is_read_keeps_no_commit_waiting() -> None:
    """A worker may write as quickly as telemetry reads: what was there at the look is read."""
    spool = _GrowingSpool()
    turns = SpoolTurns(
        spool,  # type: ignore[arg-type]  # quacks
        CallOrdering(lambda _exchange, _receipt: None),
        has_room=lambda: True,
        read_spool=spool.read,
        read_workers=lambda: False,
    )
    turns.take(is_ready=True, is_drained=True)
    turns.take(is_ready=False, is_drained=True)
    assert spool.reads == 2


@pytest.mark.parametrize("is_spooled", [False, True])
def test_a_call_is_recorded_after_those_that_ended_while_others_were_read(
    *, is_spooled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One worker's newer call is read before another one's older call: it waits for one more read.

    Both are sent, or both are spooled.
    """
    monkeypatch.setattr(spool_turns, "LOOK_SECONDS", 60.0)
    ended: list[int] = []
    ordering = CallOrdering(lambda exchange, _: ended.append(exchange.end_ns))
    sent, spool = _Calls(ordering), _Calls(ordering)
    turns = SpoolTurns(
        spool,  # type: ignore[arg-type]  # quacks
        ordering,
        has_room=lambda: True,
        read_spool=spool.read,
        read_workers=sent.read,
    )
    turns.take(is_ready=True, is_drained=True)  # the spool is looked at, and empty
    (spool if is_spooled else sent).end_times_ns = [2, 1]
    for _ in range(4):
        turns.take(is_ready=sent.read(), is_drained=True)
    assert ended == [1, 2]
    assert turns.wait_seconds() is None


class _Calls:
    """Calls that come one by one: a worker writes the next while the one before is read."""

    is_empty = False

    def __init__(self, ordering: CallOrdering) -> None:
        self._ordering = ordering
        self.end_times_ns: list[int] = []
        self.unread_bytes = 0

    def look(self) -> None:
        self.unread_bytes = len(self.end_times_ns)

    def read(self) -> bool:
        self.unread_bytes = 0
        if not self.end_times_ns:
            return False
        self._ordering.hold()
        call = make_exchange({"messages": []})
        self._ordering.take(replace(call, end_ns=self.end_times_ns.pop(0)), None)
        return True


class _GrowingSpool:
    """A spool of one block, and another one whenever that was read."""

    is_empty = False

    def __init__(self) -> None:
        self.reads = self.unread_bytes = 0

    def look(self) -> None:
        self.unread_bytes = 100

    def read(self) -> bool:
        self.reads += 1
        self.unread_bytes = 0
        return True
