"""``proxy.processes.frame_intake``: when it commits what workers send, by a turned clock."""

from __future__ import annotations

import socket
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING

from proxy.processes import frame_intake
from telemetry.frames.records import encode_hello, encode_records
from tests.proxy.processes.channels import Intake, hello
from tests.telemetry.tap_frames import WHOLE_STREAM, exchange_frames

if TYPE_CHECKING:
    import pytest

BOUND_SECONDS = 0.05


def test_rule_3_calls_are_committed_at_once_after_a_pause_and_soon_in_traffic(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound holds between two looks at the store's limits; calls within it share a commit."""
    clock = SimpleNamespace(now=100.0)
    turned = SimpleNamespace(**{**vars(time), "monotonic": lambda: clock.now})
    monkeypatch.setattr(frame_intake, "time", turned)
    intake = Intake(listener)
    with socket.socket(socket.AF_UNIX) as worker:
        worker.connect(listener.getsockname())
        intake.accept()
        worker.sendall(encode_hello(hello()))
        intake.step()  # and a look

        def send(number: int, at: float) -> set[int]:
            """Send a call, and tell which are committed."""
            clock.now = at
            frames = exchange_frames(*WHOLE_STREAM, number=number)
            worker.sendall(b"".join(encode_records(frames, number * len(frames))))
            intake.step()
            return set(intake.outcomes)

        assert send(1, 100.01) == {1}
        assert send(2, 100.02) == {1}
        assert send(3, 100.03) == {1}
        clock.now = 100.02 + BOUND_SECONDS - 0.01  # its way here and the commit take the rest
        intake.step()
        assert set(intake.outcomes) == {1, 2, 3}
        assert send(4, 100.09) == {1, 2, 3}
        assert send(5, 100.6) == {1, 2, 3, 4, 5}
        assert send(6, 100.9) == {1, 2, 3, 4, 5, 6}
    intake.start()
    intake.finish()
