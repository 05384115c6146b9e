"""Where a call or a tool stands: its place in run and conversation, and the calls beside it.

Everything is read from columns, except the call that this one continues, whose messages say what
is new in it, and the tools whose results it brought.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from openinference.semconv.trace import ToolCallAttributes

from codec.members import string_of
from proxy.reading.call import decode_call
from proxy.reading.growth import find_before, read_growth
from telemetry.finding.where import ALL_CALLS, ALL_ROWS, ask_word
from telemetry.store.calls import is_call

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.reading.call import RecordedCall
    from telemetry.finding.where import Where
    from telemetry.reading.calls import Calls
    from telemetry.store.rows import SpanSummary

MAX_BROUGHT: Final = 100
"""How many tools are looked at that one request may have brought results of."""

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
        before: the call before it; of a tool, the one that called it.
        behind: the call behind it; of a tool, the one that brought its result.
        brought: the rows of the tools whose results it brought, by the ids of their calls.
    """

    run: Position | None = None
    conversation: Position | None = None
    continued: RecordedCall | None = None
    before: SpanSummary | None = None
    behind: SpanSummary | None = None
    brought: Mapping[str, SpanSummary]


NOWHERE: Final = CallPlace(brought={})
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
    if not is_call(columns.kind):
        return CallPlace(
            run=run, conversation=conversation, before=before, behind=behind, brought={}
        )
    continued = _find_continued(reader, call)
    return CallPlace(
        run=run,
        conversation=conversation,
        continued=continued,
        before=before,
        behind=behind,
        brought=_read_brought(reader, row, continued),
    )


def _find(
    reader: Calls, where: Where, number: int, row: SpanSummary
) -> tuple[Position, SpanSummary | None, SpanSummary | None]:
    """Find a position, and the calls before and behind."""
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


def _read_brought(
    reader: Calls, row: SpanSummary, continued: RecordedCall | None
) -> dict[str, SpanSummary]:
    """Read the tools whose results a call brought, or failed calls that it repeats.

    The row of a tool stands behind that of the call.
    """
    if row.columns.conversation is None:
        return {}
    tools = reader.that(
        ALL_ROWS.also(ask_word("kind", "TOOL"), conversation=row.columns.conversation)
    )
    since = row.seq if continued is None else min(row.seq, continued.summary.seq)
    first_ns = row.start_ns if continued is None else continued.summary.end_ns
    rows = [
        one for one in tools.after(since, MAX_BROUGHT) if first_ns <= one.end_ns <= row.start_ns
    ]
    found: dict[str, SpanSummary] = {}
    for stored in tools.with_bytes(rows):
        attributes = decode_call(stored.summary, stored.span).span.attributes
        call_id = string_of(attributes.get(ToolCallAttributes.TOOL_CALL_ID))
        if call_id is not None:
            found[call_id] = stored.summary
    return found
