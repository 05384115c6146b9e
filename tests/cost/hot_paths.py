"""The hot paths: pieces of work of which a regression is to be noticed.

What telemetry is fed are the very frames that the worker sent: a call is counted on both sides.
"""

from __future__ import annotations

import contextlib
import socket
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from codec.chat.rewrite import REQUEST_MEMBERS, rewrite_request
from codec.chat.stream import ChatStream
from codec.chat.usage_filter import UsageFilter
from codec.text.scan import scan_request
from codec.usage_option import UsagePolicy
from proxy.processes.frame_intake import FrameIntake
from telemetry.export.delivery import Answer, Verdict
from telemetry.export.exporter import Exporter
from telemetry.frames.records import encode_hello
from telemetry.pipeline import Pipeline, build_resource
from telemetry.spans.recorder import SpanRecorder, build_span_limits
from telemetry.spans.rules import SpanRules
from telemetry.store.store import Store
from tests.cost.surroundings import HELLO, START_NS, Surroundings
from tests.cost.traffic import answer, in_reads, request, request_body, stream, streamed_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ("HotPath", "hot_paths")

Prepare: TypeAlias = "Callable[[], Callable[[], object]]"
"""Makes ready, uncounted, one run of what is counted."""

_BATCH = 5
"""Calls whose spans telemetry commits at once; under load there are a hundred."""

_FEW, _MANY = 20, 60
"""Chunks of two streams: what one costs is the difference over their difference."""

_MESSAGES = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class HotPath:
    """A piece of work.

    Attributes:
        name: what a unit of it is.
        prepare: the work.
        units: in it.
        without: the same work without these units, where their cost is the difference.
    """

    name: str
    prepare: Prepare
    units: int = 1
    without: Prepare | None = None

    def cost(self, count: Callable[[Callable[[], object]], int]) -> int:
        """What a unit costs, as it is counted."""
        whole = count(self.prepare())
        rest = 0 if self.without is None else count(self.without())
        return round((whole - rest) / self.units)


class _Backend:
    """Takes all."""

    backend = "http://backend.example"

    def send(self, batch: bytes) -> Answer:
        return Answer(verdict=Verdict.DELIVERED)

    def close(self) -> None:
        pass


class _Telemetry:
    """The telemetry process without its threads, its store in a folder."""

    def __init__(self, folder: Path) -> None:
        self._path = str(folder / "telemetry")
        self._store = Store.open(folder / "spans.db", delivers=True)
        rules = SpanRules()
        recorder = SpanRecorder(build_resource(), build_span_limits(), rules)
        self._pipeline = Pipeline(self._store, _Backend(), recorder, rules)
        self.exporter = Exporter(self._store, _Backend())

    def check(self) -> None:
        """Close it; all that was counted did its work."""
        counts = self._pipeline.service.counts
        assert counts.failed == 0
        while self.exporter.step() == 0:
            pass
        assert self.exporter.counts.delivered == counts.recorded > 0
        self._store.close()

    def connect(self, frames: bytes) -> FrameIntake:
        """An intake that is about to hear from a worker that has just ended."""
        Path(self._path).unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self._path)
        listener.listen()
        with socket.socket(socket.AF_UNIX) as worker:
            worker.connect(self._path)
            worker.sendall(encode_hello(HELLO) + frames)
        intake = FrameIntake(listener, self._pipeline.service, Path(self._path).parent / "spool")
        intake.finish()
        return intake


@contextlib.contextmanager
def hot_paths() -> Iterator[list[HotPath]]:
    """Those of the codec, and those within a running worker and a telemetry process in one thread.

    The clocks of this process stand still from here on.
    """
    surroundings = Surroundings()
    with (
        tempfile.TemporaryDirectory() as folder,
        surroundings.running(),
    ):
        # Else how long it takes says how often it commits, and looks at the store's size.
        time.monotonic, time.time_ns = lambda: 0.0, lambda: START_NS
        telemetry = _Telemetry(Path(folder))
        processes = _worker_paths(surroundings) + _telemetry_paths(surroundings, telemetry)
        yield _codec_paths() + processes
        telemetry.check()


_Call = tuple[bytes, "Sequence[bytes]"]

_CHAT: _Call = request(streams=False), [answer()]
_LONG_CHAT: _Call = request(streams=False, messages=2 + _MESSAGES), [answer()]
_STREAM: _Call = request(streams=True), in_reads(streamed_answer(200))
_FEW_READS: _Call = request(streams=True), streamed_answer(_FEW)
_MANY_READS: _Call = request(streams=True), streamed_answer(_MANY)


def _codec_paths() -> list[HotPath]:
    body = request_body(streams=True, messages=20)
    events = stream(200)
    large_reads = in_reads(events)

    def feeds(fold: type[ChatStream | UsageFilter], reads: Sequence[bytes], units: int) -> HotPath:
        def feed() -> None:
            reader = fold()
            for read in reads:
                reader.feed(read)
            reader.finish()

        size = "event in a read of its own" if reads is events else "event of a large read"
        return HotPath(name=f"codec: {fold.__name__}, {size}", prepare=lambda: feed, units=units)

    return [
        HotPath(
            name="codec: request of 20 messages",
            prepare=lambda: (
                lambda: rewrite_request(
                    body, scan_request(body, REQUEST_MEMBERS), UsagePolicy.ALWAYS
                )
            ),
        ),
        *(
            feeds(fold, reads, len(events))
            for fold in (UsageFilter, ChatStream)
            for reads in (events, large_reads)
        ),
    ]


def _worker_paths(surroundings: Surroundings) -> list[HotPath]:
    def relays(call: _Call) -> Prepare:
        return lambda: lambda: surroundings.relay(*call)

    def relays_anew() -> Callable[[], object]:
        surroundings.hang_up()
        return relays(_CHAT)()

    return [
        HotPath(name="worker: chat", prepare=relays(_CHAT)),
        HotPath(name="worker: chat on new connections", prepare=relays_anew),
        HotPath(name="worker: stream of 200 chunks in large reads", prepare=relays(_STREAM)),
        HotPath(
            name="worker: chunk in a read of its own",
            prepare=relays(_MANY_READS),
            units=_MANY - _FEW,
            without=relays(_FEW_READS),
        ),
    ]


def _telemetry_paths(surroundings: Surroundings, telemetry: _Telemetry) -> list[HotPath]:
    def observes(call: _Call, count: int = 1) -> Prepare:
        def prepare() -> Callable[[], object]:
            while telemetry.exporter.step() == 0:
                pass  # so that no store that fills up is what is counted
            frames = [surroundings.relay(*call) for _ in range(count)]
            return telemetry.connect(b"".join(frames)).run

        return prepare

    def delivers() -> Callable[[], object]:
        observes(_CHAT, _BATCH)()()
        return telemetry.exporter.step

    return [
        HotPath(name="telemetry: chat", prepare=observes(_CHAT, _BATCH), units=_BATCH),
        HotPath(name="telemetry: stream of 200 chunks in large reads", prepare=observes(_STREAM)),
        HotPath(
            name="telemetry: chunk in a read of its own",
            prepare=observes(_MANY_READS),
            units=_MANY - _FEW,
            without=observes(_FEW_READS),
        ),
        HotPath(
            name="telemetry: message",
            prepare=observes(_LONG_CHAT),
            units=_MESSAGES,
            without=observes(_CHAT),
        ),
        HotPath(name="telemetry: span delivered", prepare=delivers, units=_BATCH),
    ]
