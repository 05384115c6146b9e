"""``GET /api/runs/N``: the run of an agent as a tree, in the order in which it is drawn.

A step is a bar as in a conversation's timeline. If it has steps below it, or is an agent, it also
has the sums of its branch (:mod:`proxy.reading.branch_sums`). The sums of the run itself leave
sub-agents out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.page.api.rows import build_bar, since_ms
from proxy.page.errors import PageError
from proxy.reading.branch_sums import sum_branches
from proxy.reading.run_record import build_run_record, find_caller, find_ending, find_place
from proxy.reading.run_tree import build_tree, count_too_deep
from proxy.reading.spent_time import build_time, measure_time
from proxy.reading.sum_members import build_step_sums

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject
    from proxy.page.api.parameters import Parameters
    from proxy.reading.branch_sums import BranchSums
    from proxy.reading.run_tree import Node
    from telemetry.reading.calls import Calls

MAX_STEPS: Final = 5_000
"""The most steps of a tree: 2,000 calls with a tool or two each. That is some 3 MB of JSON."""


def read_run(reader: Calls, parameters: Parameters) -> JsonObject:
    """Read a run.

    Raises:
        PageError: there is none, or its rows are damaged.
    """
    number = parameters.index("number")
    found = reader.run_tree(number, MAX_STEPS)
    if found is None:
        raise PageError("not_found", f"there is no run {number} in the store; it may be too old")
    sums, rows = found
    try:
        nodes = build_tree(sums, rows[:MAX_STEPS])
        caller = find_caller(sums, reader)
        begin_ns = min((node.start_ns for node in nodes), default=0)
        return {
            "run": {
                **(record := build_run_record(sums, find_ending(sums, reader))),
                **find_place(record["conversation"], number, reader),
                "time": build_time(measure_time(row for row in rows if row.columns.run == number)),
            },
            "parent_run": None if caller is None else caller.columns.run,
            "steps": [
                _build_step(node, branch, begin_ns)
                for node, branch in zip(nodes, sum_branches(nodes), strict=True)
            ],
            "complete": len(rows) <= MAX_STEPS,
            "too_deep": count_too_deep(nodes),
        }
    except (ValueError, OverflowError, OSError):
        # A time that is none in the calendar: JSON has no other place for it.
        raise PageError("not_found", f"the rows of run {number} are damaged") from None


_NO_BAR: Final[JsonObject] = {
    **dict.fromkeys(
        (
            *("seq", "kind", "span_id", "parent_span_id", "name", "conversation", "turn", "status"),
            *(
                "outcome",
                "error_type",
                "model",
                "preview",
                "step",
                "what",
                "finish_reason",
                "prompt_tokens",
            ),
            *("cached_tokens", "completion_tokens", "cost_usd", "cost_basis", "ttft_ms"),
        )
    ),
    "kind": "AGENT",
    "tools": [],
}
"""What is known of an agent that has no span yet."""


def _build_step(node: Node, branch: BranchSums | None, begin_ns: int) -> JsonObject:
    step = _NO_BAR if node.row is None else build_bar(node.row, node.depth, begin_ns)
    return {
        **step,
        "run": node.run,
        "depth": node.depth,
        "tries": node.tries,
        "start_ms": since_ms(node.start_ns, begin_ns),
        "end_ms": since_ms(node.end_ns, begin_ns),
        "branch": None if branch is None else _build_branch(branch),
    }


def _build_branch(branch: BranchSums) -> JsonObject:
    return {**build_step_sums(branch), "duration_ms": since_ms(branch.end_ns, branch.start_ns)}
