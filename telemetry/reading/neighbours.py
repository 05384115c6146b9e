"""The calls beside a row, among chosen calls, by the numbers of the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from telemetry.reading.engine import LAST_SEQ

if TYPE_CHECKING:
    from telemetry.finding.where import Where
    from telemetry.reading.engine import Engine
    from telemetry.store.rows import SpanSummary


class Neighbours(NamedTuple):
    """The calls beside a row.

    Attributes:
        calls: how many are chosen.
        position: how many of them there are up to this row: of a call, its own position from 1.
        before: the call before it; ``None`` for the first one.
        behind: the call after it; ``None`` for the last one.
    """

    calls: int
    position: int
    before: SpanSummary | None
    behind: SpanSummary | None


def find_neighbours(engine: Engine, where: Where, seq: int) -> Neighbours:
    """Find the chosen calls beside the row of a number."""
    position, behind = (
        engine.sum(where, (), ("calls",), after=after, before=before).groups.get((), (0,))[0]
        for after, before in ((0, seq + 1), (seq, LAST_SEQ))
    )
    return Neighbours(
        position + behind,
        position,
        next(iter(engine.select(where, 1, before=seq).rows), None),
        next(iter(engine.select(where, 1, after=seq, oldest_first=True).rows), None),
    )
