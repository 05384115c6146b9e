"""The rows of a call that has ended: :meth:`CallRows.tell` makes them all, in one pass.

The steps come in a fixed order, and none goes back to an earlier one: the position of the call in
its conversation, the usage of its run, the span with its price, the columns, and the rows that are
derived from the call, such as those of its run.

A defect costs as little as it can, and never raises (R2). A call whose position, usage, columns or
derived rows fail is recorded without them. A span that cannot be made with its content is made
without it, and says so (R3). What is kept beside it is found last. No log line holds content (R7).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar, TypeVarTuple

from msgspec.structs import replace

from telemetry.conversation_position import ConversationForm
from telemetry.conversations.positions import with_position
from telemetry.conversations.runs import NO_STEP
from telemetry.facts import NO_COLUMNS
from telemetry.observing.observation import OBSERVER_FAILED
from telemetry.recording.attempts import Attempts
from telemetry.recording.pictures import find_pictures
from telemetry.recording.run_rows import NOTHING, Derived, RunRows
from telemetry.recording.span_row import make_row
from telemetry.spans.columns import build_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from telemetry.conversations.conversations import Conversations
    from telemetry.fault_log import FaultLog
    from telemetry.observing.crash_counter import CrashCounter
    from telemetry.observing.exchange import Exchange
    from telemetry.spans.otlp.writer import FinishedSpan
    from telemetry.spans.recorder import SpanRecorder
    from telemetry.spans.rules import SpanRules
    from telemetry.store.rows import SpanRow

_Arguments = TypeVarTuple("_Arguments")
_Made = TypeVar("_Made")
_Otherwise = TypeVar("_Otherwise")


class RecordedCall(NamedTuple):
    """What a call becomes.

    Attributes:
        row: that of its span; ``None`` where it gets no span.
        derived_rows: those of other spans that it brings.
        open_runs: by their numbers the runs that changed, as the store keeps them; ``None`` for one
            that is over.
        cost_usd: its price, also where it gets no span; ``None`` where that is not known.
        cost_basis: ``list`` where a subscription pays, so that it is the list price; else empty.
        lacks_content: a defect cost the span its content.
        is_lost: a defect cost the call its span.
    """

    row: SpanRow | None = None
    derived_rows: tuple[SpanRow, ...] = ()
    open_runs: Mapping[int, bytes | None] = NOTHING.open_runs
    cost_usd: float | None = None
    cost_basis: str = ""
    lacks_content: bool = False
    is_lost: bool = False


class CallRows:
    """Makes the rows of calls. Not safe for concurrent calls.

    Args:
        conversations: finds the position of each call.
        recorder: makes the spans.
        rules: what the settings say about every span.
        crashes: counts how often telemetry died of a call.
        faults: logs defects.
        now_ns: nanoseconds since the epoch.
    """

    def __init__(
        self,
        conversations: Conversations,
        recorder: SpanRecorder,
        rules: SpanRules,
        *,
        crashes: CrashCounter,
        faults: FaultLog,
        now_ns: Callable[[], int],
    ) -> None:
        self._conversations = conversations
        self._recorder = recorder
        self._rules = rules
        self._crashes = crashes
        self._faults = faults
        self._now_ns = now_ns
        self._attempts = Attempts()
        self._run_rows = RunRows(conversations.runs, recorder, rules)
        self._follows = rules.conversations is not ConversationForm.OFF

    def tell(self, exchange: Exchange) -> RecordedCall:
        """Make the rows of an exchange that has ended.

        Args:
            exchange: with the keep-rule that wants its span, where the sampler does not.
        """
        is_wanted = exchange.identity.sampled or exchange.kept_by is not None
        recorded = RecordedCall()
        if is_wanted or self._may_belong(exchange):
            recorded = self._make_possible_rows(exchange)
        if recorded.row is None:
            cost_usd, cost_basis = self._find_price(exchange)
            recorded = recorded._replace(cost_usd=cost_usd, cost_basis=cost_basis)
        return recorded

    def _may_belong(self, exchange: Exchange) -> bool:
        """Tell whether an unsampled call may be of a conversation that is recorded (C14)."""
        return self._follows and exchange.identity.is_root and exchange.request is not None

    def _make_possible_rows(self, exchange: Exchange) -> RecordedCall:
        """Make the rows of a call, with its content unless a defect prevents that."""
        span_id = exchange.identity.span_id
        try:
            with self._crashes.during(span_id, is_large=exchange.is_large):
                recorded = self._make_rows(exchange)
            self._crashes.forget(span_id)
        except Exception as error:  # noqa: BLE001 - a defect never raises
            self._faults.tell(error, "a span lacks its content")
            return self._make_bare_rows(exchange)
        return recorded

    def _make_rows(self, exchange: Exchange) -> RecordedCall:
        exchange = self._attempts.with_attempt_before(exchange)
        followed = None
        if self._follows:
            follow = self._conversations.follow
            followed = self._try("a call has no conversation", None, follow, exchange)
        if followed is not None:
            position = followed.position
            if (run := followed.step.run) is not None:
                add, fault = self._run_rows.add_usage, "a run lacks its usage"
                position = self._try(fault, position, add, run, followed, exchange)
            exchange = self._rules.keep.apply(with_position(exchange, position, followed.request))
        span = self._recorder.record(exchange)
        if span is None:
            return RecordedCall()
        self._attempts.note(exchange)
        columns = self._try("a call lacks its columns", NO_COLUMNS, build_columns, exchange, span)
        row = make_row(exchange, span, columns, self._now_ns())
        find, fault = find_pictures, "a call lacks its pictures"
        if pictures := self._try(fault, (), find, exchange, span, self._rules):
            row = replace(row, pictures=pictures)
        if exchange.raw is not None:
            row = replace(row, raw=self._find_raw(exchange, span))
        derived = NOTHING
        if followed is not None and not (followed.step is NO_STEP and followed.unmarked is None):
            derive = self._run_rows.derive
            derived = self._try("a run lacks spans", NOTHING, derive, followed, exchange, span, row)
        basis = columns.cost_basis or ""
        return RecordedCall(row, derived.rows, derived.open_runs, columns.cost_usd, basis)

    def _find_raw(self, exchange: Exchange, span: FinishedSpan) -> bytes | None:
        from telemetry.recording.raw_answer import find_raw_answer  # noqa: PLC0415 - most keep none

        fault = "a call lacks its raw answer"
        return self._try(fault, None, find_raw_answer, exchange, span, self._rules)

    def _make_bare_rows(self, exchange: Exchange) -> RecordedCall:
        """Make the row of a span without all that the client and the provider had to say."""
        try:
            recorded = self._make_rows(exchange.without_content(OBSERVER_FAILED))
        except Exception as error:  # noqa: BLE001 - a defect never raises
            self._faults.tell(error, "a span was lost")
            recorded = RecordedCall(is_lost=True)
        return recorded._replace(lacks_content=True)

    def _find_price(self, exchange: Exchange) -> tuple[float | None, str]:
        """Find what a call without a span cost, and the basis of that."""
        pricing = self._rules.pricing
        if pricing is None:
            return None, ""
        cost = self._try("a call is not in the metrics", None, pricing.price, exchange)
        return (None, "") if cost is None else (cost.total, cost.basis or "")

    def end_rested_runs(self) -> Iterator[Derived]:
        """Yield the rows of each run that rested too long, or that is one too many."""
        if not self._follows:
            return
        self._conversations.begin()  # the open runs of a former process end, too
        if self._recorder.is_disabled:
            return
        now_ns = self._now_ns()
        for ended in self._conversations.runs.list_rested():
            end = self._run_rows.end
            derived = self._try("a run lacks its span", None, end, ended, now_ns)
            if derived is not None:
                yield derived

    def forget_runs(self, numbers: Collection[int]) -> None:
        """Forget runs of which somebody deleted a span."""
        for number in numbers:
            self._conversations.runs.forget(number)

    def _try(
        self,
        fault: str,
        otherwise: _Otherwise,
        step: Callable[[*_Arguments], _Made],
        *args: *_Arguments,
    ) -> _Made | _Otherwise:
        """Take a step; log the fault where it fails, and return something else."""
        try:
            return step(*args)
        except Exception as error:  # noqa: BLE001 - a defect costs the step's result alone
            self._faults.tell(error, fault)
            return otherwise
