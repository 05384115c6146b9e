"""The exporter: takes spans out of the store, sends them, and writes down what became of them.

Rules (R8; ``span-contract.md`` section 8, "Consequences"):

1. Oldest first, one batch at a time, bounded in spans and bytes.
2. A failed try changes nothing but the time of the next one, and there is always a next one. The
   wait holds for the backend, not for single spans, so that their order of age is kept.
3. A refused batch is halved until the refused span is alone; that one is set aside with the
   backend's words, the others are delivered. Those that the backend had taken come to it again,
   under the same span id.
4. A backend that begins to fail is one line in the log, one that recovers another, whatever the
   number of tries; a backend that flaps gets no more than a pair of them per minute.
5. Nothing is raised to anybody: trouble with the store or a defect of ours waits like a failed
   try, and the thread lives on.
"""

from __future__ import annotations

import logging
import math
import random
import threading
import time
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING

from telemetry.delivery import Backoff, Verdict
from telemetry.errors import StoreError
from telemetry.otlp_settings import OtlpProtocol
from telemetry.rate_limit import RateLimit

if TYPE_CHECKING:
    from collections.abc import Callable

    from telemetry.delivery import Sender
    from telemetry.otlp_settings import OtlpSettings
    from telemetry.store import Store
    from telemetry.store_rows import PendingSpan

__all__ = ("MAX_BATCH_BYTES", "MAX_BATCH_SPANS", "ExportCounts", "Exporter", "open_sender")

MAX_BATCH_SPANS = 64
"""Spans per request: a refused batch is found out in some 12 requests, and a lost answer costs no
more than so many spans sent again."""

MAX_BATCH_BYTES = 3 << 20
"""Bytes per request before compression: a gRPC backend takes 4 MiB unless told otherwise
(``span-contract.md`` 5.2). A larger single span goes alone."""

_IDLE_SECONDS = 5.0
"""How long an idle exporter sleeps when nobody wakes it."""

_OUTAGE_LOG_SECONDS = 600.0
"""Between two log lines about one outage: whoever looks at today's log alone shall see it."""

_LOG_SECONDS = 60.0
"""At most one line of a kind in this time (rule 4)."""

_logger = logging.getLogger("spantap.exporter")


def open_sender(settings: OtlpSettings) -> Sender:
    """The sender that `settings` ask for; the libraries of the other one are not imported."""
    if settings.protocol is OtlpProtocol.GRPC:
        from telemetry.grpc_sender import GrpcSender  # noqa: PLC0415 - only when asked for

        return GrpcSender(settings)
    from telemetry.http_sender import HttpSender  # noqa: PLC0415 - as above

    return HttpSender(settings)


@dataclass(slots=True)
class ExportCounts:
    """What happened so far.

    Attributes:
        delivered: spans that the backend took.
        rejected: spans that it refused, one by one.
        failures: requests that it did not take, to be tried again.
    """

    delivered: int = 0
    rejected: int = 0
    failures: int = 0


class Exporter:
    """Sends what is pending in a store, in a thread of its own.

    :meth:`wake` it when spans were added, :meth:`flush` before the end, :meth:`stop` at the end.
    The store and the sender stay the caller's to close, after :meth:`stop`.

    Attributes:
        counts: any thread may read them.
    """

    def __init__(
        self,
        store: Store,
        sender: Sender,
        *,
        backoff: Backoff | None = None,
        clock_ns: Callable[[], int] = time.time_ns,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """Prepare; :meth:`start` begins.

        Args:
            store: where spans are.
            sender: how they reach the backend.
            backoff: how long to wait after failed tries.
            clock_ns: nanoseconds since the epoch.
            jitter: draws a number from 0 to 1.
        """
        # Written by the thread alone.
        self._store = store
        self._sender = sender
        self._backoff = backoff or Backoff()
        self._clock_ns = clock_ns
        self._jitter = jitter
        self._journal = _Journal(sender.backend, clock_ns)
        self._failures = 0
        self._due_ns = 0
        self.counts = ExportCounts()
        # Guarded by the condition.
        self._change = threading.Condition()
        self._woken = False
        self._hurried = False
        self._stopping = False
        self._idle = False
        self._thread = threading.Thread(target=self._run, name="spantap-exporter", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def wake(self) -> None:
        """Spans were added: send them now, unless the backend is being waited for."""
        with self._change:
            self._woken = True
            self._idle = False
            self._change.notify_all()

    def flush(self, deadline_seconds: float) -> int:
        """Send all that is pending, at once even if the backend is being waited for.

        Returns:
            How many spans are pending when nothing is left or `deadline_seconds` have passed. They
            stay in the store for its next owner.

        Raises:
            StoreError: the store cannot be read.
        """
        with self._change:
            self._hurried = True
            self._woken = True
            self._idle = False
            self._change.notify_all()
            if self._thread.is_alive():
                self._change.wait_for(lambda: self._idle or self._stopping, deadline_seconds)
        return self._store.counts().pending

    def stop(self, wait_seconds: float = 1.0) -> None:
        """End the thread; a request under way is waited for up to `wait_seconds`.

        The answer of a request that takes longer is lost, and its spans are sent again later.
        """
        with self._change:
            self._stopping = True
            self._change.notify_all()
        if self._thread.is_alive():
            self._thread.join(wait_seconds)

    def step(self) -> float:
        """Take one batch and see it through.

        The thread lives on this; call it yourself only where none was started.

        Returns:
            Seconds to wait before the next step: 0 where more may be pending, infinite where
            nothing is.
        """
        try:
            # What a failed try made wait is due when that wait is over, whatever has become of the
            # wall clock meanwhile.
            now_ns = max(self._clock_ns(), self._due_ns)
            spans = self._store.take(MAX_BATCH_SPANS, MAX_BATCH_BYTES, now_ns)
            return self._deliver(spans) if spans else math.inf
        except StoreError as error:
            # A thread that outlived its stop finds the store closed: that is no trouble.
            if not self._stopping:
                self._journal.tell_trouble(str(error))
        except Exception as error:  # noqa: BLE001 - rule 5
            # Its text may hold a credential that a library was given (R7); the place says enough.
            place = traceback.extract_tb(error.__traceback__)[-1]
            self._journal.tell_trouble(
                f"{type(error).__name__} in {place.name}, {place.filename}:{place.lineno}"
            )
        return self._wait_seconds(None)

    def _run(self) -> None:
        """The life of the thread."""
        while not self._stopping:
            with self._change:
                self._woken = False
            wait_seconds = self.step()
            with self._change:
                if math.isinf(wait_seconds) and not self._woken:
                    self._idle = True
                    self._change.notify_all()
                    self._change.wait_for(lambda: self._woken or self._stopping, _IDLE_SECONDS)
                elif 0 < wait_seconds < math.inf:
                    self._change.wait_for(lambda: self._hurried or self._stopping, wait_seconds)
                self._hurried = False

    def _deliver(self, spans: list[PendingSpan]) -> float:
        """Send `spans`, halving what is refused (rule 3)."""
        parts = [spans]
        while parts and not self._stopping:
            part = parts.pop()
            seqs = [span.seq for span in part]
            answer = self._sender.send(b"".join(span.span for span in part))
            if answer.verdict is Verdict.RETRY:
                self.counts.failures += 1
                self._journal.tell_failure(answer.brief or answer.words)
                wait_seconds = self._wait_seconds(answer.retry_after_seconds)
                self._store.mark_retry(seqs, self._due_ns, answer.words)
                return wait_seconds
            self._failures = 0
            self._journal.tell_recovery()
            if answer.verdict is Verdict.DELIVERED:
                self._store.mark_delivered(seqs)
                self.counts.delivered += len(part)
                self._journal.tell_warning(answer.brief)
            elif len(part) == 1:
                self._store.mark_rejected(seqs, answer.words)
                self.counts.rejected += 1
                self._journal.tell_rejection(part[0].span_id, answer.brief or answer.words)
            else:
                middle = len(part) // 2
                parts += [part[middle:], part[:middle]]
        return 0.0

    def _wait_seconds(self, asked_seconds: float | None) -> float:
        """Count a failed try; how long to wait after it."""
        self._failures += 1
        wait_seconds = self._backoff.wait_seconds(self._failures, self._jitter(), asked_seconds)
        self._due_ns = self._clock_ns() + int(wait_seconds * 1e9)
        return wait_seconds


class _Journal:
    """What the exporter says in the log, and how often (rule 4)."""

    def __init__(self, backend: str, clock_ns: Callable[[], int]) -> None:
        self._backend = backend
        self._failure_lines, self._rejection_lines, self._warning_lines, self._trouble_lines = (
            RateLimit(clock_ns, interval_seconds=_LOG_SECONDS) for _ in range(4)
        )
        self._outage_lines = RateLimit(clock_ns, interval_seconds=_OUTAGE_LOG_SECONDS)
        self._failures = 0
        self._failure_told = False

    def tell_failure(self, words: str) -> None:
        """A try failed because of `words`."""
        self._failures += 1
        if self._failure_told:
            if self._outage_lines.admit() is not None:
                _logger.warning(
                    "%s still takes no spans (%s), after %d tries; `spantap check` tells more",
                    self._backend,
                    words,
                    self._failures,
                )
        elif self._failure_lines.admit() is not None:
            self._failure_told = True
            self._outage_lines.admit()
            _logger.warning(
                "%s takes no spans (%s); they wait in the store and are sent when it does",
                self._backend,
                words,
            )

    def tell_recovery(self) -> None:
        """A try did not fail."""
        if self._failure_told:
            _logger.info(
                "%s takes spans again, after %d failed tries", self._backend, self._failures
            )
        self._failures = 0
        self._failure_told = False

    def tell_rejection(self, span_id: str, words: str) -> None:
        """The backend refused one span."""
        untold = self._rejection_lines.admit()
        if untold is not None:
            _logger.warning(
                "%s refused span %s (%s); it is set aside, `spantap traces show` has its words; "
                "%d in all since the last such line",
                self._backend,
                span_id,
                words,
                untold + 1,
            )

    def tell_warning(self, words: str) -> None:
        """The backend took everything, with `words`; nothing where they are empty."""
        if words and self._warning_lines.admit() is not None:
            _logger.warning("%s took the spans %s", self._backend, words)

    def tell_trouble(self, words: str) -> None:
        """Something on our side went wrong."""
        if self._trouble_lines.admit() is not None:
            _logger.error("spans cannot be exported, the next try follows: %s", words)
