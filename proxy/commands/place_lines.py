"""Where a call or a tool stands, as lines for a terminal, with the commands to look further."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from proxy.commands.page_lines import fact_line
from proxy.commands.table import cell
from proxy.escape import escape_line
from telemetry.facts import ID_DIGITS, tell_what
from telemetry.store.calls import is_call

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.commands.page_lines import Line
    from proxy.reading.call_place import CallPlace
    from proxy.reading.failures import Failure
    from telemetry.store.rows import SpanSummary

MAX_WHAT_CHARACTERS: Final = 54
"""How much is said of a call beside this one: with its id, a line of 80 columns."""


def place_lines(row: SpanSummary, place: CallPlace) -> Iterator[Line]:
    """Show where a row stands; nothing for a lone call."""
    named = [
        (f"{kind}:{one.number}", one)
        for kind, one in (("run", place.run), ("conversation", place.conversation))
        if one is not None
    ]
    if not named or (place.run is None and not (place.before or place.behind)):
        return
    if is_call(row.columns.kind):
        words = ", ".join(f"{one.at} of {one.calls} of {name}" for name, one in named)
        yield fact_line("place", f"call {words}")
    elif row.columns.kind == "TOOL":
        yield fact_line("place", f"a tool of {' and '.join(name for name, _ in named)}")
    if place.before is not None:
        yield _beside("before", place.before)
    if place.behind is not None:
        yield _beside("after", place.behind)
    elif row.status == "ERROR":
        yield fact_line("after", "nothing followed")
    if place.failure is not None and place.behind is not None:
        yield from _correction_lines(place.failure, place.behind)
    yield fact_line("see also", ", ".join(f"spantap traces show {name}" for name, _ in named))


def _correction_lines(failure: Failure, behind: SpanSummary) -> Iterator[Line]:
    """Show which later step succeeded where this one failed, unless it is shown as the next one."""
    corrected = failure.corrected_by
    if corrected is None:
        yield fact_line("corrected", "by no later step")
    elif corrected.span_id != behind.span_id:
        title = "corrected" if failure.is_same else "later"
        indent, line = _beside(title, corrected)
        yield indent, line.append("  ✓", style="not dim green")


def _beside(title: str, row: SpanSummary) -> Line:
    """Show a call beside this one: its id for `show`, what it was about, and whether it failed."""
    indent, line = fact_line(title, f"{row.span_id[:ID_DIGITS]}  ")
    line.append_text(cell(tell_what(row) or row.model or row.name, MAX_WHAT_CHARACTERS))
    if row.status == "ERROR":
        failed = Text(f"  {escape_line(row.outcome)}", style="not dim red")
        line.append_text(failed)
    return indent, line
