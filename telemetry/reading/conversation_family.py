"""A conversation with its sub-agents: which rows stand below which run, found without their bytes.

Rules:

1. A sub-agent has its own conversation and run, in the trace of the run that called it. Its
   rows are near by number: they are looked for up to
   :data:`~telemetry.reading.runs.NEAR_ROWS` behind the last row of that run, the newest runs first,
   in steps of :data:`STEP_NUMBERS`, until the time is over.
2. A sub-agent belongs here where its tool does. One whose tool is not there yet, for its result did
   not come, belongs to the outermost run of its trace.
3. No row stands below itself, whatever rows say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from telemetry.facts import DERIVED_KINDS
from telemetry.finding.predicates import Compares
from telemetry.finding.quantities import Unit
from telemetry.finding.where import ALL_ROWS, Ask, ask_known, ask_word
from telemetry.reading.engine import LAST_SEQ
from telemetry.reading.runs import NEAR_ROWS
from telemetry.store.calls import is_call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from telemetry.reading.engine import Engine

STEP_NUMBERS: Final = 50_000
"""Numbers in one read: some 20 ms where no row fits."""

MAX_OWN_ROWS: Final = 50_000
"""Rows of one conversation that are looked at, the newest: a day of an agent that never sleeps."""

_OWN_STEP: Final = 5_000
"""Rows of the conversation in one read: some 25 ms where they lie far from each other."""

_MAX_NEAR: Final = 5_000
"""Rows of a step that are looked at."""

_MAX_TRACES: Final = 500
"""Traces in one read."""

_MAX_DEPTH: Final = 20


class _Row(NamedTuple):
    """What of a row tells its place."""

    seq: int
    span_id: str
    trace_id: str
    parent_span_id: str | None
    kind: str | None
    run: int | None


class Placed(NamedTuple):
    """A row, and how deep it stands: 0 for what stands below nothing."""

    seq: int
    depth: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A conversation with its sub-agents.

    Attributes:
        rows: all of them, oldest first.
        sub_runs: the runs of sub-agents of other conversations, oldest first.
        is_whole: all were looked for; false where the time was over.
    """

    rows: Sequence[Placed]
    sub_runs: Sequence[int]
    is_whole: bool


def read_family(engine: Engine, conversation: int, is_late: Callable[[], bool]) -> Family:
    """Read the places of the rows of a conversation, and of its sub-agents.

    Args:
        engine: reads them.
        conversation: its number.
        is_late: tells that the time is over; asked between two reads.
    """
    own = _read_own(engine, conversation)
    near, is_whole = _read_near(engine, conversation, own, is_late)
    return _place(own, near, is_whole=is_whole)


def _read_own(engine: Engine, conversation: int) -> list[_Row]:
    """Read the newest rows of a conversation, all of them: 50,000 take a third of a second."""
    where, before = ALL_ROWS.also(conversation=conversation), LAST_SEQ
    found: list[_Row] = []
    while len(found) < MAX_OWN_ROWS:
        step = engine.facts(where, _Row._fields, _OWN_STEP, before=before)
        found += map(_Row._make, step)
        if len(step) < _OWN_STEP:
            break
        before = found[-1].seq
    return [row for row in reversed(found) if row.kind != "MARKER"]


def _read_near(
    engine: Engine, conversation: int, own: Iterable[_Row], is_late: Callable[[], bool]
) -> tuple[list[_Row], bool]:
    """Read the rows of the same traces that are near (rule 1)."""
    found: dict[int, _Row] = {}
    of_others = ALL_ROWS.also(
        Ask((("conversation", Compares("=", conversation, Unit.COUNT)),), is_not=True),
        ask_known("run", "parent_span_id"),
        ask_word("kind", *DERIVED_KINDS, "LLM"),
    )
    for since, until, traces in _find_windows(own):
        for start in range(0, len(traces), _MAX_TRACES):
            near = of_others.also(ask_word("trace_id", *traces[start : start + _MAX_TRACES]))
            for at in range(since, until + 1, STEP_NUMBERS):
                if is_late():
                    return [*found.values()], False
                before = min(until + 1, at + STEP_NUMBERS)
                rows = engine.facts(
                    near, _Row._fields, _MAX_NEAR, after=at - 1, before=before, oldest_first=True
                )
                found |= {row.seq: row for row in map(_Row._make, rows)}
    return [*found.values()], True


def _find_windows(own: Iterable[_Row]) -> Iterator[tuple[int, int, list[str]]]:
    """Yield the numbers among which sub-agents may be, the newest first, and their traces."""
    runs: dict[int, tuple[int, int, set[str]]] = {}
    for row in own:
        if row.run is not None:
            first, _, traces = runs.get(row.run, (row.seq, row.seq, set()))
            runs[row.run] = (first, row.seq, traces | {row.trace_id})
    windows: list[tuple[int, int, set[str]]] = []
    for first, last, traces in sorted(runs.values(), key=lambda one: one[:2]):
        if windows and first <= windows[-1][1]:
            since, until, more = windows[-1]
            windows[-1] = (since, max(until, last + NEAR_ROWS), more | traces)
        else:
            windows.append((first, last + NEAR_ROWS, traces))
    for since, until, traces in reversed(windows):
        yield since, until, sorted(traces)


def _place(own: Sequence[_Row], near: Sequence[_Row], *, is_whole: bool) -> Family:
    """Find which rows belong here (rule 2), and how deep they stand."""
    places = _Places(own, near)
    placed = [Placed(row.seq, places.depth_of_own(row)) for row in own]
    sub_runs: set[int] = set()
    for row in near:
        if places.stands_below(row):
            placed.append(Placed(row.seq, places.depth_of_other(row)))
            if row.run is not None:
                sub_runs.add(row.run)
    return Family(rows=sorted(placed), sub_runs=sorted(sub_runs), is_whole=is_whole)


class _Places:
    """What stands below what.

    Args:
        own: the rows of the conversation.
        near: rows of other conversations that may stand below them.
    """

    def __init__(self, own: Sequence[_Row], near: Sequence[_Row]) -> None:
        rows = [*own, *near]
        self._tools = {row.span_id: row.run for row in rows if row.kind == "TOOL"}
        self._callers = {row.run: row.parent_span_id for row in rows if row.kind == "AGENT"}
        self._own_runs = {row.run for row in own if row.run is not None}
        self._of_run = {row.run: row for row in near if row.run is not None}
        self._outermost: dict[str, int] = {}
        for row in rows:
            if row.run is not None:
                outer = self._outermost.get(row.trace_id, row.run)
                self._outermost[row.trace_id] = min(row.run, outer)

    def stands_below(self, row: _Row, depth: int = 0) -> bool:
        """Tell whether a row of another conversation stands below one of ours."""
        above = row.parent_span_id if row.run is None else self._callers.get(row.run)
        if above in self._tools:
            run = self._tools[above]
            if run in self._own_runs:
                return True
            if run is None or run not in self._of_run or depth == _MAX_DEPTH:
                return False
            return self.stands_below(self._of_run[run], depth + 1)
        is_open = row.run is None or row.run not in self._callers
        outer = self._outermost.get(row.trace_id)
        return is_open and outer in self._own_runs and (row.run is None or row.run != outer)

    def depth_of_own(self, row: _Row) -> int:
        """Find how deep a row of the conversation stands."""
        is_sub = row.parent_span_id in self._tools and is_call(row.kind)
        return self.depth_of_other(row) if is_sub or row.run is not None else 0

    def depth_of_other(self, row: _Row) -> int:
        """Find how deep a row that stands below ours stands."""
        if row.run is not None:
            return self._depth_of_run(row.run) + (row.kind != "AGENT")
        return self._depth_of_run(self._tools.get(row.parent_span_id or "")) + 2

    def _depth_of_run(self, run: int | None, depth: int = 0) -> int:
        """Find how deep the agent of a run stands."""
        above = self._callers.get(run)
        if above in self._tools and depth < _MAX_DEPTH and self._tools[above] != run:
            return self._depth_of_run(self._tools[above], depth + 1) + 2
        return 0 if run is None or run in self._own_runs else 2
