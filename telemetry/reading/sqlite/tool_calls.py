"""How often answers called which tool, as far as the columns of calls tell. On an open connection.

Rules:

1. A call has the names of its tools, each once, and how many calls of tools there are. Where one
   tool is called, or each once, that tells how often; else of none of these tools it is known.
2. Calls of no run are left out: nobody comes back with a result of theirs.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

_BY_TOOLS = """
SELECT tools, tool_calls, count(*) FROM {spans}
WHERE run IS NOT NULL AND tools IS NOT NULL AND {where} GROUP BY 1, 2
"""


class ToolCalls(NamedTuple):
    """How often tools were called.

    Attributes:
        counts: by the name of the tool.
        unsure: tools that were called more often than that (rule 1).
    """

    counts: Counter[str]
    unsure: frozenset[str]


def count_tool_calls(
    connection: sqlite3.Connection, *, spans: str, where: str, values: Sequence[str | float] = ()
) -> ToolCalls:
    """Count the calls of tools, of those calls for which a condition holds."""
    counts: Counter[str] = Counter()
    unsure: set[str] = set()
    statement = _BY_TOOLS.format(spans=spans, where=where)
    for tools, tool_calls, calls in connection.execute(statement, values):
        if not isinstance(tools, str) or not isinstance(tool_calls, int | None):
            continue  # a disk damaged them
        names = tools.split("\n")
        if len(names) == 1 and tool_calls:
            counts[tools] += tool_calls * calls
        elif len(names) == tool_calls:
            counts.update(dict.fromkeys(names, calls))
        else:
            counts.update(dict.fromkeys(names, 0))
            unsure.update(names)
    return ToolCalls(counts, frozenset(unsure))
