"""What a run or a conversation comes to, as lines for a terminal, and where its time went."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.commands.amounts import describe_costs, format_dollars, format_duration
from proxy.commands.page_lines import fact_line
from proxy.reading.costs import describe_input_share, explain_gaps
from telemetry.facts import ID_DIGITS, LIST_BASIS, tell_what

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy.commands.page_lines import Line
    from proxy.reading.spent_time import SpentTime
    from telemetry.reading.conversations import ConversationSums
    from telemetry.reading.runs import RunSums
    from telemetry.store.rows import SpanSummary


def sums_lines(
    sums: RunSums | ConversationSums,
    own: Sequence[SpanSummary],
    others: Sequence[SpanSummary],
) -> Iterator[Line]:
    """Show what calls and tools come to.

    Args:
        sums: those of its own calls.
        own: these calls.
        others: the calls of its sub-agents.
    """
    yield fact_line("calls", _write_count(sums.calls, sums.errors))
    yield fact_line("tools", _write_count(sums.tools, sums.tool_errors))
    yield fact_line("tokens", _write_tokens(sums) or "none reported")
    if sums.cost_usd is not None:
        cost = describe_costs(sums.cost_usd, sums.list_usd, sums.unpriced)
        share = describe_input_share(sums.input_usd, sums.cost_usd)
        yield fact_line("cost", f"{cost}, {share}" if share else cost)
    yield from _gap_lines(own, "cost" if sums.cost_usd is None else "")
    if sums.saved_usd:
        yield fact_line("saved", f"{format_dollars(sums.saved_usd)} by the provider's cache")
    if others:
        yield fact_line("sub-agents", _describe_others(others))
        yield from _gap_lines(others, "")


def _write_count(count: int, failed: int) -> str:
    return f"{count:,}, {failed:,} failed" if failed else f"{count:,}"


def write_times(times: SpentTime) -> str:
    """Write where time went: ``model 1.10 s · tools 25.50 s``."""
    parts = (("model", times.model_ns), ("tools", times.tools_ns))
    return " · ".join(f"{name} {format_duration(spent)}" for name, spent in parts if spent)


def write_longest(times: SpentTime) -> str:
    """Write which step took longest, with its id for ``show``; empty if there is none."""
    row = times.longest
    if row is None:
        return ""
    is_tool = row.columns.kind == "TOOL"
    name = (tell_what(row) if is_tool else row.model) or row.name
    return f"{name}, {format_duration(row.end_ns - row.start_ns)} ({row.span_id[:ID_DIGITS]})"


def _gap_lines(calls: Sequence[SpanSummary], title: str) -> Iterator[Line]:
    """Say why costs of calls are unknown, the first time after a title."""
    for at, gap in enumerate(explain_gaps(calls)):
        yield fact_line("" if at else title, f"unknown: {gap.why}", style="yellow")
        if gap.mend:
            yield fact_line("", gap.mend)


def _write_tokens(sums: RunSums | ConversationSums) -> str:
    counts = []
    if sums.prompt_tokens is not None:
        cached = f" ({sums.cached_tokens:,} cached)" if sums.cached_tokens is not None else ""
        counts.append(f"{sums.prompt_tokens:,} in{cached}")
    if sums.completion_tokens is not None:
        counts.append(f"{sums.completion_tokens:,} out")
    return ", ".join(counts)


def _describe_others(calls: Sequence[SpanSummary]) -> str:
    """Describe the calls of sub-agents by their sums."""
    words = f"{len(calls):,} call{'s' if len(calls) > 1 else ''}"
    prompts = [row.prompt_tokens for row in calls if row.prompt_tokens is not None]
    answers = [row.completion_tokens for row in calls if row.completion_tokens is not None]
    costs = [row.columns.cost_usd for row in calls if row.columns.cost_usd is not None]
    listed = [row.columns.cost_usd or 0 for row in calls if row.columns.cost_basis == LIST_BASIS]
    for amounts, unit in ((prompts, "in"), (answers, "out")):
        if amounts:
            words += f", {sum(amounts):,} {unit}"
    if not costs:
        return words
    unpriced = sum(row.columns.cost_gap is not None for row in calls)
    return f"{words}, {describe_costs(sum(costs), sum(listed), unpriced)}"
