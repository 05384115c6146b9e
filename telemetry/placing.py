"""The place of each call, and the rows of its run: a defect in either costs no call its span.

Rules:

1. Nothing raises but what the store does: a call without a place is recorded as if it stood alone,
   and a fault is told (R2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from telemetry.call_place import ConversationForm
from telemetry.conversations.runs import NO_STEP
from telemetry.recording.run_rows import NOTHING, RunRows

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from telemetry.call_place import CallPlace
    from telemetry.conversations.conversations import Conversations, Followed
    from telemetry.fault_log import FaultLog
    from telemetry.observing.exchange import Exchange
    from telemetry.recording.run_rows import Derived
    from telemetry.spans.otlp.writer import FinishedSpan
    from telemetry.spans.recorder import SpanRecorder
    from telemetry.spans.rules import SpanRules
    from telemetry.store.rows import SpanRow


class Placing:
    """Finds places, and makes the rows of runs.

    Args:
        conversations: know the calls before.
        recorder: makes the spans.
        rules: what the settings say about every span.
        faults: are told there.
    """

    def __init__(
        self,
        conversations: Conversations,
        recorder: SpanRecorder,
        rules: SpanRules,
        faults: FaultLog,
    ) -> None:
        self._conversations = conversations
        self._run_rows = RunRows(conversations.runs, recorder, rules)
        self._is_off = rules.conversations is ConversationForm.OFF
        self._is_disabled = recorder.is_disabled
        self._faults = faults

    def follow(self, exchange: Exchange) -> Followed | None:
        """Find the place of an exchange in a conversation; ``None`` where that is not known."""
        if self._is_off:
            return None
        try:
            return self._conversations.follow(exchange)
        except Exception as error:  # noqa: BLE001 - rule 1
            self._faults.tell(error, "a call has no conversation")
            return None

    def use(self, followed: Followed, exchange: Exchange) -> CallPlace:
        """Return the place of a call, with what it says of its run's usage."""
        try:
            return self._run_rows.use(followed, exchange)
        except Exception as error:  # noqa: BLE001 - rule 1
            self._faults.tell(error, "a run lacks its usage")
            return followed.place

    def derive(
        self, followed: Followed, exchange: Exchange, span: FinishedSpan, row: SpanRow
    ) -> Derived:
        """Make what a call brings besides its own row."""
        if followed.step is NO_STEP and followed.unmarked is None:  # most calls
            return NOTHING
        try:
            return self._run_rows.derive(followed, exchange, span, row, row.recorded_ns)
        except Exception as error:  # noqa: BLE001 - rule 1
            self._faults.tell(error, "a run lacks spans")
            return NOTHING

    def end_rested(self, now_ns: int) -> Iterator[Derived]:
        """Yield the rows of each run to which nothing came for long, or that is one too many."""
        if self._is_disabled:
            return
        for ended in self._conversations.runs.list_rested():
            try:
                yield self._run_rows.end(ended, now_ns)
            except Exception as error:  # noqa: BLE001 - rule 1
                self._faults.tell(error, "a run lacks its span")

    def forget(self, numbers: Collection[int]) -> None:
        """Forget runs of which somebody deleted a span."""
        for number in numbers:
            self._conversations.runs.forget(number)
