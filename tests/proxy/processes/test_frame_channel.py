"""``proxy.processes.frame_channel`` and ``frame_intake``: frames over a real Unix socket."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.processes import frame_channel
from proxy.processes.frame_channel import _TURN_BYTES, FrameChannel, _join_small
from telemetry.errors import StoreUnavailable
from telemetry.frames.outbox import FrameOutbox
from telemetry.frames.records import encode_hello
from telemetry.frames.shedding import Shedding
from telemetry.metrics.instruments import TAP_QUEUE
from tests.proxy.processes.channels import Intake, connected, emit, emit_rest, hello, until
from tests.proxy.turns import count_turns
from tests.telemetry import tap_frames
from tests.telemetry.tap_frames import add_frame, exchange_frames

if TYPE_CHECKING:
    from pathlib import Path


async def test_what_is_emitted_is_stored_and_then_forgotten(listener: socket.socket) -> None:
    """Acknowledged after the commit, so that nothing is held any more."""
    intake = Intake(listener)
    intake.start()
    async with connected(listener) as channel:
        for number in range(1, 101):
            emit(channel, number)
        assert await channel.finish(10, 20) == 0
        assert {number for _, _, number in channel.read_metrics()} == {0}
    intake.finish()
    assert intake.outcomes == dict.fromkeys(range(1, 101), "completed")


async def test_frames_wait_for_a_telemetry_that_is_not_there_yet(listener: socket.socket) -> None:
    """Emitting goes on meanwhile, and all of it arrives."""
    async with connected(listener) as channel:
        for number in range(1, 11):
            emit(channel, number)
            await asyncio.sleep(0.005)
        assert len(channel.outbox) == 10
        [(_, _, queued)] = [
            reading for reading in channel.read_metrics() if reading[0] is TAP_QUEUE
        ]
        assert queued > 0
        assert await channel.finish(0.05, 1) == 10
        intake = Intake(listener)
        intake.start()
        assert await channel.finish(10, 20) == 0
    intake.finish()
    assert len(intake.outcomes) == 10


async def test_after_a_telemetry_that_died_all_that_was_not_stored_is_sent_again(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that reads and never acknowledges, then is gone, costs nothing."""
    monkeypatch.setattr(frame_channel, "RECONNECT_SECONDS", 0.01)
    async with connected(listener) as channel:
        listener.setblocking(False)
        doomed, _ = await asyncio.get_running_loop().sock_accept(listener)
        emit(channel, 1)
        emit(channel, 2, ended=False)
        assert await asyncio.get_running_loop().sock_recv(doomed, 1 << 20)
        doomed.close()
        intake = Intake(listener)
        intake.start()
        await until(lambda: intake.outcomes == {1: "completed"})
        emit_rest(channel, 2)  # what came of it after the restart
        assert await channel.finish(10, 20) == 0
    intake.finish()
    assert set(intake.outcomes) == {1, 2}


async def test_rule_2_a_worker_that_goes_with_exchanges_open_is_lost(
    listener: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    """Its open exchanges end as ``worker_lost``, another worker's do not."""
    intake = Intake(listener)
    intake.start()
    async with connected(listener) as other:
        emit(other, 2, ended=False)
        async with connected(listener) as channel:
            emit(channel, 1, ended=False)
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
    async with connected(listener) as channel:
        emit(channel, 1)
        assert await channel.finish(10, 20) == 0
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
    async with connected(listener) as channel:
        emit(channel, 1)
        assert await channel.finish(0.4, 2) == 1
        intake.store.error = None
        assert await channel.finish(10, 20) == 0
    intake.finish()


async def test_what_a_worker_sent_before_its_end_is_read_to_its_end(
    listener: socket.socket,
) -> None:
    """A finish that comes meanwhile waits for it."""
    async with connected(listener) as channel:
        for number in range(1, 21):
            emit(channel, number)
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
    async with connected(listener, outbox) as channel:
        assert channel.outbox is outbox
        for number in range(1, 200):
            for frame in exchange_frames(b"x" * 100_000, number=number):
                add_frame(channel.outbox, frame)
            await asyncio.sleep(0)
        assert 9_000_000 < outbox.held_bytes < 11_000_000
        channel.log_shedding()
        channel.log_shedding()
    assert caplog.text.count("telemetry does not keep up") == 1


async def test_a_broken_way_to_telemetry_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Once in a while, and calls go on."""
    channel = FrameChannel(str(tmp_path / "gone"), hello())
    running = asyncio.ensure_future(channel.run())
    emit(channel, 1)
    await asyncio.sleep(0.3)
    running.cancel()
    assert caplog.text.count("workers cannot reach telemetry") == 1
    assert await channel.finish(0.05, 0.1) == 1


@pytest.mark.parametrize("name", ["read", "acknowledge"])
async def test_a_defect_does_not_end_it(
    name: str,
    listener: socket.socket,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """In sending or in hearing of it: it is said, and all is sent over another connection."""
    intake = Intake(listener)
    intake.start()
    method = getattr(FrameOutbox, name)
    defects = [RuntimeError("a defect")]

    def fail_once(outbox: FrameOutbox, *arguments: Any) -> Any:
        if defects and len(outbox):
            raise defects.pop()
        return method(outbox, *arguments)

    monkeypatch.setattr(FrameOutbox, name, fail_once)
    async with connected(listener) as channel:
        emit(channel, 1)
        assert await channel.finish(10, 20) == 0
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
        assert count_turns(FrameChannel("", hello())._send_large(sock, data)) == len(parts) == 5
    assert b"".join(parts) == data
    assert max(map(len, parts)) == _TURN_BYTES
