"""The run of an agent on a terminal: a tree with times, and what is known of it.

Rules, beside those of :mod:`proxy.commands.render`:

1. Sums are of the run's own calls; of its sub-agents they are told apart.
2. Of what the agent's span says of its usage every member is a line, whatever it is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from proxy.commands.call_facts import fact_line
from proxy.commands.message_lines import write_compact
from proxy.commands.render import print_lines
from proxy.commands.run_steps import print_steps
from proxy.commands.runs import describe_ending
from proxy.commands.table import format_dollars, format_duration, local_time
from proxy.escape import escape_line
from proxy.reading.run_record import find_preview, find_times
from telemetry.store.agent_runs import MAX_TREE_ROWS
from telemetry.store.calls import is_call

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import tzinfo

    from rich.console import Console

    from codec.text.jsontext import JsonObject
    from proxy.commands.message_lines import Line
    from proxy.reading.run_tree import Node
    from telemetry.store.agent_runs import RunSums
    from telemetry.store.rows import SpanSummary

MAX_USAGE_LINES: Final = 200
"""Lines of what is known of the usage; all of it is in the JSON."""

MAX_NAME_CHARACTERS: Final = 60
"""A longer name is cut."""

MAX_VALUE_CHARACTERS: Final = 500
"""A longer value is cut; all of it is in the JSON."""

_MAX_NESTING: Final = 8
"""Objects in objects that are spread over lines; a deeper one is a value."""

_BOUND_WORDS: Final = (
    "The time of a tool is an upper bound: from the end of the answer that called it to the request"
    " that brought its result."
)


def print_run(
    console: Console,
    sums: RunSums,
    nodes: Sequence[Node],
    metadata: JsonObject,
    *,
    ended_by: str | None,
    caller: SpanSummary | None = None,
    zone: tzinfo | None = None,
) -> None:
    """Print a run.

    Args:
        console: a terminal, whose width counts, or anything else.
        sums: what it comes to.
        nodes: its tree.
        metadata: that of its agent's span.
        ended_by: how it has ended; ``None`` where nobody knows.
        caller: the row of the tool that started it, of a sub-agent.
        zone: of the times that are shown; by default the local one.
    """
    print_lines(console, _head_lines(sums, nodes, ended_by))
    if caller is not None:
        of_run = "" if caller.columns.run is None else f" of run {caller.columns.run}"
        print_lines(console, [fact_line("started by", f"the tool {caller.name}{of_run}")])
    print_lines(console, _title("steps"))
    print_steps(console, nodes[:MAX_TREE_ROWS])
    print_lines(console, _notes(sums, nodes))
    if usage := [*_flatten("", metadata.get("usage"))]:
        print_lines(console, _title("usage"))
        print_lines(console, _value_lines(usage))
    print_lines(console, _title("run"))
    print_lines(console, _fact_lines(sums, metadata, zone))


def _title(words: str) -> Iterator[Line]:
    yield 0, Text()
    yield 0, Text(words, style="bold underline")


def _head_lines(sums: RunSums, nodes: Sequence[Node], ended_by: str | None) -> Iterator[Line]:
    head = Text(f"run {sums.run}", style="bold")
    head.append("  ").append_text(describe_ending(sums, ended_by))
    yield 0, head
    if (preview := find_preview(sums)) is not None:
        yield fact_line("asked", preview)
    start_ns, end_ns = find_times(sums)
    so_far = " so far" if sums.agent is None else ""
    yield fact_line("took", f"{format_duration(end_ns - start_ns)}{so_far}")
    yield fact_line("calls", _count(sums.calls, sums.errors))
    yield fact_line("tools", _count(sums.tools, sums.tool_errors))
    yield fact_line("tokens", _tokens(sums) or "none reported")
    if sums.cost_usd is not None:
        some = f", of {sums.priced} of the calls" if sums.priced < sums.calls else ""
        yield fact_line("cost", f"{format_dollars(sums.cost_usd)} USD{some}")
    if others := _describe_others(sums, nodes):
        yield fact_line("sub-agents", others)


def _count(count: int, failed: int) -> str:
    return f"{count:,}, {failed:,} failed" if failed else f"{count:,}"


def _tokens(sums: RunSums) -> str:
    told = []
    if sums.prompt_tokens is not None:
        cached = f" ({sums.cached_tokens:,} cached)" if sums.cached_tokens is not None else ""
        told.append(f"{sums.prompt_tokens:,} in{cached}")
    if sums.completion_tokens is not None:
        told.append(f"{sums.completion_tokens:,} out")
    return ", ".join(told)


def _describe_others(sums: RunSums, nodes: Sequence[Node]) -> str:
    """Say what the calls of sub-agents come to (rule 1)."""
    rows = [node.row for node in nodes if node.row and node.row.columns.run != sums.run]
    calls = [row for row in rows if is_call(row.columns.kind)]
    if not calls:
        return ""
    told = f"{len(calls):,} call{'s' if len(calls) > 1 else ''}"
    prompts = [row.prompt_tokens for row in calls if row.prompt_tokens is not None]
    answers = [row.completion_tokens for row in calls if row.completion_tokens is not None]
    costs = [row.columns.cost_usd for row in calls if row.columns.cost_usd is not None]
    for amounts, unit in ((prompts, "in"), (answers, "out")):
        if amounts:
            told += f", {sum(amounts):,} {unit}"
    return f"{told}, {format_dollars(sum(costs))} USD" if costs else told


def _notes(sums: RunSums, nodes: Sequence[Node]) -> Iterator[Line]:
    if any(node.row is not None and node.row.columns.kind == "TOOL" for node in nodes):
        yield 0, Text(_BOUND_WORDS, style="dim")
    if len(nodes) > MAX_TREE_ROWS:
        words = f"These are the first {MAX_TREE_ROWS:,} steps; `kind:* run:{sums.run}` lists all."
        yield 0, Text(words, style="yellow")


def _fact_lines(sums: RunSums, metadata: JsonObject, zone: tzinfo | None) -> Iterator[Line]:
    start_ns, _ = find_times(sums)
    started = local_time(start_ns, zone)
    yield fact_line(
        "started", f"{started:%Y-%m-%d %H:%M:%S}.{started.microsecond // 1000:03d} {started:%z}"
    )
    if sums.agent is not None:
        yield fact_line("span", sums.agent.span_id)
        if sums.agent.columns.parent_span_id:
            yield fact_line("parent", sums.agent.columns.parent_span_id)
    known = sums.agent or sums.first_call
    if known is not None:
        columns = known.columns
        yield fact_line("trace", known.trace_id)
        if columns.conversation is not None:
            turn = "" if columns.turn is None else f", turn {columns.turn}"
            yield fact_line("belongs to", f"conversation {columns.conversation}{turn}")
        for name, value in (("session", columns.session), ("user", columns.user)):
            if value:
                yield fact_line(name, value)
        if client := columns.client or (sums.first_call and sums.first_call.columns.client):
            yield fact_line("client", client)
    rest = {name: value for name, value in metadata.items() if name != "usage"}
    yield from _value_lines([*_flatten("", rest)])


def _flatten(path: str, value: object, nesting: int = 0) -> Iterator[tuple[str, str]]:
    """Spread an object over lines, each with the path to a value (rule 2)."""
    if isinstance(value, dict) and value and nesting < _MAX_NESTING:
        for name, member in value.items():
            yield from _flatten(f"{path}.{name}" if path else str(name), member, nesting + 1)
    elif path and value is not None:
        text = value if isinstance(value, str) else write_compact(value)
        if len(text) > MAX_VALUE_CHARACTERS:
            text = f"{text[:MAX_VALUE_CHARACTERS]}..."
        yield path, text


def _value_lines(values: Sequence[tuple[str, str]]) -> Iterator[Line]:
    shown = [
        (escape_line(name[:MAX_NAME_CHARACTERS]).replace("_", " "), value)
        for name, value in values[:MAX_USAGE_LINES]
    ]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        yield fact_line(name.ljust(width), value)
    if len(values) > MAX_USAGE_LINES:
        yield 2, Text(f"({len(values) - MAX_USAGE_LINES} more: --json)", style="dim")
