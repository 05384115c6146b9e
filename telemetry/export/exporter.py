"""The exporter: reads spans from the store, sends them, and records the result.

It sends the oldest first, one batch at a time, bounded in spans and bytes (R8;
``docs/contract/spans.md#delivery``). A failed try only delays the next one, and there is always a
next one. It delays all spans, so that they stay ordered by age. There is one exception: a span on
which the backend fails while it accepts others delays no other span
(:mod:`telemetry.export.suspicion`).

A refused batch is halved until the refused span is alone. This span is set aside with the backend's
words, and the others are delivered. In this way a backend may receive a span twice, with the same
span id.
"""

from __future__ import annotations

import math
import random
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from telemetry.errors import StoreError
from telemetry.export.delivery import Backoff, Verdict
from telemetry.export.journal import ExportJournal, describe_defect
from telemetry.export.settings import OtlpProtocol
from telemetry.export.suspicion import ALONE_BACKOFF, ALONE_SECONDS, Blame, Suspicion

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from telemetry.export.delivery import Answer, Sender
    from telemetry.export.settings import OtlpSettings
    from telemetry.store.rows import PendingSpan
    from telemetry.store.store import Store

MAX_BATCH_SPANS = 64
"""Spans per request: a refused span is found in some 12 requests, and a lost answer costs no more
than 64 spans sent again."""

MAX_BATCH_BYTES = 3 << 20
"""Bytes per request before compression: a gRPC backend accepts 4 MiB by default
(``docs/contract/spans.md#phoenix-ingest``). A larger single span goes alone."""

GATHER_SECONDS = 0.2
"""The pause after a batch that left nothing pending. The first span after a quiet time is sent at
once, and later ones gather, because a request costs as much CPU as dozens of spans. A hundred calls
a second then share five requests, and a user of the backend sees no difference. While a whole batch
is pending there is no pause."""

_IDLE_SECONDS = 5.0
"""How long an idle exporter sleeps when nobody wakes it."""


def open_sender(settings: OtlpSettings) -> Sender:
    """Open the sender that `settings` ask for; the other one's libraries are not imported."""
    if settings.protocol is OtlpProtocol.GRPC:
        from telemetry.export.grpc_sender import GrpcSender  # noqa: PLC0415 - only when asked for

        return GrpcSender(settings)
    from telemetry.export.http_sender import HttpSender  # noqa: PLC0415 - as above

    return HttpSender(settings)


@dataclass(slots=True)
class ExportCounts:
    """Spans that were delivered and rejected so far, and requests that failed."""

    delivered: int = 0
    rejected: int = 0
    failures: int = 0


class Exporter:
    """Sends what is pending in a store, in a separate thread, which no error ends.

    :meth:`wake` it when spans were added, :meth:`flush` before the end, :meth:`stop` at the end.
    The caller closes the store and the sender, after :meth:`stop`. Any thread may read `counts`.
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
        """Prepare; :meth:`start` begins. `jitter` draws a number from 0 to 1."""
        # Written by the thread alone.
        self._store = store
        self._sender = sender
        self._backoff = backoff or Backoff()
        self._clock_ns = clock_ns
        self._jitter = jitter
        self._journal = ExportJournal(sender.backend, clock_ns)
        self._suspicion = Suspicion(MAX_BATCH_SPANS)
        self._alone_due_ns = 0
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
        """Send spans that were added now, unless a wait after a failure is under way."""
        with self._change:
            self._woken = True
            self._idle = False
            self._change.notify_all()

    def flush(self, deadline_seconds: float) -> int:
        """Send all pending spans at once, even during the wait after a failure.

        Returns:
            How many spans are still pending, after `deadline_seconds` at the latest. They stay in
            the store for its next owner.

        Raises:
            StoreError: the store cannot be read.
        """
        with self._change:
            self._hurried = True
            self.wake()
            if self._thread.is_alive():
                self._change.wait_for(lambda: self._idle or self._stopping, deadline_seconds)
        return self._store.counts().pending

    def stop(self, wait_seconds: float = 1.0) -> None:
        """End the thread; wait for a request under way up to `wait_seconds`.

        The answer of a request that takes longer is lost, and its spans are sent again later.
        """
        with self._change:
            self._stopping = True
            self._change.notify_all()
        if self._thread.is_alive():
            self._thread.join(wait_seconds)

    def step(self) -> float:
        """Send one batch; the thread does this again and again.

        Returns:
            Seconds to wait before the next step: 0 if more may be pending, infinite if nothing is,
            :data:`GATHER_SECONDS` if this batch was all there was.
        """
        try:
            # Spans of a failed try are due when the wait is over, even if somebody changed the wall
            # clock meanwhile.
            now_ns = max(self._clock_ns(), self._due_ns)
            alone = self._read_alone()
            if alone is None or self._failures:
                spans = self._store.read_fresh(MAX_BATCH_SPANS, MAX_BATCH_BYTES)
                if spans is None:
                    spans = self._store.read_due(MAX_BATCH_SPANS, MAX_BATCH_BYTES, now_ns)
                if spans:
                    return self._deliver(spans)
            return math.inf if alone is None else self._deliver_alone(alone)
        except StoreError as error:
            # A thread that outlived its stop finds the store closed: nothing is wrong.
            if not self._stopping:
                self._journal.tell_trouble(str(error))
        except Exception as error:  # noqa: BLE001 - the thread has to live on
            self._journal.tell_trouble(describe_defect(error))
        return self._wait_seconds(None)

    def _run(self) -> None:
        """Export until the end: the body of the thread."""
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

    def _deliver(self, spans: Sequence[PendingSpan]) -> float:
        """Send spans; halve a part that is refused, or on which the backend fails."""
        trial = self._suspicion.begin(spans, self._jitter())
        while trial.parts and not self._stopping:
            part = trial.parts.pop()
            answer = self._send(part)
            if answer.verdict is Verdict.RETRY:
                blame = trial.judge(part, suspect=answer.suspect)
                self._suspicion.note_blame(blame, len(part), suspect=answer.suspect)
                if blame is Blame.BACKEND:
                    return self._wait_for_backend(part, answer)
                if blame is Blame.SPAN:
                    self._put_aside(part[0], answer)
                elif blame is Blame.OPEN:
                    self._store.mark_retry([part[0].seq], self._due_ns, answer.words)
                continue
            trial.note_answer()
            if not self._settle(part, answer):
                trial.halve(part)
        if not trial.failed and not self._stopping:
            self._suspicion.note_success()
        self._note_recovery()
        return 0.0 if _is_whole(spans) else GATHER_SECONDS

    def _read_alone(self) -> PendingSpan | None:
        """Read a span that was put aside, if it is due."""
        now_ns = self._clock_ns()
        # If the clock was put back, they must not wait for it.
        if 0 < self._alone_due_ns - now_ns <= ALONE_SECONDS * 1e9:
            return None
        return self._store.read_alone(now_ns)

    def _deliver_alone(self, span: PendingSpan) -> float:
        """Send a span that was put aside."""
        answer = self._send([span])
        if answer.verdict is not Verdict.RETRY:
            self._settle([span], answer)
            self._note_recovery()
        elif answer.suspect:
            self._alone_due_ns = self._clock_ns() + int(ALONE_SECONDS * 1e9)
            self._put_aside(span, answer)
        else:
            return self._wait_for_backend([span], answer)
        return 0.0

    def _send(self, part: Sequence[PendingSpan]) -> Answer:
        answer = self._sender.send(b"".join(span.span for span in part))
        self.counts.failures += answer.verdict is Verdict.RETRY
        return answer

    def _settle(self, part: Sequence[PendingSpan], answer: Answer) -> bool:
        """Write down what was accepted or refused; false if the part has to be halved."""
        if answer.verdict is Verdict.DELIVERED:
            self._store.mark_delivered([span.seq for span in part])
            self.counts.delivered += len(part)
            self._journal.tell_warning(answer.brief)
            return True
        if len(part) > 1:
            return False
        self._store.mark_rejected([part[0].seq], answer.words)
        self.counts.rejected += 1
        self._journal.tell_rejection(part[0].span_id, answer.brief or answer.words)
        return True

    def _put_aside(self, span: PendingSpan, answer: Answer) -> None:
        """Try a span alone from now on, apart from all others."""
        wait_seconds = ALONE_BACKOFF.wait_seconds(
            span.failed_alone + 1, self._jitter(), answer.retry_after_seconds
        )
        next_try_ns = self._clock_ns() + int(wait_seconds * 1e9)
        self._store.mark_failed_alone(span.seq, next_try_ns, answer.words)
        self._journal.tell_culprit(span.span_id, answer.brief or answer.words)

    def _wait_for_backend(self, part: Sequence[PendingSpan], answer: Answer) -> float:
        """Postpone spans, because the backend failed; return the seconds to wait."""
        self._journal.tell_failure(answer.brief or answer.words)
        wait_seconds = self._wait_seconds(answer.retry_after_seconds)
        self._store.mark_retry([span.seq for span in part], self._due_ns, answer.words)
        return wait_seconds

    def _note_recovery(self) -> None:
        """Note that the backend accepts spans."""
        self._failures = 0
        self._journal.tell_recovery()

    def _wait_seconds(self, asked_seconds: float | None) -> float:
        """Count a failed try; return how long to wait after it."""
        self._failures += 1
        wait_seconds = self._backoff.wait_seconds(self._failures, self._jitter(), asked_seconds)
        self._due_ns = self._clock_ns() + int(wait_seconds * 1e9)
        return wait_seconds


def _is_whole(spans: Sequence[PendingSpan]) -> bool:
    """Tell whether more may be pending; after a small batch that can only be a huge span."""
    size_bytes = sum(len(span.span) for span in spans)
    return len(spans) == MAX_BATCH_SPANS or size_bytes > MAX_BATCH_BYTES // 2
