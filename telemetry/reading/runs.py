"""The runs of agents: which there are, what one comes to, and its rows.

A run has the rows with its number: its calls, its tools, and once it is over that of the agent.

A sub-agent has its own run, in the trace of the one that started it. Its rows are near by
number: they are looked for up to :data:`NEAR_ROWS` behind the last row of that run, and so is a
sub-agent of one call, which has no run.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from telemetry.finding.predicates import Among, Compares
from telemetry.finding.quantities import Unit
from telemetry.finding.where import ALL_CALLS, ALL_ROWS, Ask, ask_known, ask_word

if TYPE_CHECKING:
    from telemetry.finding.where import Where
    from telemetry.reading.engine import Engine
    from telemetry.store.rows import SpanSummary

NEAR_ROWS: Final = 20_000
"""Rows behind a run among which its sub-agents may still be: those that nobody waits for."""

MAX_TREE_ROWS: Final = 2_000
"""Rows of a tree that are read, some 2 MB; a person reads no more."""

_NAMES: Final = (
    *("calls", "failed_calls", "tools", "tool_errors", "prompt_tokens", "cached_tokens"),
    *("completion_tokens", "cost_usd", "priced", "unpriced", "list_usd", "saved_usd"),
    "input_usd",
    *("start_ns", "end_ns", "first_seq", "last_seq"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSums:
    """What a run comes to, sub-agents apart.

    Attributes:
        errors: calls that failed.
        tools: how many tools have answered.
        tool_errors: how many of these answers said that the tool failed.
        prompt_tokens: of its calls, as all tokens; ``None`` where no provider reported any.
        cost_usd: of the calls that have a cost; ``None`` where none has.
        priced: how many these are.
        unpriced: of how many calls a cost is missing.
        list_usd: the part of it at list price, which a subscription paid.
        saved_usd: what the provider's cache saved.
        input_usd: the part of the cost that the requests' tokens have, as far as it is known.
        start_ns: when its first row began.
        end_ns: when its last one ended.
        first_seq: the number of its first row.
        last_seq: and of its last one.
        first_call: ``None`` where its calls were removed.
        agent: the row of the agent, ``None`` while the run is open, or if it was removed in
            part.
    """

    run: int
    calls: int
    errors: int
    tools: int
    tool_errors: int
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None
    cost_usd: float | None
    priced: int
    unpriced: int
    list_usd: float | None
    saved_usd: float | None
    input_usd: float | None
    start_ns: int
    end_ns: int
    first_seq: int
    last_seq: int
    first_call: SpanSummary | None
    agent: SpanSummary | None


def sum_run(engine: Engine, run: int) -> RunSums | None:
    """Sum a run up; ``None`` where there is none of that number."""
    amounts = engine.sum(ALL_ROWS.also(run=run), (), _NAMES).groups.get((), ())
    sums = dict(zip(_NAMES, amounts, strict=False))
    if sums.get("last_seq") is None:
        return None
    first = engine.select(ALL_CALLS.also(run=run), 1, oldest_first=True).rows
    agent = engine.select(ALL_ROWS.also(ask_word("kind", "AGENT"), run=run), 1).rows
    errors = sums.pop("failed_calls")
    sums |= {name: sums[name] or 0 for name in ("start_ns", "end_ns")}
    return RunSums(
        run=run,
        errors=errors,
        **sums,
        first_call=next(iter(first), None),
        agent=next(iter(agent), None),
    )


def read_tree(engine: Engine, sums: RunSums, limit: int = MAX_TREE_ROWS) -> list[SpanSummary]:
    """Read the rows of a run, and those of its trace that are near, oldest first.

    If there are more than `limit`, one more than that is read.
    """
    known = sums.first_call or sums.agent
    trace_id = known.trace_id if known is not None else ""
    of_run = ("run", Compares("=", sums.run, Unit.COUNT))
    either = Ask((of_run, ("trace_id", Among("", (trace_id,)))))
    # The last row of the run is found whatever lies between.
    page = engine.select(
        ALL_ROWS.also(either),
        limit + 1,
        after=sums.first_seq - 1,
        before=sums.last_seq + NEAR_ROWS + 1,
        oldest_first=True,
    )
    return [*page.rows]


def find_outermost(engine: Engine, trace_id: str) -> int | None:
    """Find the number of the first run in a trace; ``None`` where it has none."""
    of_trace = ALL_ROWS.also(ask_word("trace_id", trace_id))
    return min(engine.runs(of_trace, (1 << 63) - 1), default=None)


class ToolCalls(NamedTuple):
    """How often tools were called, as far as the columns of calls say.

    Attributes:
        counts: by the name of the tool.
        unsure: tools that were called more often than that.
    """

    counts: Counter[str]
    unsure: frozenset[str]


def count_tool_calls(engine: Engine, where: Where) -> ToolCalls:
    """Count the calls of tools, of calls that are in a run: no result comes back to any other.

    A call has the names of its tools, each once, and how many calls of tools there are. Where one
    tool is called, or each once, that says how often; else it is known of none of these tools.
    """
    counts: Counter[str] = Counter()
    unsure: set[str] = set()
    chosen = where.also(ask_known("run"), ask_known("tools"))
    sums = engine.sum(chosen, ("tools", "tool_calls"), ("rows",))
    for (tools, tool_calls), (calls,) in sums.groups.items():
        if not isinstance(tool_calls, int | None):
            continue  # a disk damaged it
        names = tools.split("\n")
        if len(names) == 1 and tool_calls:
            counts[tools] += tool_calls * calls
        elif len(names) == tool_calls:
            counts.update(dict.fromkeys(names, calls))
        else:
            counts.update(dict.fromkeys(names, 0))
            unsure.update(names)
    return ToolCalls(counts, frozenset(unsure))
