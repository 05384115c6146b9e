"""What each branch of a run's tree comes to: calls, tools, tokens, cost and time.

A branch is a row with all rows below it, sub-agents too. Each row of the tree is counted once in
every branch that it is in, so the branch of the root has everything.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from telemetry.facts import LIST_BASIS
from telemetry.store.calls import is_call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.reading.run_tree import Node
    from telemetry.store.rows import SpanSummary

_COUNTS: Final = ("calls", "errors", "tools", "tool_errors", "priced", "unpriced")

_AMOUNTS: Final = (
    *("prompt_tokens", "cached_tokens", "completion_tokens", "cost_usd", "list_usd", "saved_usd"),
)


@dataclass(slots=True, kw_only=True)
class BranchSums:
    """What a branch comes to.

    Attributes:
        errors: calls that failed.
        tool_errors: tools that failed.
        prompt_tokens: of its calls; ``None`` if no provider reported any. The others likewise.
        cost_usd: of the calls that have a cost; ``None`` if none has.
        priced: how many calls have a cost.
        unpriced: of how many calls a cost is missing.
        list_usd: the part of the cost at list price, which a subscription paid.
        saved_usd: what the provider's cache saved.
        start_ns: when its first row began.
        end_ns: when its last row ended.
    """

    calls: int = 0
    errors: int = 0
    tools: int = 0
    tool_errors: int = 0
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    cost_usd: float | None = None
    priced: int = 0
    unpriced: int = 0
    list_usd: float | None = None
    saved_usd: float | None = None
    start_ns: int
    end_ns: int

    def add(self, other: BranchSums) -> None:
        """Add the sums of a branch below this one."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in _AMOUNTS:
            one, more = getattr(self, name), getattr(other, name)
            if more is not None:
                setattr(self, name, more if one is None else one + more)
        self.start_ns = min(self.start_ns, other.start_ns)
        self.end_ns = max(self.end_ns, other.end_ns)


def sum_branches(nodes: Sequence[Node]) -> list[BranchSums | None]:
    """Sum up the branch of each node, in the order of the nodes; ``None`` for one without any."""
    found: list[BranchSums | None] = []
    below: dict[int, BranchSums] = {}  # by depth: the siblings that were passed so far
    for node in reversed(nodes):
        sums = _measure(node)
        children = below.pop(node.depth + 1, None)
        if children is not None:
            sums.add(children)
        is_agent = node.row is None or node.row.columns.kind == "AGENT"
        found.append(sums if is_agent or children is not None else None)
        if (siblings := below.get(node.depth)) is None:
            below[node.depth] = replace(sums)
        else:
            siblings.add(sums)
    return found[::-1]


def _measure(node: Node) -> BranchSums:
    """Measure the row of a node, without those below it."""
    if node.row is None:
        return BranchSums(start_ns=node.start_ns, end_ns=node.end_ns)
    return measure_row(node.row)


def measure_row(row: SpanSummary) -> BranchSums:
    """Measure a call or a tool; the span of an agent repeats what its calls have."""
    sums = BranchSums(start_ns=row.start_ns, end_ns=row.end_ns)
    has_failed = row.status == "ERROR"
    if row.columns.kind == "TOOL":
        sums.tools, sums.tool_errors = 1, int(has_failed)
    elif is_call(row.columns.kind):
        sums.calls, sums.errors = 1, int(has_failed)
        sums.prompt_tokens = row.prompt_tokens
        sums.cached_tokens = row.columns.cached_tokens
        sums.completion_tokens = row.completion_tokens
        sums.cost_usd = row.columns.cost_usd
        sums.priced = int(sums.cost_usd is not None)
        sums.unpriced = int(row.columns.cost_gap is not None)
        sums.list_usd = sums.cost_usd if row.columns.cost_basis == LIST_BASIS else None
        sums.saved_usd = row.columns.saved_usd
    return sums
