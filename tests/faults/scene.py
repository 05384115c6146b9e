"""The scene of a row about the backend: load through a proxy whose backend comes and goes.

Each row is the same play: a calm load while the backend is healthy, the same load during the fault,
then the backend is well and must come to hold one span of every exchange.
"""

from __future__ import annotations

import itertools
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from telemetry.frames.spool import measure_spool, spool_folder
from telemetry.reading.stored_calls import open_calls
from telemetry.store.rows import SpanState
from tests.e2e.processes import find_free_port, wait_until
from tests.faults.backend import TAKE_ALL, Backend, Ledger
from tests.faults.load import Load, LoadResult, build_marks, run_load, running_load
from tests.faults.row import report
from tests.faults.stage import is_long, running_spantap

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from telemetry.store.rows import SpanSummary
    from tests.faults.backend import Judgement, SentSpan
    from tests.faults.load import RunningLoad
    from tests.faults.stage import RunningSpantap

__all__ = ("ARRIVAL_SECONDS", "Scene", "playing")

ARRIVAL_SECONDS = 150.0 if is_long() else 45.0
"""How long nothing may arrive: the exporter's waits double up to a minute after a long outage, and
are a few seconds after a short one; the rest is for a loaded machine."""

_WARM_UP = 16
"""Exchanges before anything is measured: the first ones import and connect."""


class Scene:
    """A proxy, its backend's port and ledger, and the marks of all exchanges begun so far.

    Attributes:
        noise_bytes: what the upstream's answers have of them (:func:`upstreams.answer_body`).
    """

    noise_bytes = 0

    def __init__(self, spantap: RunningSpantap, port: int, tls: ssl.SSLContext | None) -> None:
        self.spantap = spantap
        self.ledger = Ledger()
        self.sent: set[str] = set()
        self._port = port
        self._tls = tls
        self._numbers = itertools.count()
        self._seen: list[LoadResult] = []

    def backend(
        self,
        judge: Callable[[list[SentSpan]], Judgement] = lambda _: TAKE_ALL,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> Backend:
        """The backend up where the proxy expects it; well, and trusted, unless told otherwise."""
        return Backend(self.ledger, judge, port=self._port, tls=tls or self._tls)

    def load(
        self, count: int, *, rate: float = 0.0, pad_bytes: int = 0, picture_bytes: int = 0
    ) -> LoadResult:
        """Send `count` exchanges, with marks that none had before; what the clients saw."""
        load = self._build_load(count, rate, pad_bytes, picture_bytes)
        self._seen.append(run_load(load))
        return self._seen[-1]

    @contextmanager
    def loading(self, count: int, *, rate: float = 0.0) -> Iterator[RunningLoad]:
        """The same while something else happens."""
        with running_load(self._build_load(count, rate, 0)) as running:
            yield running
            self._seen.append(running.wait())

    def calm_load(self, count: int, *, rate: float = 0.0, pad_bytes: int = 0) -> LoadResult:
        """Warm up, then send `count` exchanges with a healthy backend, which gets them all."""
        with self.backend():
            self.load(_WARM_UP)
            calm = self.load(count, rate=rate, pad_bytes=pad_bytes)
            self.wait_for_all()
        return calm

    def wait_for_all(self, missing: frozenset[str] = frozenset()) -> None:
        """Wait until the backend holds a span of each exchange but `missing`, and none waits."""
        self.ledger.wait_for(self.sent - missing, ARRIVAL_SECONDS)
        self.wait_for_none_pending()

    def wait_for_none_pending(self) -> None:
        """Wait until the spool is read, and the store has nothing to be sent."""
        folder = spool_folder(self.spantap.store)
        wait_until(lambda: not measure_spool(folder), ARRIVAL_SECONDS, "the spool is read")
        wait_until(
            lambda: not self.count_states()[SpanState.PENDING], ARRIVAL_SECONDS, "nothing pending"
        )

    def wait_for_pending(self, count: int) -> None:
        """Wait until the store has `count` spans to be sent."""
        wait_until(
            lambda: self.count_states()[SpanState.PENDING] == count,
            ARRIVAL_SECONDS,
            f"{count} pending",
        )

    def wait_for_number(self, name: str, is_right: Callable[[float], bool]) -> float:
        """A number of the admin port once it `is_right`: processes tell theirs now and then."""
        wait_until(
            lambda: is_right(self.spantap.metrics().get(name, 0.0)),
            ARRIVAL_SECONDS,
            f"{name} is right",
        )
        return self.spantap.metrics()[name]

    def stored(self) -> list[SpanSummary]:
        """What the store holds, in the order in which it was recorded."""
        with open_calls(self.spantap.store) as reader:
            rows: list[SpanSummary] = []
            while page := reader.after(rows[-1].seq if rows else 0):
                rows += page
        return rows

    def count_states(self) -> Counter[SpanState]:
        """How many spans of the store are in each state."""
        return Counter(row.state for row in self.stored())

    def finish(
        self,
        name: str,
        during: LoadResult,
        calm: LoadResult,
        figures: dict[str, str | int | float] | None = None,
        *,
        set_aside: frozenset[str] = frozenset(),
        counted_lost: int = 0,
    ) -> None:
        """Assert what holds in every row, and report it.

        `set_aside` are the marks of spans that the backend refused for good; the proxy says that
        `counted_lost` spans are lost.
        """
        arrived = self.ledger.marks
        lost = self.sent - arrived.keys() - set_aside
        sent = replace(
            during,
            sent=sum(seen.sent for seen in self._seen),
            whole=sum(seen.whole for seen in self._seen),
        )
        report(
            name,
            sent=len(self.sent),
            lost=len(lost),
            client_saw=sent.in_words,
            added_latency=during.compare(calm),
            figures={
                "exchanges/s during it": round(during.sent / during.seconds),
                "came more than once, the same": self.ledger.again,
                **(figures or {}),
            },
        )
        assert sent.whole == len(self.sent), "a client was hurt (R2)"
        assert len(lost) == counted_lost, "spans are lost that nobody counted (R8)"
        assert arrived.keys() <= self.sent, "spans of nobody"
        assert set(arrived.values()) == {1}, "an exchange has two spans (R3)"
        assert not self.ledger.changed, "a span came again and said something else"
        numbers = self.spantap.metrics()
        assert counted_lost or not numbers["spantap_spans_dropped_total"]
        assert numbers["spantap_spans_failed_total"] == 0
        assert "Traceback" not in self.spantap.log

    def _build_load(self, count: int, rate: float, pad_bytes: int, picture_bytes: int = 0) -> Load:
        load = Load(
            port=self.spantap.port,
            prefix=f"load{next(self._numbers)}",
            count=count,
            rate=rate,
            pad_bytes=pad_bytes,
            picture_bytes=picture_bytes,
            noise_bytes=self.noise_bytes,
        )
        self.sent |= build_marks(load)
        return load


@contextmanager
def playing(
    folder: Path,
    upstream: str,
    *,
    tls: ssl.SSLContext | None = None,
    store: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Scene]:
    """A scene whose backend is down; at its end the proxy must end well. The folder is empty."""
    port = find_free_port()
    with running_spantap(
        folder,
        upstream=f"{upstream}/v1",
        endpoint=f"{'https' if tls else 'http'}://127.0.0.1:{port}",
        environment=environment,
        store=store,
    ) as spantap:
        yield Scene(spantap, port, tls)
        assert spantap.terminate() == 0, spantap.log
