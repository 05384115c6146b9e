"""A filter that cannot be followed, shown with a mark below the first wrong character."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.cells import cell_len

from proxy.escape import escape_line

if TYPE_CHECKING:
    from telemetry.errors import FilterError

_BEFORE: Final = 40
"""Characters before the mark that are shown, so that the line fits in most terminals."""

_BEHIND: Final = 30
"""And from there on."""


def explain_filter_error(error: FilterError) -> tuple[str, str, str]:
    """Say what is wrong in a line, and in two more show where.

    >>> from telemetry.errors import FilterError
    >>> for line in explain_filter_error(FilterError("unknown key `modle`", "a modle:x", 2)):
    ...     print(line)
    unknown key `modle` (at character 3 of the filter)
      a modle:x
        ^
    """
    text, at = error.text, error.position
    start, end = max(0, at - _BEFORE), at + _BEHIND
    before = escape_line(text[start:at])
    if start:
        before = f"…{before}"
    behind = escape_line(text[at:end]) + ("…" if end < len(text) else "")
    return escape_line(str(error)), f"  {before}{behind}", f"  {' ' * cell_len(before)}^"
