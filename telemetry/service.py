"""The observing half as one object, from frames to stored spans, without threads or sockets.

:class:`TelemetryService` takes frames, has :mod:`telemetry.recording` make rows of each call that
has ended, and commits these in batches. Nothing that comes in a frame, and no failure of the store,
raises out of it (R2). Log lines hold no content (R7), and are rare (:mod:`telemetry.fault_log`).

Spans that the store does not accept wait in memory, up to
:data:`~telemetry.waiting_rows.MAX_WAITING_BYTES`. Past that the oldest are dropped and counted
(R5).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from telemetry.conversations.conversations import Conversations
from telemetry.errors import StoreError
from telemetry.fault_log import FaultLog
from telemetry.metrics.registry import MetricsRegistry
from telemetry.news.reporter import LOOK_SECONDS, Reporter
from telemetry.observing.call_ordering import CallOrdering
from telemetry.observing.crash_counter import CrashCounter
from telemetry.observing.encryption import OWN_CIPHER
from telemetry.observing.exchange_metrics import ExchangeMetrics
from telemetry.observing.observation import OBSERVER_DIED
from telemetry.observing.observer import Observer
from telemetry.observing.open_bodies import OpenBodies
from telemetry.observing.source import FrameSource, Receipt
from telemetry.rate_limit import RateLimit
from telemetry.recording.call_rows import CallRows
from telemetry.spans.open_calls import tell_open
from telemetry.spans.rules import SpanRules
from telemetry.waiting_rows import Waiting, WaitingRows, join_open_runs, split_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from telemetry.frames.frame import Frame
    from telemetry.observing.encryption import Cipher
    from telemetry.observing.exchange import Exchange
    from telemetry.observing.observation import Observation
    from telemetry.observing.open_call import OpenCall
    from telemetry.recording.call_rows import RecordedCall
    from telemetry.spans.recorder import SpanRecorder
    from telemetry.store.store import Store

_log = logging.getLogger("spantap.telemetry")

PRUNE_SECONDS = 1.0
"""The time between two looks at the store's size and age limits, if the last one left nothing to
do."""


@dataclass(slots=True)
class ServiceCounts:
    """What happened so far, in numbers.

    Attributes:
        recorded: spans committed to the store.
        failed: exchanges whose span lacks its content, or does not exist, because of a defect.
        dropped: spans given up because the store did not accept them in time.
        lost: spans that do not exist because of a defect.
    """

    recorded: int = 0
    failed: int = 0
    dropped: int = 0
    lost: int = 0


class TelemetryService:
    """Takes frames and commits spans. Not safe for concurrent calls, nor are its sources.

    The caller calls :meth:`commit_calls` often enough to keep R8's 50 ms, and :meth:`commit` now
    and then.

    Args:
        recorder: makes the spans.
        store: stores them.
        rules: what the settings say about every span.
        metrics: where every exchange is counted.
        crashes: counts how often telemetry died of an exchange; nothing is remembered without it.
        now_ns: nanoseconds since the epoch.
        steady_ns: the same by a clock that never steps; `now_ns` if not given.
        on_stored: called after a commit that added spans.
        cipher: decrypts what may be credentials in frames.

    Attributes:
        counts: what happened so far.
        reporter: gets news of calls as long as somebody watches; ``None`` while nobody does.
        conversations: finds the positions of calls.
        ordering: holds back the calls of sources after a start.
    """

    def __init__(
        self,
        recorder: SpanRecorder,
        store: Store,
        *,
        rules: SpanRules | None = None,
        metrics: MetricsRegistry | None = None,
        crashes: CrashCounter | None = None,
        now_ns: Callable[[], int],
        steady_ns: Callable[[], int] | None = None,
        on_stored: Callable[[], None] = lambda: None,
        cipher: Cipher = OWN_CIPHER,
    ) -> None:
        self._cipher = cipher
        self._rules = rules = rules or SpanRules()
        redaction = rules.redaction
        self._metrics = ExchangeMetrics(
            metrics or MetricsRegistry(now_ns=now_ns),
            redact=redaction.redact_text if redaction is not None else None,
        )
        self._bodies = OpenBodies()
        self.conversations = Conversations(
            store.last_conversation,
            store.read_kept_calls,
            max_calls=rules.remembered_calls,
            run_idle_ns=rules.run_idle_ns,
            steady_ns=steady_ns or now_ns,
            keeps=not rules.hides_content,
        )
        self._crashes = crashes or CrashCounter()
        self.ordering = CallOrdering(self._record)
        self._own = self.open_source()
        self._store = store
        self._now_ns = now_ns
        self._on_stored = on_stored
        self._faults = FaultLog(now_ns)
        self._call_rows = CallRows(
            self.conversations,
            recorder,
            rules,
            crashes=self._crashes,
            faults=self._faults,
            now_ns=now_ns,
        )
        self._waiting = WaitingRows()
        self._store_fails = False
        self._prunings = RateLimit(now_ns, interval_seconds=PRUNE_SECONDS)
        self._more_to_prune = False
        self.counts = ServiceCounts()
        self.reporter: Reporter | None = None
        self._looks = RateLimit(steady_ns or now_ns, interval_seconds=LOOK_SECONDS)

    @property
    def held_bytes(self) -> int:
        """The bytes held of the bodies of open calls; any thread may ask."""
        return self._bodies.held_bytes

    @property
    def waiting(self) -> int:
        """The number of spans that wait in memory for the store; any thread may ask."""
        return self._waiting.spans

    @property
    def has_room(self) -> bool:
        """Whether the store keeps up, so that frames may come that need not come now."""
        return not (self._waiting.is_due or self._store_fails)

    def open_source(self) -> FrameSource:
        """Open a source for another worker's frames."""
        rules = self._rules
        capture_raw = None
        if rules.keeps_raw_answers:
            from telemetry.observing.raw_answer import RawCapture  # noqa: PLC0415 - most keep none

            capture_raw = RawCapture
        observer = Observer(
            self._note_failure,
            header_map=rules.headers,
            allowed_fields=rules.allowed_fields,
            hides_inputs=rules.hides_bodies,
            keeps_pictures=rules.keeps_made_pictures,
            keeps_sound=rules.websocket_audio,
            capture_raw=capture_raw,
            bodies=self._bodies,
            cipher=self._cipher,
            crashes=self._crashes,
            on_end=self._note_end,
        )
        return FrameSource(observer, self.ordering.take, self._note_unread)

    def tell_open(self, sources: Iterable[FrameSource]) -> list[OpenCall]:
        """List the calls that are open in these sources, oldest first; any thread may ask."""
        exchanges = [exchange for source in sources for exchange in source.look()]
        calls = [tell_open(exchange, self._rules) for exchange in exchanges]
        return sorted((call for call in calls if call is not None), key=attrgetter("start_ns"))

    def report_to(self, sources: Callable[[], Iterable[FrameSource]]) -> Reporter:
        """Make a reporter of the calls in these sources, and of what becomes of them."""

        def begin(reporter: Reporter | None) -> None:
            self.reporter = reporter

        return Reporter(sources, self._rules, self._store.last_seq, begin)

    def _note_end(self, observation: Observation) -> None:
        if self.reporter is not None:
            self._report(self.reporter.note_end, observation)

    def _report(self, report: Callable[..., None], *news: object) -> None:
        """Report something to those who watch; if that fails, they miss it."""
        try:
            report(*news)
        except Exception as error:  # noqa: BLE001 - nothing raises out of here
            self._faults.tell(error, "watchers miss a call")

    def feed(self, frame: Frame) -> None:
        """Take a frame of this process, which is not acknowledged."""
        self._own.feed(frame)
        self._own.pop_acks()

    def _record(self, exchange: Exchange, receipt: Receipt | None) -> None:
        """Make the rows of an exchange that has ended; they wait for the next commit."""
        exchange = self._rules.keep.apply(exchange)
        if OBSERVER_DIED in exchange.anomalies:
            self.counts.failed += 1
            self._faults.say("a span lacks its bodies: telemetry died of them twice")
        recorded = self._call_rows.tell(exchange)
        if recorded.lacks_content:
            self.counts.failed += 1
            self.counts.lost += recorded.is_lost
        self._count(exchange, recorded)
        row = recorded.row
        if self.reporter is not None:
            self._report(self.reporter.end, exchange.identity.span_id, row)
        if row is not None:
            self._wait(Waiting((row, *recorded.derived_rows), recorded.open_runs, receipt))
        elif receipt is not None:
            receipt.settle()

    def _count(self, exchange: Exchange, recorded: RecordedCall) -> None:
        """Count a call and what it cost, even if it gets no span."""
        self._measure(self._metrics.record, exchange)
        if recorded.cost_usd is not None:
            basis = recorded.cost_basis
            self._measure(self._metrics.record_cost, exchange, recorded.cost_usd, basis)

    def _measure(self, record: Callable[..., None], *measured: object) -> None:
        """Record metrics of a call; if that fails, other metrics are still recorded."""
        try:
            record(*measured)
        except Exception as error:  # noqa: BLE001 - nothing raises out of here
            self._faults.tell(error, "a call is not in the metrics")

    def commit_calls(self) -> None:
        """Put what waits into the store, without the other work of :meth:`commit`."""
        self._try(self._forget_deleted, self._commit_waiting)

    def commit(self) -> None:
        """Put what waits into the store, end runs, and keep the store's limits now and then."""
        # Pruning comes even if committing fails: it may make the room that was missing.
        self._try(self._forget_deleted, self._end_runs, self._commit_waiting, self._prune)
        if self.reporter is not None:
            looks = self._looks.admit() is not None
            self._report(self.reporter.look if looks else self.reporter.send)

    def _try(self, *steps: Callable[[], None]) -> None:
        """Take all steps, even if one fails, and note whether the store works."""
        failure: str | None = None  # not the error, whose traceback would hold the batch
        for step in steps:
            try:
                step()
            except StoreError as error:
                failure = failure or str(error)
            except Exception as error:  # noqa: BLE001 - nothing raises out of here
                self._faults.tell(error, "the store is not looked after")
        self._note_store(failure)

    def _note_store(self, failure: str | None) -> None:
        """Log when the store begins to fail, and when it works again."""
        if failure is not None:
            if not self._store_fails and self._faults.may_say("store fails"):
                _log.error("spans wait in memory: %s", failure)
        elif self._store_fails and self._faults.may_say("store recovers"):
            _log.warning(
                "the store accepts spans again; %d were dropped so far", self.counts.dropped
            )
        self._store_fails = failure is not None

    def _forget_deleted(self) -> None:
        """Forget the runs of which somebody deleted spans: they do not continue."""
        if deleted := self._store.pop_deleted_runs():
            self._call_rows.forget_runs(deleted)
            self._waiting.forget_runs(deleted)

    def _end_runs(self) -> None:
        """Queue the spans of runs that rested too long."""
        if not self.ordering.is_holding:
            for derived in self._call_rows.end_rested_runs():
                self._waiting.add(Waiting(derived.rows, derived.open_runs, None))

    def _commit_waiting(self) -> None:
        """Commit everything that waits.

        Raises:
            StoreError: not everything could be committed; the rest waits.
        """
        while self._waiting:
            batch = self._waiting.choose_batch()
            self._add(batch)
            self._waiting.settle(batch)
            self._on_stored()
            if self.reporter is not None:
                self._report(self.reporter.commit, [row for entry in batch for row in entry.rows])

    def _wait(self, entry: Waiting) -> None:
        """Queue rows for the next commit, which may be due at once."""
        self._waiting.add(entry)
        if self._waiting.is_due and not self._store_fails:
            self.commit()
        self.counts.dropped += self._waiting.drop_surplus()

    def _add(self, batch: Sequence[Waiting]) -> None:
        """Add rows. One that makes the store fail unexpectedly is given up, and the others are not.

        The rows of a call are separated only if one of them is the bad one.

        Raises:
            StoreError: not all rows were added.
        """
        rows = [row for entry in batch for row in entry.rows]
        try:
            self.counts.recorded += self._store.add(rows, join_open_runs(batch))
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - nothing raises out of here
            if len(rows) <= 1:
                self.counts.failed += 1
                self.counts.lost += len(rows)
                self._faults.tell(error, "a span was lost")
                return
            for part in split_batch(batch):
                self._add((part,))

    def _prune(self) -> None:
        """Prune one step at a time, because frames are waiting and the next commit is soon."""
        if self._more_to_prune or self._prunings.admit() is not None:
            self._more_to_prune = False  # after a step that fails the next one waits for its turn
            self._more_to_prune = self._store.prune(self._now_ns()).more

    def _note_unread(self) -> None:
        if self._faults.may_say("unread WebSocket"):
            _log.warning("a WebSocket cannot be read any more: its further calls have no spans")

    def _note_failure(self, error: Exception) -> None:
        self.counts.failed += 1
        self._faults.tell(error, "a span lacks its content")
