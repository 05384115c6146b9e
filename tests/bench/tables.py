"""Results as tables, which read well on a terminal and are Markdown.

``python -m tests.bench.tables RESULTS DOCUMENT`` fills in the tables of a document. A table stands
between ``<!-- bench: NAME -->`` and ``<!-- end -->``; one whose part was not run stays as it is.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench.budgets import judge
from tests.bench.growth import find_deviations, find_rises
from tests.bench.results import Results, middle

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.bench.growth import Point
    from tests.bench.measuring import Figures

__all__ = ("fill_in", "render_sections", "render_table", "render_work")

_NONE = "-"

MB = 1e6


def render_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with even columns; the first is text, the others are figures."""
    widths = [max(len(line[at]) for line in [head, *rows]) for at in range(len(head))]
    rule = [f"{'-' * (width - 1)}{':' if at else '-'}" for at, width in enumerate(widths)]
    lines = []
    for line in [head, rule, *rows]:
        pairs = list(zip(line, widths, strict=True))
        cells = [pairs[0][0].ljust(pairs[0][1]), *(cell.rjust(width) for cell, width in pairs[1:])]
        lines.append(f"| {' | '.join(cells)} |\n")
    return "".join(lines)


def render_sections(results: Results) -> dict[str, str]:
    """What can be shown of `results`, by the name of its place in ``docs/performance.md``."""
    sections = {
        "machine": _render_machine(results),
        "budgets": _render_budgets(results),
        "works": "\n".join(
            f"**{name}**\n\n{render_work(found)}" for name, found in results.works.items()
        ),
        "memory": _render_memory(results),
        "bodies": _render_bodies(results),
        "saturation": _render_saturation(results),
        "websockets": _render_web_sockets(results),
        "growth": "\n".join(
            f"**{name}**\n\n{_render_growth(name, points)}"
            for name, points in results.growths.items()
        ),
    }
    return {name: text for name, text in sections.items() if text}


def render_work(found: dict[str, list[Figures]]) -> str:
    """One load: two tables with a line for each contestant, medians of its rounds."""
    figures = {name: middle(rounds) for name, rounds in found.items()}
    bare = figures.get("bare")
    outside, inside = [], []
    for name, one in figures.items():
        delay = _NONE
        if one.chunk_delay_p50_ms is not None and one.chunk_delay_p99_ms is not None:
            delay = f"{one.chunk_delay_p50_ms:.2f}, {one.chunk_delay_p99_ms:.2f}"
        rate, cpu = one.answers_per_second, one.cpu_seconds
        queue_bytes = max(each.queue_bytes for each in found[name])
        processes = one.cpu_seconds_per_1000.items()
        outside.append(
            (
                name,
                f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}",
                _tell(rate / bare.answers_per_second if bare else None, "{:.3g}"),
                delay,
                f"{one.ttfb_p50_ms:.1f}, {one.ttfb_p99_ms:.1f}",
            )
        )
        inside.append(
            (
                name,
                f"{cpu:.3f}",
                _tell(cpu / bare.cpu_seconds if bare else None, "{:.3g}"),
                ", ".join(f"{role} {seconds:.2f}" for role, seconds in processes),
                f"{one.memory_bytes / MB:.0f}",
                f"{queue_bytes / MB:.1f}" if name == "spantap" else _NONE,
                f"{one.backlog_seconds:.1f}" if name == "spantap" else _NONE,
                f"{one.spans:,.0f} of {one.exchanges:,.0f}" if one.spans else _NONE,
                f"{one.dropped:.0f}" if name == "spantap" else _NONE,
                f"{one.start_seconds:.2f}",
            )
        )
    head = ("", "answers/s", "x bare", "chunk delay p50, p99 ms", "first byte p50, p99 ms")
    table = render_table(head, outside)
    more = ("", "CPU s/1,000", "x bare", "by process", "memory MB", "queue at most MB", "drained s")
    return f"{table}\n{render_table((*more, 'spans of exchanges', 'dropped', 'start s'), inside)}"


def _render_machine(results: Results) -> str:
    rows = [("date", results.date), *results.machine.items()]
    return render_table(("run", ""), rows)


def _render_budgets(results: Results) -> str:
    rows = [
        (budget.what, budget.goal, budget.figure, "met" if budget.met else "**not met**")
        for budget in judge(results)
    ]
    return render_table(("", "goal", "figure", ""), rows) if rows else ""


def _render_memory(results: Results) -> str:
    rows = []
    for name, rounds in results.open_streams.items():
        held = middle(rounds)
        idle, busy = sum(held.idle_bytes.values()), sum(held.open_bytes.values())
        by_process = ", ".join(
            f"{role} {before / MB:.0f} to {held.open_bytes[role] / MB:.0f}"
            for role, before in held.idle_bytes.items()
        )
        more = busy - idle
        megabytes = (f"{count / MB:.0f}" for count in (idle, busy, more))
        rows.append((name, *megabytes, f"{more / held.streams / 1000:.0f}", by_process))
    head = ("", "idle MB", "open MB", "difference MB", "kB/stream", "by process MB")
    return render_table(head, rows) if rows else ""


def _render_bodies(results: Results) -> str:
    rows = []
    for name, rounds in results.big_bodies.items():
        stall = middle(rounds)
        more = statistics.median(one.more_ms for one in rounds)
        delays = f"{stall.alone_p99_ms:.2f}", f"{stall.beside_p99_ms:.2f}", f"{more:+.2f}"
        rows.append((name, *delays, f"{stall.body_seconds * 1000:.0f}"))
    head = ("", "p99 delay alone ms", "beside them ms", "more ms", "slowest large chat ms")
    return render_table(head, rows) if rows else ""


def _render_saturation(results: Results) -> str:
    rows = [
        (
            name,
            f"{one.answers:,}",
            f"{one.answers_per_second:,.0f}",
            f"{one.whole_spans:,}",
            f"{one.spool_bytes / MB:,.0f}",
            f"{one.recorded_seconds:.0f}",
        )
        for name, one in results.saturation.items()
    ]
    head = ("", "answers", "answers/s", "whole spans", "spool at most MB", "all recorded after s")
    return render_table(head, rows) if rows else ""


def _render_web_sockets(results: Results) -> str:
    rows = []
    for name, rounds in results.web_sockets.items():
        one = middle(rounds)
        pinged = _NONE
        if one.pinged_p99_ms is not None:
            pinged = f"{one.pinged_p99_ms:.2f} ({one.pings_per_second:,.0f}/s)"
        rows.append(
            (
                name,
                f"{one.messages_per_second:,.0f}",
                f"{one.offered_per_second:,.0f}",
                f"{one.delay_p50_ms:.2f}, {one.delay_p99_ms:.2f}",
                f"{one.calm_p50_ms:.2f}, {one.calm_p99_ms:.2f}",
                pinged,
                ", ".join(f"{role} {us:.0f}" for role, us in one.cpu_us.items()),
            )
        )
    head = ("", "messages/s", "paced, /s", "delay p50, p99 ms", "of a fifth", "p99 beside pings ms")
    return render_table((*head, "CPU us for a message"), rows) if rows else ""


def _render_growth(name: str, points: list[Point]) -> str:
    cpu, memory = find_rises(points, "cpu_us"), find_rises(points, "memory_bytes")
    cpu_more = find_deviations(name, points, "cpu_us")
    memory_more = find_deviations(name, points, "memory_bytes")
    rows = [
        (
            f"{point.count:,}",
            f"{point.cpu_us / 1000:,.2f}",
            _tell(None if name == "workers" else cpu[at], "{:,.2f}"),
            _tell(cpu_more[at], "{:+.0%}"),
            f"{point.memory_bytes / 1000:,.0f}",
            _tell(None if name == "workers" else memory[at], "{:,.0f}"),
            _tell(memory_more[at], "{:+.0%}"),
        )
        for at, point in enumerate(points)
    ]
    head = (name, "CPU ms", "us for one more", "than before", "memory kB", "B for one more")
    return render_table((*head, "than before"), rows)


def _tell(value: float | None, form: str) -> str:
    return _NONE if value is None else form.format(value)


def fill_in(document: str, sections: Mapping[str, str]) -> str:
    """`document` with each section in its place.

    Raises:
        ValueError: the document has no place for one.
    """
    for name, text in sections.items():
        begin, end = f"<!-- bench: {name} -->\n", "<!-- end -->"
        before, found, after = document.partition(begin)
        if not found or end not in after:
            raise ValueError(f"the document has no place for {name}")
        document = before + begin + text + end + after.partition(end)[2]
    return document


if __name__ == "__main__":
    _document = Path(sys.argv[2])
    _sections = render_sections(Results.read(Path(sys.argv[1])))
    _document.write_text(fill_in(_document.read_text(), _sections))
