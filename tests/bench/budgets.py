"""The goals, and whether the figures meet them. Nothing fails by time: who reads judges.

The goals are those the project set itself before it was written, beside the bare relay of
``relay.py``.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.bench.growth import find_deviations
from tests.bench.plan import CALM, GEMINI, JSON, MESSAGES, PACED, RESPONSES, SLOW, STREAMS
from tests.bench.results import find_difference, find_ratio, middle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.growth import Figure
    from tests.bench.measuring import Figures
    from tests.bench.results import Results

__all__ = ("Budget", "judge")

MB = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """One goal, and a figure that meets it or does not."""

    what: str
    goal: str
    figure: str
    met: bool


def judge(results: Results) -> list[Budget]:
    """All goals of which there are figures."""
    return [
        *_judge_works(results),
        *_judge_apis(results),
        *_judge_delays(results),
        *_judge_web_sockets(results),
        *_judge_backlogs(results),
        *_judge_memory(results),
        *_judge_growths(results),
    ]


def _most(what: str, goal: float, figure: float, unit: str = "") -> Budget:
    return Budget(
        what=what,
        goal=f"at most {goal:g}{unit}",
        figure=f"{figure:.3g}{unit}",
        met=figure <= goal,
    )


def _least(what: str, goal: float, figure: float, unit: str) -> Budget:
    return Budget(
        what=what,
        goal=f"at least {goal:g}{unit}",
        figure=f"{figure:.3g}{unit}",
        met=figure >= goal,
    )


def _judge_works(results: Results) -> Iterator[Budget]:
    goals = ((JSON, "JSON requests/s", 0.8, 3, 20), (STREAMS, "200-chunk streams/s", 0.7, 2, 100))
    for work, what, rate, cpu, times in goals:
        found = results.works.get(work.name, {})
        if not found.get("spantap"):
            continue
        if bare := found.get("bare"):
            ratio = find_ratio(found["spantap"], bare, lambda f: f.answers_per_second)
            yield _least(what, rate, ratio, " x bare")
            ratio = find_ratio(found["spantap"], bare, lambda f: f.cpu_seconds)
            yield _most(f"CPU for {what.removesuffix('/s')}, all processes", cpu, ratio, " x bare")
        if slow := found.get(SLOW):
            ratio = find_ratio(found["spantap"], slow, lambda f: f.answers_per_second)
            yield _least(what, times, ratio, " x LiteLLM")


def _judge_apis(results: Results) -> Iterator[Budget]:
    """CPU for streams of the newer APIs, beside a chat stream of as many deltas.

    An event of theirs has up to half as many bytes again as one of a chat, and the last ones tell
    the whole text up to four times: what the worker saves telemetry spends.
    """
    chats = results.works.get(STREAMS.name, {}).get("spantap")
    for work in (RESPONSES, MESSAGES, GEMINI):
        found = results.works.get(work.name, {}).get("spantap")
        if chats and found:
            ratio = find_ratio(found, chats, _cpu_seconds_of_both)
            yield _most(f"CPU for {work.name}, worker and telemetry", 1.3, ratio, " x chat")


def _cpu_seconds_of_both(figures: Figures) -> float:
    return figures.cpu_seconds_per_1000["worker"] + figures.cpu_seconds_per_1000["telemetry"]


def _judge_delays(results: Results) -> Iterator[Budget]:
    for work in (PACED, CALM):
        found = results.works.get(work.name, {})
        if found.get("spantap") and found.get("bare"):
            more = find_difference(
                found["spantap"], found["bare"], lambda figures: figures.chunk_delay_p99_ms or 0
            )
            yield _most(f"{work.name}: p99 delay over bare's", 1, more, " ms")
    if stalls := results.big_bodies.get("spantap"):
        more = statistics.median(stall.more_ms for stall in stalls)
        bodies = "20 MB each second, an image, messages and small values by turns"
        # Small values are the costliest to scan; a stream's own jitter is some 1.5 ms.
        yield _most(f"{bodies}: p99 delay of other streams, more", 10, more, " ms")


def _judge_web_sockets(results: Results) -> Iterator[Budget]:
    found, bare = (results.web_sockets.get(name) for name in ("spantap", "bare"))
    if found and bare:
        ratio = find_ratio(found, bare, lambda figures: figures.messages_per_second)
        yield _least("messages of WebSockets/s", 1, ratio, " x bare")
        what = "500 WebSockets, {} of what bare carries: p99 delay over bare's"
        more = find_difference(found, bare, lambda figures: figures.delay_p99_ms)
        yield _most(what.format("half"), 1, more, " ms")
        more = find_difference(found, bare, lambda figures: figures.calm_p99_ms)
        yield _most(what.format("a fifth"), 1, more, " ms")


def _judge_backlogs(results: Results) -> Iterator[Budget]:
    rounds = [one for found in results.works.values() for one in found.get("spantap", ())]
    if not rounds:
        return
    yield _most(
        "backlog after a load, the longest", 10, max(r.backlog_seconds for r in rounds), " s"
    )
    yield _most("spans dropped, all works", 0, sum(r.dropped for r in rounds))
    missing = sum(r.exchanges - r.spans for r in rounds)
    yield _most("exchanges without a whole span at the backend, all works", 0, missing)
    if results.saturation:
        missing = sum(abs(one.answers - one.whole_spans) for one in results.saturation.values())
        yield _most("and after a load that does not rest", 0, missing)
    starts = sorted(r.start_seconds for r in rounds)
    yield _most("start to the first answer, median", 1.5, starts[len(starts) // 2], " s")


def _judge_memory(results: Results) -> Iterator[Budget]:
    if rounds := results.open_streams.get("spantap"):
        held = middle(rounds)
        idle, busy = sum(held.idle_bytes.values()), sum(held.open_bytes.values())
        yield _most("memory, idle", 150, idle / MB, " MB")
        yield _most(
            f"memory with {held.streams:,.0f} streams open, more", 100, (busy - idle) / MB, " MB"
        )


def _judge_growths(results: Results) -> Iterator[Budget]:
    figures: tuple[tuple[Figure, str], ...] = (("cpu_us", "CPU time"), ("memory_bytes", "memory"))
    for name, points in results.growths.items():
        for figure, what in figures:
            found = [off for off in find_deviations(name, points, figure) if off is not None]
            if found:
                text = f"growth with {name}: {what} of one more than at a smaller count, more"
                yield _most(text, 20, max(found) * 100, " %")
