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
    rows = [*own, *near]
    tools = {row.span_id: row.run for row in rows if row.kind == "TOOL"}
    callers = {row.run: row.parent_span_id for row in rows if row.kind == "AGENT"}
    own_runs = {row.run for row in own if row.run is not None}
    outermost: dict[str, int] = {}
    for row in rows:
        if row.run is not None:
            outermost[row.trace_id] = min(row.run, outermost.get(row.trace_id, row.run))

    def stands_below(row: _Row, depth: int) -> bool:
        """Tell whether a row of another conversation stands below one of ours."""
        above = row.parent_span_id if row.run is None else callers.get(row.run)
        if above in tools:
            run = tools[above]
            if run in own_runs:
                return True
            return run is not None and depth < _MAX_DEPTH and below(run, depth + 1)
        is_open = row.run is None or row.run not in callers
        outer = outermost.get(row.trace_id)
        return is_open and outer in own_runs and (row.run is None or row.run != outer)

    of_run = {row.run: row for row in near if row.run is not None}

    def below(run: int, depth: int) -> bool:
        return run in of_run and stands_below(of_run[run], depth)

    def depth_of(run: int | None, depth: int = 0) -> int:
        """Tell how deep the agent of a run stands."""
        above = callers.get(run)
        if above in tools and depth < _MAX_DEPTH and tools[above] != run:
            return depth_of(tools[above], depth + 1) + 2
        return 0 if run is None or run in own_runs else 2

    placed: list[Placed] = []
    sub_runs: set[int] = set()
    for row, is_own in [*((row, True) for row in own), *((row, False) for row in near)]:
        if not is_own and not stands_below(row, 0):
            continue
        if row.run is None:
            above = row.parent_span_id
            is_sub = not is_own or (above in tools and is_call(row.kind))
            depth = depth_of(tools.get(above or "")) + 2 if is_sub else 0
        else:
            depth = depth_of(row.run) + (row.kind != "AGENT")
            if not is_own:
                sub_runs.add(row.run)
        placed.append(Placed(row.seq, depth))
    return Family(rows=sorted(placed), sub_runs=sorted(sub_runs), is_whole=is_whole)
