"""What a load that does not rest comes to: whether every span is whole in the end.

One telemetry process follows a worker at its full pace for a while only; the rest waits in the
spool and is worked off afterwards. Nothing may be missing then, however long it takes.
"""

from __future__ import annotations

import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from telemetry.frames.spool import measure_spool, spool_folder
from tests.bench.contestants import pin_to_others, pinned, running_observing
from tests.faults.beside import beside
from tests.load.tool import ClientLoad, LoadClient, LoadUpstream
from tests.otlp_sink import HttpSink, SinkAnswer

if TYPE_CHECKING:
    from tests.bench.contestants import Contestant
    from tests.otlp_sink import SinkRequest

__all__ = ("Saturated", "Saturation", "saturate")

_CONNECTIONS = 64

_END_SECONDS = 900.0
"""How long telemetry may take for what it could not follow."""

_LOOK_SECONDS = 0.2

_SETTINGS = {"SPANTAP_STORE_MAX_BYTES": str(8 << 30)}
"""Room for every span, so that none goes before it was counted."""

_TOKENS = b"llm.token_count.completion"
_TOKENS_MEMBER = b"\n" + bytes([len(_TOKENS)]) + _TOKENS
"""The key of an attribute that whole spans alone have, as protobuf writes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saturation:
    """A load for so many seconds of whole answers, and again of streams."""

    seconds: float = 60
    chunks: int = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Saturated:
    """What came of one of the loads.

    Attributes:
        whole_spans: that the backend received with their tokens.
        spool_bytes: the most that waited on disk, looked at five times a second.
        recorded_seconds: from the end of the load until the backend had every span.
    """

    answers: int
    answers_per_second: float
    whole_spans: int
    spool_bytes: int
    recorded_seconds: float


class _SpanCounter(HttpSink):
    """Takes everything and keeps a count: of whole spans, in their bytes, for it costs least."""

    def __init__(self) -> None:
        super().__init__()
        self.whole_spans = 0
        self._lock = threading.Lock()

    def receive(self, request: SinkRequest) -> SinkAnswer:
        """Count the whole spans of `request`."""
        with self._lock:
            self.whole_spans += request.body.count(_TOKENS_MEMBER)
        return SinkAnswer()


def saturate(plan: Saturation) -> dict[str, Saturated]:
    """Whole answers, then streams, through one spantap: what came of each, by name.

    Raises:
        AssertionError: an answer was not whole, or spans are missing after :data:`_END_SECONDS`.
    """
    modes: dict[str, Literal["json", "stream"]] = {"whole answers": "json", "streams": "stream"}
    found: dict[str, Saturated] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        LoadUpstream(chunks=plan.chunks, rate=0) as upstream,
        _SpanCounter() as counter,
        running_observing(Path(folder), upstream.port, counter.url, settings=_SETTINGS) as one,
        pinned(one),
    ):
        pin_to_others(upstream.pid)
        spans = 1  # it has answered once
        for name, mode in modes.items():
            _wait_for_spans(one, spans)
            found[name] = _saturate(one, counter, mode, plan.seconds, spans)
            spans += found[name].answers
    return found


def _saturate(
    contestant: Contestant,
    counter: _SpanCounter,
    mode: Literal["json", "stream"],
    seconds: float,
    spans_before: int,
) -> Saturated:
    """Put one load on it, and wait for its spans."""
    assert contestant.spantap is not None, "spantap alone has a spool"
    folder = spool_folder(contestant.spantap.store)
    load = ClientLoad(port=contestant.port, mode=mode, connections=_CONNECTIONS, seconds=seconds)
    whole_before = counter.whole_spans
    sizes = [0]

    def look(over: threading.Event) -> None:
        while not over.wait(_LOOK_SECONDS):
            sizes.append(measure_spool(folder))

    with beside(look):
        contestant.pin()
        with LoadClient(load) as client:
            pin_to_others(client.pid)
            result = client.wait(seconds + _END_SECONDS)
        assert result.answered == result.requests, f"{result.answered} of {result.requests}"
        recorded_seconds = _wait_for_spans(contestant, spans_before + result.answered)
    return Saturated(
        answers=result.answered,
        answers_per_second=result.answers_per_second,
        whole_spans=counter.whole_spans - whole_before,
        spool_bytes=max(sizes),
        recorded_seconds=recorded_seconds,
    )


def _wait_for_spans(contestant: Contestant, count: int) -> float:
    """How many seconds it took until spantap had delivered so many."""
    assert contestant.spantap is not None, "spantap alone tells how many it has delivered"
    begun = time.monotonic()
    while contestant.spantap.metrics().get("spantap_spans_exported_total", 0) < count:
        waited = time.monotonic() - begun
        assert waited < _END_SECONDS, f"fewer than {count} spans after {waited:.0f} s"
        time.sleep(_LOOK_SECONDS)
    return time.monotonic() - begun
