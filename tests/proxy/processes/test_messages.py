"""``proxy.processes.messages``: what the processes say to each other."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.processes import messages
from proxy.processes.messages import (
    Counters,
    Cut,
    Drain,
    Finish,
    Finished,
    Linger,
    Message,
    MessageReader,
    Ready,
    Start,
    encode_message,
)
from telemetry.metrics.instruments import OPERATION_DURATION, REQUESTS
from telemetry.metrics.registry import MetricsRegistry


def some_numbers() -> Counters:
    registry = MetricsRegistry(now_ns=lambda: 5)
    registry.add(REQUESTS, 3)
    registry.observe_all([(OPERATION_DURATION, 0.5, ("chat", "openai", "m", "m", "h", 443, ""))])
    return Counters(snapshot=registry.snapshot())


MESSAGES: list[Message] = [
    Start(settings=b"{}", number=1, frames_path="/tmp/x", cipher_key=b"k"),
    Ready(notes=((20, "one"), (30, "two"))),
    some_numbers(),
    Linger(),
    Drain(seconds=1.5),
    Cut(),
    Finish(flush_seconds=5),
    Finished(lost=2),
]
WIRE = b"".join(map(encode_message, MESSAGES))


@given(st.lists(st.integers(0, len(WIRE)), max_size=10))
def test_messages_survive_any_cut(cuts: list[int]) -> None:
    """All of them, numbers with their labels too."""
    edges = [0, *sorted(cuts), len(WIRE)]
    reader = MessageReader()
    pieces = (WIRE[a:b] for a, b in itertools.pairwise(edges))
    assert [message for piece in pieces for message in reader.feed(piece)] == MESSAGES


def test_a_length_beyond_reason_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The channel is broken, not a reason to gather gigabytes."""
    monkeypatch.setattr(messages, "MAX_MESSAGE_BYTES", 3)
    with pytest.raises(ValueError, match="claims to have"):
        list(MessageReader().feed(encode_message(Linger())))
