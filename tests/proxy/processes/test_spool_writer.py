"""``proxy.processes.spool_writer`` and ``frame_intake``: what goes by the spool, and comes back."""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
from typing import TYPE_CHECKING

from codec._version import __version__
from proxy.processes import frame_channel, spool_writer
from proxy.processes.frame_channel import FrameChannel
from proxy.processes.scratch import life_path
from telemetry.frames.frame import RequestBody
from telemetry.frames.outbox import FrameOutbox
from telemetry.frames.records import Hello, encode_hello, encode_records
from telemetry.frames.shedding import Shedding
from telemetry.frames.spool import FrameSpool, measure_spool
from telemetry.own_files import hold
from tests.proxy.processes.channels import (
    SPOOLED,
    Intake,
    connected,
    emit,
    emit_rest,
    hello,
    spooling,
    until,
)
from tests.telemetry.tap_frames import ASKED, WHOLE_STREAM, add_frame, exchange_frames

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


async def test_what_ends_an_exchange_does_not_wait_for_more(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client has the answer: a kill of the worker would take the span with it."""
    monkeypatch.setattr(frame_channel, "GATHER_SECONDS", 60.0)
    intake = Intake(listener)
    intake.start()
    async with connected(listener) as channel:
        await until(lambda: channel._sock is not None)  # connecting sends what waits
        emit(channel, 1, ended=False)
        emit(channel, 2)
        await until(lambda: intake.outcomes == {2: "completed"})
    intake.finish()


async def test_what_a_telemetry_that_stands_still_does_not_take_is_spooled_whole(
    listener: socket.socket, tmp_path: Path
) -> None:
    """Far more than memory may hold; all of it is recorded once somebody reads it."""
    outbox = FrameOutbox(Shedding(3_000_000, shed_bytes=2_000_000))
    intake = Intake(listener)
    async with connected(listener, outbox) as channel, spooling(channel, intake.spool):
        for number in range(1, 200):
            for frame in exchange_frames(*WHOLE_STREAM, number=number, asked=os.urandom(100_000)):
                add_frame(outbox, frame)
            await asyncio.sleep(0.002)
        await until(lambda: len(outbox) < 100)
        await channel.finish(0.1, 1)  # what was sent is in the socket
        await until(lambda: not outbox.has_spooled)  # a busy disk takes longer than an end waits
    assert outbox.shedding.shed_bytes == 0
    assert measure_spool(intake.spool) > 10_000_000
    intake.start()
    await until(lambda: len(intake.outcomes) == 199)
    intake.finish()
    assert set(intake.outcomes.values()) == {"completed"}
    assert measure_spool(intake.spool) == 0


async def test_what_begins_while_nothing_is_acknowledged_is_spooled(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The socket takes what a telemetry that stands still will not read before a kill."""
    monkeypatch.setattr(frame_channel, "STUCK_SECONDS", 0.2)
    intake = Intake(listener)
    async with connected(listener) as channel, spooling(channel, intake.spool):
        emit(channel, 1)
        await until(lambda: channel.outbox.spools)
        emit(channel, 2)
        emit(channel, 3, ended=False)
        await until(lambda: measure_spool(intake.spool) > 0)
        assert channel.outbox.keeps(1)
        assert not channel.outbox.keeps(2)
        intake.start()
        await until(lambda: not channel.outbox.spools)
        emit(channel, 4)
        await until(lambda: intake.outcomes.keys() == {1, 2, 4})
        await asyncio.sleep(0.5)
        assert not channel.outbox.spools  # an exchange that is open is waited for by nobody
    assert {intake.outcomes[number] for number in (1, 2, 4)} == {"completed"}
    intake.finish()


async def test_a_spool_that_takes_nothing_hurts_nobody(
    listener: socket.socket, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What was to go there goes to telemetry; the spool is tried again later."""
    channel = FrameChannel(listener.getsockname(), hello())
    outbox = channel.outbox
    (tmp_path / "spool").write_bytes(b"in the way")
    async with spooling(channel, tmp_path / "spool"):
        emit(channel, 1)
        outbox.divert()
        await until(lambda: not outbox.can_spool)
        assert [outbox.has_unsent, outbox.has_spooled] == [True, False]
        (tmp_path / "spool").unlink()
        await until(lambda: outbox.can_spool)
        outbox.divert()
        await until(lambda: not len(outbox))
    assert caplog.text.count("the spool does not accept them") == 1


async def test_a_worker_that_lives_and_loses_its_connection_loses_no_exchange(
    listener: socket.socket,
) -> None:
    """The worker sends all again; only its end makes what is open ``worker_lost``."""
    intake = Intake(listener)
    intake.start()
    token = "51"
    life = hold(life_path(listener.getsockname(), token))
    said = Hello(worker=1, pid=4321, version=__version__, token=token)
    channel = FrameChannel(listener.getsockname(), said)
    running = asyncio.ensure_future(channel.run())
    emit(channel, 1, ended=False)
    emit(channel, 2, ended=False)
    await until(lambda: intake.open_exchanges == 2)
    intake.break_connections()
    await until(lambda: intake.open_exchanges == 2)
    emit_rest(channel, 1)
    await until(lambda: intake.outcomes == {1: "completed"})
    running.cancel()
    await asyncio.sleep(0.3)
    assert intake.outcomes == {1: "completed"}
    os.close(life)
    await until(lambda: intake.outcomes == {1: "completed", 2: "worker_lost"})
    intake.finish()
    assert not life_path(listener.getsockname(), token).exists()


async def test_what_a_dead_worker_had_spooled_is_read_before_it_is_lost(
    listener: socket.socket,
) -> None:
    """An exchange that changed over to the spool is whole there, and open nowhere else."""
    intake = Intake(listener)
    async with connected(listener, token=SPOOLED) as channel, spooling(channel, intake.spool):
        emit(channel, 1, ended=False)
        await until(lambda: not channel.outbox.has_unsent)
        channel.outbox.divert_all()
        emit_rest(channel, 1)
        await until(lambda: not len(channel.outbox))
    intake.start()
    await until(lambda: bool(intake.outcomes))
    intake.finish()
    assert [row.outcome for row in intake.store.rows] == ["completed"]


async def test_what_a_worker_that_lives_changes_over_to_the_spool_is_open_there_alone(
    listener: socket.socket,
) -> None:
    """What had come of it is forgotten, and its room given back."""
    intake = Intake(listener)
    intake.start()
    async with connected(listener, token=SPOOLED) as channel, spooling(channel, intake.spool):
        emit(channel, 1, ended=False)
        await until(lambda: intake.open_exchanges == 1)
        channel.outbox.divert_all()
        emit_rest(channel, 1)
        await until(lambda: bool(intake.outcomes))
        assert (intake.open_exchanges, intake.held_bytes) == (0, 0)
    intake.finish()
    assert [row.outcome for row in intake.store.rows] == ["completed"]


async def test_budgets_are_back_at_0_after_a_connection_that_broke_in_a_large_request(
    listener: socket.socket,
) -> None:
    """What the worker had sent is forgotten when it returns and sends all again."""
    intake = Intake(listener)
    intake.start()
    part = b"x" * 1_000_000
    asked = ASKED.replace(b"hi", part * 4)
    parts = [asked[at : at + len(part)] for at in range(0, len(asked), len(part))]
    first, _, *rest = exchange_frames(*WHOLE_STREAM, number=1)
    bodies = [RequestBody(exchange=1, data=data, size_bytes=len(asked)) for data in parts]
    async with connected(listener) as channel:
        for frame in (first, *bodies[:3]):
            add_frame(channel.outbox, frame)
        for _ in range(3):
            await until(lambda: intake.open_exchanges == 1)
            await until(lambda: intake.held_bytes == 3 * len(part))
            intake.break_connections()
            await until(lambda: intake.open_exchanges == 0)
        for frame in (*bodies[3:], *rest):
            add_frame(channel.outbox, frame)
        await until(lambda: intake.outcomes == {1: "completed"})
        assert intake.held_bytes == 0
    intake.finish()


async def test_a_defect_in_spooling_does_not_end_it(
    listener: socket.socket,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is said, and what was not written, or not begun, is written soon."""
    monkeypatch.setattr(spool_writer, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(spool_writer, "_WRITE_BYTES", 1)
    write = FrameSpool.write
    defects = [RuntimeError("a defect")]

    def write_later(spool: FrameSpool, pieces: list[bytes]) -> None:
        if defects:
            raise defects.pop()
        write(spool, pieces)

    monkeypatch.setattr(FrameSpool, "write", write_later)
    channel = FrameChannel(listener.getsockname(), hello())
    async with spooling(channel, tmp_path / "spool"):
        channel.outbox.divert()
        for number in (1, 2):
            for frame in exchange_frames(b"x" * 100_000, number=number):
                add_frame(channel.outbox, frame)
        await until(lambda: "could not be spooled" in caplog.text)
        await until(lambda: channel.outbox.can_spool)
        channel.outbox.divert()  # what was not begun had gone to telemetry
        await until(lambda: not len(channel.outbox))
    assert caplog.text.count("frames could not be spooled") == 1


async def test_what_begins_after_an_end_that_the_socket_did_not_take_is_spooled(
    listener: socket.socket,
) -> None:
    """At once: a kill of the worker would take with it what waits here."""
    async with connected(listener) as channel:  # and nobody reads
        await until(lambda: channel._sock is not None)
        channel.outbox.can_spool = True
        for number in itertools.count(1):
            emit(channel, number)
            if channel._left:
                break
            assert not channel.outbox.spools
        assert channel.outbox.spools


async def test_a_large_body_is_no_reason_to_spool(listener: socket.socket) -> None:
    """A socket that has room takes it in the next turn of the loop."""
    intake = Intake(listener)
    intake.start()
    async with connected(listener) as channel:
        await until(lambda: channel._sock is not None)
        channel.outbox.can_spool = True
        for frame in exchange_frames(*WHOLE_STREAM, number=1, asked=b"x" * 40_000):
            add_frame(channel.outbox, frame)
        assert channel.outbox.has_unsent or channel._left
        assert not channel.outbox.spools
        await until(lambda: not len(channel.outbox))
    intake.finish()
    assert set(intake.outcomes) == {1}


def test_a_worker_may_come_back_before_its_old_connection_is_read_to_its_end(
    listener: socket.socket,
) -> None:
    """Also one that could make no file that tells of its life; the thread goes on."""
    frames = exchange_frames(*WHOLE_STREAM, number=1)
    said = encode_hello(hello())
    intake = Intake(listener)
    with socket.socket(socket.AF_UNIX) as former, socket.socket(socket.AF_UNIX) as present:
        for sock in (former, present):
            sock.connect(listener.getsockname())
            intake.accept()
        former.sendall(said + b"".join(encode_records(frames[:-1], 0)))
        intake.step()
        assert intake.open_exchanges == 1
        present.sendall(said + b"".join(encode_records(frames, 0)))
        former.sendall(b"unread")
        intake.step()
    intake.start()
    intake.finish()
    assert [row.outcome for row in intake.store.rows] == ["completed"]
