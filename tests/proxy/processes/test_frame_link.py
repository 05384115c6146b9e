"""``proxy.processes.frame_link`` and ``frame_intake``: frames over a real Unix socket."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.resources import Resource

from codec._version import __version__
from proxy.processes import frame_link, spool_link
from proxy.processes.frame_intake import FrameIntake
from proxy.processes.frame_link import _TURN_BYTES, FrameLink, _join_small
from proxy.processes.scratch import frames_socket, life_path
from proxy.processes.spool_link import SpoolLink
from telemetry.errors import StoreUnavailable
from telemetry.frames.outbox import FrameOutbox
from telemetry.frames.records import Hello, encode_hello, encode_records
from telemetry.frames.shedding import Shedding
from telemetry.frames.spool import FrameSpool, measure_spool
from telemetry.held_file import hold
from telemetry.metrics.instruments import TAP_QUEUE
from telemetry.service import TelemetryService
from telemetry.spans.recorder import SpanRecorder, build_span_limits
from tests.proxy.turns import count_turns
from tests.telemetry import tap_frames
from tests.telemetry.service_bench import FailingStore
from tests.telemetry.tap_frames import HEL, ROLE, WHOLE_STREAM, add_frame, exchange_frames

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

_tokens = itertools.count(1)


def hello(version: str = __version__) -> Hello:
    """What a worker says that nobody has heard of."""
    return Hello(worker=1, pid=4321, version=version, token=f"{next(_tokens):x}")


class Intake:
    """An intake on a thread of its own, and the rows that came of it."""

    def __init__(self, listener: socket.socket) -> None:
        self.store = FailingStore()
        recorder = SpanRecorder(Resource.get_empty(), build_span_limits())
        service = TelemetryService(recorder, self.store, now_ns=time.time_ns)  # type: ignore[arg-type]  # quacks
        self.spool = Path(listener.getsockname()).parent / "spool"
        self._intake = FrameIntake(listener.dup(), service, self.spool)
        self._thread = threading.Thread(target=self._intake.run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def accept(self) -> None:
        """Take a worker that has connected, where it is not started."""
        self._intake._accept()

    def step(self) -> None:
        """Read what has come, where it is not started."""
        self._intake._step()
        self._intake._selector.select(0)  # what has nothing more is last in turn from now on

    def finish(self) -> None:
        self._intake.finish()
        self._thread.join(10)
        assert not self._thread.is_alive()

    @property
    def open_exchanges(self) -> int:
        workers = tuple(self._intake._workers.values())
        return sum(len(worker.source) for worker in workers if worker.connection is not None)

    def break_connections(self) -> None:
        """As a network would."""
        for connection in tuple(self._intake._connections):
            connection.sock.shutdown(socket.SHUT_RDWR)

    @property
    def outcomes(self) -> dict[int, str]:
        return {int(row.span_id, 16): row.outcome for row in self.store.rows}


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    with frames_socket(str(tmp_path / "t.db")) as sock:
        yield sock


@contextlib.asynccontextmanager
async def linked(
    listener: socket.socket, outbox: FrameOutbox | None = None
) -> AsyncIterator[FrameLink]:
    """A link that runs; its end closes the connection."""
    link = FrameLink(listener.getsockname(), hello(), outbox)
    running = asyncio.ensure_future(link.run())
    try:
        yield link
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


def emit(link: FrameLink, number: int, *, ended: bool = True) -> None:
    frames = exchange_frames(*(WHOLE_STREAM if ended else (ROLE, HEL)), number=number)
    for frame in frames if ended else frames[:-1]:
        add_frame(link.outbox, frame)


async def test_what_is_emitted_is_stored_and_then_forgotten(listener: socket.socket) -> None:
    """Acknowledged after the commit, so that nothing is held any more."""
    intake = Intake(listener)
    intake.start()
    async with linked(listener) as link:
        for number in range(1, 101):
            emit(link, number)
        assert await link.finish(10, 20) == 0
        assert {number for _, _, number in link.read_metrics()} == {0}
    intake.finish()
    assert intake.outcomes == dict.fromkeys(range(1, 101), "completed")


async def test_frames_wait_for_a_telemetry_that_is_not_there_yet(listener: socket.socket) -> None:
    """Emitting goes on meanwhile, and all of it arrives."""
    async with linked(listener) as link:
        for number in range(1, 11):
            emit(link, number)
            await asyncio.sleep(0.005)
        assert len(link.outbox) == 10
        [(_, _, queued)] = [reading for reading in link.read_metrics() if reading[0] is TAP_QUEUE]
        assert queued > 0
        assert await link.finish(0.05, 1) == 10
        intake = Intake(listener)
        intake.start()
        assert await link.finish(10, 20) == 0
    intake.finish()
    assert len(intake.outcomes) == 10


async def test_after_a_telemetry_that_died_all_that_was_not_stored_is_sent_again(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that reads and never acknowledges, then is gone, costs nothing."""
    monkeypatch.setattr(frame_link, "RECONNECT_SECONDS", 0.01)
    async with linked(listener) as link:
        listener.setblocking(False)
        doomed, _ = await asyncio.get_running_loop().sock_accept(listener)
        emit(link, 1)
        emit(link, 2, ended=False)
        assert await asyncio.get_running_loop().sock_recv(doomed, 1 << 20)
        doomed.close()
        intake = Intake(listener)
        intake.start()
        await until(lambda: intake.outcomes == {1: "completed"})
        for frame in exchange_frames(*WHOLE_STREAM, number=2)[5:]:
            add_frame(link.outbox, frame)  # what came of it after the restart
        assert await link.finish(10, 20) == 0
    intake.finish()
    assert set(intake.outcomes) == {1, 2}


async def test_rule_2_a_worker_that_goes_with_exchanges_open_is_lost(
    listener: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    """Its open exchanges end as ``worker_lost``, another worker's do not."""
    intake = Intake(listener)
    intake.start()
    async with linked(listener) as other:
        emit(other, 2, ended=False)
        async with linked(listener) as link:
            emit(link, 1, ended=False)
            await asyncio.sleep(0.1)
        await until(lambda: intake.outcomes == {1: "worker_lost"})
        add_frame(other.outbox, tap_frames.end(2))
        assert await other.finish(10, 20) == 0
    intake.finish()
    assert intake.outcomes[2] != "worker_lost"
    assert "the worker process 4321 ended with 1 exchanges open" in caplog.text


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (encode_hello(hello()) + b"\0\0\0\1\0\0\0\0\xc1", "a record holds no frame"),
        (encode_hello(hello("9.9")), "worker process 4321 is spantap 9.9"),
    ],
)
async def test_rule_2_who_sends_no_frames_is_disconnected(
    listener: socket.socket, caplog: pytest.LogCaptureFixture, sent: bytes, words: str
) -> None:
    """Nothing of it is recorded, and the others go on."""
    intake = Intake(listener)
    intake.start()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stranger:
        stranger.connect(listener.getsockname())
        stranger.sendall(sent)
        assert await asyncio.to_thread(stranger.recv, 1) == b""
    async with linked(listener) as link:
        emit(link, 1)
        assert await link.finish(10, 20) == 0
    intake.finish()
    assert intake.outcomes == {1: "completed"}
    assert "disconnected" in caplog.text
    assert words in caplog.text


async def test_rule_1_nothing_is_acknowledged_while_the_store_fails(
    listener: socket.socket,
) -> None:
    """The worker keeps it, until the store takes it."""
    intake = Intake(listener)
    intake.store.error = StoreUnavailable("full")
    intake.start()
    async with linked(listener) as link:
        emit(link, 1)
        assert await link.finish(0.4, 2) == 1
        intake.store.error = None
        assert await link.finish(10, 20) == 0
    intake.finish()


async def test_what_a_worker_sent_before_its_end_is_read_to_its_end(
    listener: socket.socket,
) -> None:
    """A finish that comes meanwhile waits for it."""
    async with linked(listener) as link:
        for number in range(1, 21):
            emit(link, number)
        await asyncio.sleep(0.1)
    intake = Intake(listener)
    intake.start()
    intake.finish()
    assert len(intake.outcomes) == 20


async def test_a_telemetry_that_stands_still_delays_nobody(
    listener: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    """R2: emitting many megabytes that nobody reads waits for nothing; what is left out is said."""
    outbox = FrameOutbox(Shedding(30_000_000, shed_bytes=10_000_000))
    async with linked(listener, outbox) as link:
        assert link.outbox is outbox
        for number in range(1, 200):
            for frame in exchange_frames(b"x" * 100_000, number=number):
                add_frame(link.outbox, frame)
            await asyncio.sleep(0)
        assert 9_000_000 < outbox.held_bytes < 11_000_000
        link.tell_shedding()
        link.tell_shedding()
    assert caplog.text.count("telemetry does not keep up") == 1


async def test_a_broken_way_to_telemetry_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Once in a while, and calls go on."""
    link = FrameLink(str(tmp_path / "gone"), hello())
    running = asyncio.ensure_future(link.run())
    emit(link, 1)
    await asyncio.sleep(0.3)
    running.cancel()
    assert caplog.text.count("the way to telemetry is broken") == 1
    assert await link.finish(0.05, 0.1) == 1


async def test_a_defect_in_sending_does_not_end_it(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is said, and all is sent over another connection."""
    intake = Intake(listener)
    intake.start()
    take = FrameOutbox.take
    defects = [RuntimeError("a defect")]

    def take_later(outbox: FrameOutbox, limit_bytes: int) -> list[bytes]:
        if defects and len(outbox):
            raise defects.pop()
        return take(outbox, limit_bytes)

    monkeypatch.setattr(FrameOutbox, "take", take_later)
    async with linked(listener) as link:
        emit(link, 1)
        assert await link.finish(10, 20) == 0
    intake.finish()
    assert intake.outcomes == {1: "completed"}
    assert "frames could not be sent" in caplog.text


async def test_a_defect_in_taking_acknowledgements_does_not_end_it(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is said, and what was not taken in is sent again over another connection."""
    intake = Intake(listener)
    intake.start()
    acknowledge = FrameOutbox.acknowledge
    defects = [RuntimeError("a defect")]

    def acknowledge_later(outbox: FrameOutbox, numbers: list[int]) -> None:
        if defects:
            raise defects.pop()
        acknowledge(outbox, numbers)

    monkeypatch.setattr(FrameOutbox, "acknowledge", acknowledge_later)
    async with linked(listener) as link:
        emit(link, 1)
        assert await link.finish(10, 20) == 0
    intake.finish()
    assert intake.outcomes == {1: "completed"}
    assert "frames could not be sent" in caplog.text


# --- rule 3: large bodies

PIECE_SIZES = st.sampled_from([1, 1000, _TURN_BYTES, _TURN_BYTES + 1, 3 * _TURN_BYTES])


@given(st.lists(PIECE_SIZES, max_size=8))
def test_small_pieces_are_joined_and_large_ones_are_sent_as_they_are(sizes: list[int]) -> None:
    """The bytes are the same; two joined pieces never follow each other."""
    pieces = [bytes([number]) * size for number, size in enumerate(sizes)]
    sent = list(_join_small(pieces))
    assert b"".join(sent) == b"".join(pieces)
    large = [piece for piece in pieces if len(piece) > _TURN_BYTES]
    assert [id(piece) for piece in sent if any(piece is one for one in large)] == [*map(id, large)]
    assert len(sent) <= 2 * len(large) + 1


async def test_others_have_their_turn_after_each_part_of_a_large_body(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Though a socket with room takes each part at once."""
    parts: list[bytes] = []

    async def take(_: socket.socket, data: memoryview) -> None:
        parts.append(bytes(data))

    monkeypatch.setattr(asyncio.get_running_loop(), "sock_sendall", take)
    data = bytes(range(256)) * (_TURN_BYTES // 64) + b"end"
    with socket.socket() as sock:
        assert count_turns(FrameLink("", hello())._send_large(sock, data)) == len(parts) == 5
    assert b"".join(parts) == data
    assert max(map(len, parts)) == _TURN_BYTES


@contextlib.asynccontextmanager
async def spooling(link: FrameLink, folder: Path) -> AsyncIterator[None]:
    """The other way of a link's outbox; its end lets go of the spool."""
    spool = FrameSpool(folder, "a1")
    running = asyncio.ensure_future(SpoolLink(link.outbox, spool).run())
    try:
        yield
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        spool.close()


async def test_rule_1_what_ends_an_exchange_does_not_wait_for_more(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client has the answer: a kill of the worker would take the span with it."""
    monkeypatch.setattr(frame_link, "GATHER_SECONDS", 60.0)
    intake = Intake(listener)
    intake.start()
    async with linked(listener) as link:
        emit(link, 1, ended=False)
        emit(link, 2)
        await until(lambda: intake.outcomes == {2: "completed"})
    intake.finish()


async def test_rule_2_what_a_telemetry_that_stands_still_does_not_take_is_spooled_whole(
    listener: socket.socket, tmp_path: Path
) -> None:
    """Far more than memory may hold; all of it is recorded once somebody reads it."""
    outbox = FrameOutbox(Shedding(3_000_000, shed_bytes=2_000_000))
    intake = Intake(listener)
    async with linked(listener, outbox) as link, spooling(link, intake.spool):
        for number in range(1, 200):
            for frame in exchange_frames(*WHOLE_STREAM, number=number, asked=b"x" * 100_000):
                add_frame(outbox, frame)
            await asyncio.sleep(0.002)
        await until(lambda: len(outbox) < 100)
        await link.finish(0.1, 1)  # what was sent is in the socket
    assert outbox.shedding.shed_bytes == 0
    assert measure_spool(intake.spool) > 10_000_000
    intake.start()
    await until(lambda: len(intake.outcomes) == 199)
    intake.finish()
    assert set(intake.outcomes.values()) == {"completed"}
    assert measure_spool(intake.spool) == 0


async def test_rule_2_a_spool_that_takes_nothing_hurts_nobody(
    listener: socket.socket, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What was to go there goes to telemetry; the spool is tried again later."""
    link = FrameLink(listener.getsockname(), hello())
    outbox = link.outbox
    (tmp_path / "spool").write_bytes(b"in the way")
    async with spooling(link, tmp_path / "spool"):
        emit(link, 1)
        outbox.divert()
        await until(lambda: not outbox.can_spool)
        assert [outbox.has_unsent, outbox.has_spooled] == [True, False]
        (tmp_path / "spool").unlink()
        await until(lambda: outbox.can_spool)
        outbox.divert()
        await until(lambda: not len(outbox))
    assert caplog.text.count("the spool does not take them") == 1


async def test_rule_2_a_worker_that_lives_and_loses_its_connection_loses_no_exchange(
    listener: socket.socket,
) -> None:
    """It sends all again; only its end makes what is open ``worker_lost``."""
    intake = Intake(listener)
    intake.start()
    token = "51"
    life = hold(life_path(listener.getsockname(), token))
    said = Hello(worker=1, pid=4321, version=__version__, token=token)
    link = FrameLink(listener.getsockname(), said)
    running = asyncio.ensure_future(link.run())
    emit(link, 1, ended=False)
    emit(link, 2, ended=False)
    await until(lambda: intake.open_exchanges == 2)
    intake.break_connections()
    await until(lambda: intake.open_exchanges == 2)
    for frame in exchange_frames(*WHOLE_STREAM, number=1)[5:]:
        add_frame(link.outbox, frame)
    await until(lambda: intake.outcomes == {1: "completed"})
    running.cancel()
    await asyncio.sleep(0.3)
    assert intake.outcomes == {1: "completed"}
    os.close(life)
    await until(lambda: intake.outcomes == {1: "completed", 2: "worker_lost"})
    intake.finish()
    assert not life_path(listener.getsockname(), token).exists()


async def test_rule_2_what_a_dead_worker_had_spooled_is_read_before_it_is_lost(
    listener: socket.socket,
) -> None:
    """An exchange that changed over to the spool is whole there."""
    intake = Intake(listener)
    said = Hello(worker=1, pid=4321, version=__version__, token="a1")
    link = FrameLink(listener.getsockname(), said)
    running = asyncio.ensure_future(link.run())
    async with spooling(link, intake.spool):
        *frames, end = exchange_frames(*WHOLE_STREAM, number=1)
        for frame in frames:
            add_frame(link.outbox, frame)
        await until(lambda: not link.outbox.has_unsent)
        add_frame(link.outbox, end)
        link.outbox.divert_all()
        await until(lambda: not len(link.outbox))
    running.cancel()
    intake.start()
    await until(lambda: bool(intake.outcomes))
    intake.finish()
    assert intake.outcomes == {1: "completed"}


async def test_a_defect_in_spooling_does_not_end_it(
    listener: socket.socket,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is said, and what was not written, or not begun, is written soon."""
    monkeypatch.setattr(spool_link, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(spool_link, "_WRITE_BYTES", 1)
    write = FrameSpool.write
    defects = [RuntimeError("a defect")]

    def write_later(spool: FrameSpool, pieces: list[bytes]) -> None:
        if defects:
            raise defects.pop()
        write(spool, pieces)

    monkeypatch.setattr(FrameSpool, "write", write_later)
    link = FrameLink(listener.getsockname(), hello())
    async with spooling(link, tmp_path / "spool"):
        link.outbox.divert()
        for number in (1, 2):
            for frame in exchange_frames(b"x" * 100_000, number=number):
                add_frame(link.outbox, frame)
        await until(lambda: "could not be spooled" in caplog.text)
        await until(lambda: link.outbox.can_spool)
        link.outbox.divert()  # what was not begun had gone to telemetry
        await until(lambda: not len(link.outbox))
    assert caplog.text.count("frames could not be spooled") == 1


async def test_rule_2_a_large_body_is_no_reason_to_spool(listener: socket.socket) -> None:
    """A socket that has room takes it in the next turn of the loop."""
    intake = Intake(listener)
    intake.start()
    async with linked(listener) as link:
        await until(lambda: link._sock is not None)
        link.outbox.can_spool = True
        for frame in exchange_frames(*WHOLE_STREAM, number=1, asked=b"x" * 40_000):
            add_frame(link.outbox, frame)
        assert link.outbox.has_unsent or link._left
        assert not link.outbox.spools
        await until(lambda: not len(link.outbox))
    intake.finish()
    assert set(intake.outcomes) == {1}


def test_rule_2_a_worker_may_come_back_before_its_old_connection_is_read_to_its_end(
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
