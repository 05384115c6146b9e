"""Where a call or a tool stands: its place in run and conversation, and the calls beside it.

The call that this one continues is read whole, because its messages say what is new in this one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy.reading.failures import describe_failures, has_row_failed
from proxy.reading.growth import find_before, read_growth
from proxy.reading.tool_results import read_failed_beside
from telemetry.finding.where import ALL_CALLS
from telemetry.store.calls import is_call

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from proxy.reading.call import RecordedCall
    from proxy.reading.failures import Failure
    from telemetry.finding.where import Where
    from telemetry.reading.calls import Calls
    from telemetry.store.rows import SpanSummary

MAX_FAILED: Final = 10
"""How many failed calls in a row are passed over: clients try a few times."""


class Position(NamedTuple):
    """The position of a call among the calls of its run, or of its conversation.

    Attributes:
        number: of the run or the conversation.
        at: from 1; of a tool, how many calls stand before it.
        calls: how many there are.
    """

    number: int
    at: int
    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPlace:
    """Where a row stands.

    Attributes:
        run: ``None`` if it belongs to none.
        conversation: ``None`` if it belongs to none.
        continued: the call whose messages it has; ``None`` if it continues none. A call that only
            failed is passed over, because this one repeats its request.
        before: the call before it; of a tool, the one whose answer called it.
        behind: the call after it; of a tool, the one that brought its result.
        failed: the results of failed tools among its messages
            (:func:`~proxy.reading.tool_results.read_failed`); ``None`` if they are not known.
        failure: what is known of a call or a tool that failed.
    """

    run: Position | None = None
    conversation: Position | None = None
    continued: RecordedCall | None = None
    before: SpanSummary | None = None
    behind: SpanSummary | None = None
    failed: Mapping[str, Sequence[str]] | None = None
    failure: Failure | None = None


NOWHERE: Final = CallPlace()
"""The place of a call of which nothing else is known."""


def read_place(reader: Calls, call: RecordedCall) -> CallPlace:
    """Read where a call stands, or another row.

    Raises:
        StoreError: the store cannot be read.
    """
    row, columns = call.summary, call.summary.columns
    before = behind = run = conversation = None
    # Calls of the same run come first, because helper calls may stand between them.
    if columns.conversation is not None:
        of_it = ALL_CALLS.also(conversation=columns.conversation)
        conversation, before, behind = _find(reader, of_it, columns.conversation, row)
    if columns.run is not None:
        of_it = ALL_CALLS.also(run=columns.run)
        run, nearer, further = _find(reader, of_it, columns.run, row)
        before, behind = nearer or before, further or behind
    has_place = run is not None or conversation is not None
    return CallPlace(
        run=run,
        conversation=conversation,
        continued=_find_continued(reader, call) if is_call(columns.kind) else None,
        before=before,
        behind=behind,
        failed=read_failed_beside(reader, row) if is_call(columns.kind) else None,
        failure=describe_failures(reader, [row])[0] if has_place and has_row_failed(row) else None,
    )


def _find(
    reader: Calls, where: Where, number: int, row: SpanSummary
) -> tuple[Position, SpanSummary | None, SpanSummary | None]:
    """Find a position, and the calls before and after it."""
    calls = reader.that(where)
    beside = calls.beside(row.seq)
    before, behind = beside.before, beside.behind
    # The row of a tool is recorded just after the call that brought its result.
    if row.columns.kind == "TOOL" and before is not None and before.start_ns >= row.end_ns:
        behind = before
        before = calls.beside(before.seq).before
    return Position(number, beside.position, beside.calls), before, behind


def _find_continued(reader: Calls, call: RecordedCall) -> RecordedCall | None:
    """Find the call whose messages a call has, and which the model answered."""
    found = find_before(reader, call)
    for _ in range(MAX_FAILED):
        if found is None or found.summary.status != "ERROR":
            break
        if read_growth(call, found).added_from < len(call.input_messages):
            break
        found = find_before(reader, found)
    return found
