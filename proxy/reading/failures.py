"""Steps that failed: the tool or the call, the first line of its error, and what corrected it.

A later step corrects a failed one if it does the same and succeeds: the same tool with the same
telling argument, such as ``Bash pytest``, or the next call of the run. A later success of the same
tool with another argument is named, too, but nobody knows whether it was another try.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from proxy.reading.call import decode_call
from proxy.reading.spent_time import is_step
from proxy.reading.tool_results import summarize_error
from telemetry.facts import tell_what
from telemetry.finding.where import ALL_ROWS
from telemetry.reading.engine import LAST_SEQ
from telemetry.store.calls import is_call

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from telemetry.reading.calls import Calls
    from telemetry.store.rows import SpanSummary

LATER_ROWS: Final = 500
"""How many rows of the conversation behind a failed one are searched for a correction, or more."""

MOST_ROWS: Final = 5_000
"""How many rows are read beside failed ones before no further conversation is begun."""

_ROWS_BEFORE: Final = 200
"""How many numbers before a failed row its call is looked for."""

_SLACK_NS: Final = 1_000_000
"""A tool begins when the answer ends that calls it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A step that failed.

    Attributes:
        row: the tool or the call.
        caller: the call whose answer called the tool, ``None`` if that is not known; of a call, the
            call itself.
        error: the first line of the error.
        corrected_by: the later step that succeeded; ``None`` if there is none.
        is_same: it does the same as the failed one.
    """

    row: SpanSummary
    caller: SpanSummary | None
    error: str | None
    corrected_by: SpanSummary | None
    is_same: bool


def has_row_failed(row: SpanSummary) -> bool:
    """Tell whether a row is a tool or a call that failed."""
    return row.status == "ERROR" and is_step(row)


def describe_failures(reader: Calls, failed: Sequence[SpanSummary]) -> list[Failure]:
    """Describe failed steps, in their order: all, or the first ones if that is much to read."""
    beside = _read_beside(reader, failed)
    failed = [*takewhile(lambda row: _number(row) in beside, failed)]
    errors = {
        stored.summary.seq: _read_error(stored.summary, stored.span)
        for stored in reader.with_bytes(failed)
    }
    found: list[Failure] = []
    for row in failed:
        rows = beside[_number(row)]
        corrected_by, is_same = _find_correction(row, rows)
        found.append(
            Failure(
                row=row,
                caller=_find_caller(row, rows),
                error=errors.get(row.seq),
                corrected_by=corrected_by,
                is_same=is_same,
            )
        )
    return found


def _read_beside(
    reader: Calls, failed: Iterable[SpanSummary]
) -> dict[int | None, list[SpanSummary]]:
    """Read the rows beside failed ones, oldest first, by the number of their conversation."""
    seqs: dict[int | None, list[int]] = {}
    for row in failed:
        seqs.setdefault(_number(row), []).append(row.seq)
    found: dict[int | None, list[SpanSummary]] = {None: []}
    read_count = 0
    for number, failed_seqs in seqs.items():
        if number is None:
            continue
        if read_count >= MOST_ROWS:
            break
        beside = reader.that(ALL_ROWS.also(conversation=number))
        rows = [*_read_around(beside, sorted(failed_seqs))]
        read_count += len(rows)
        found[number] = [row for row in rows if is_step(row)]
    return found


def _number(row: SpanSummary) -> int | None:
    """The number of a row's conversation, which a disk may have damaged."""
    number: object = row.columns.conversation
    return number if isinstance(number, int) else None


def _read_around(rows: Calls, seqs: Iterable[int]) -> Iterator[SpanSummary]:
    """Read the rows before and behind some numbers, which rise."""
    begun, at = -1, 0
    for seq in seqs:
        at = max(at, seq - _ROWS_BEFORE)
        while begun <= seq and at < LAST_SEQ:
            page = rows.after(at, LATER_ROWS)
            yield from page
            begun, at = at, page[-1].seq if len(page) == LATER_ROWS else LAST_SEQ


def _read_error(row: SpanSummary, span: bytes) -> str | None:
    call = decode_call(row, span)
    if row.columns.kind == "TOOL":
        return summarize_error(call.response_text)
    return summarize_error(call.span.status_message) or call.error_type


def _find_caller(row: SpanSummary, rows: Iterable[SpanSummary]) -> SpanSummary | None:
    """Find the call that called a tool: the last one of its run that ended before it began."""
    if row.columns.kind != "TOOL":
        return row
    calls = [
        one
        for one in rows
        if one.columns.run == row.columns.run
        and is_call(one.columns.kind)
        and one.end_ns <= row.start_ns + _SLACK_NS
    ]
    return max(calls, key=lambda one: one.end_ns, default=None)


def _find_correction(
    row: SpanSummary, rows: Iterable[SpanSummary]
) -> tuple[SpanSummary | None, bool]:
    """Find the first later step that did the same and succeeded, else one of the same tool."""
    later = [one for one in rows if one.start_ns >= row.end_ns and one.status == "OK"]
    if row.columns.kind != "TOOL":
        calls = (one for one in later if is_call(one.columns.kind))
        return next((one for one in calls if one.columns.run == row.columns.run), None), True
    same_tool = [
        one
        for one in later
        if one.columns.kind == "TOOL" and one.columns.tools == row.columns.tools
    ]
    what = tell_what(row)
    same = next((one for one in same_tool if tell_what(one) == what), None)
    return (same, True) if same is not None else (next(iter(same_tool), None), False)
