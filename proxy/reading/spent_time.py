"""Where the time of a run went: what the model took, what tools took, and the longest step.

The page and the terminal divide the time of a run by this module.

Steps at the same time count once, so the parts are never more than the whole. The time of a tool is
an upper bound: from the answer that calls it to the request with its result. Sub-agents work while
their tool waits for them, so their time is the tool's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from telemetry.facts import tell_what
from telemetry.store.calls import is_call

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from codec.text.jsontext import JsonObject
    from telemetry.store.rows import SpanSummary


class SpentTime(NamedTuple):
    """Where the time of a run went.

    Attributes:
        model_ns: the time in which one of the run's own calls was open.
        tools_ns: the time in which one of its tools ran, and none of these calls was open.
        longest: the step that took longest; ``None`` if there is no step.
    """

    model_ns: int
    tools_ns: int
    longest: SpanSummary | None


def measure_time(rows: Iterable[SpanSummary]) -> SpentTime:
    """Measure the time of a run by its own rows, in any order."""
    steps = [row for row in rows if is_step(row)]
    calls = [(row.start_ns, row.end_ns) for row in steps if row.columns.kind != "TOOL"]
    model_ns = _cover(calls)
    all_ns = _cover([(row.start_ns, row.end_ns) for row in steps])
    longest = max(steps, key=lambda row: row.end_ns - row.start_ns, default=None)
    return SpentTime(model_ns, all_ns - model_ns, longest)


def is_step(row: SpanSummary) -> bool:
    """Tell whether a row is a call or a tool whose times a disk did not damage."""
    times: tuple[object, object] = (row.start_ns, row.end_ns)
    is_timed = all(isinstance(one, int) for one in times)
    return is_timed and (row.columns.kind == "TOOL" or is_call(row.columns.kind))


def build_time(spent: SpentTime) -> JsonObject:
    """Build the record of where the time went."""
    longest = spent.longest
    return {
        "model_ms": spent.model_ns / 1e6,
        "tools_ms": spent.tools_ns / 1e6,
        "longest": None
        if longest is None
        else {
            "span_id": longest.span_id,
            "kind": longest.columns.kind,
            "what": tell_what(longest),
            "duration_ms": (longest.end_ns - longest.start_ns) / 1e6,
        },
    }


def _cover(times: Sequence[tuple[int, int]]) -> int:
    """Return how long at least one of some times lasted.

    >>> _cover([(0, 2), (1, 3), (5, 6)])
    4
    """
    covered = 0
    until: int | None = None
    for start, end in sorted(times):
        begin = start if until is None else max(start, until)
        covered += max(0, end - begin)
        until = end if until is None else max(until, end)
    return covered
