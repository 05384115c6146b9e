"""What is run: the works, how many rounds, how large."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tests.bench.big_bodies import BigBodies
from tests.bench.measuring import Work
from tests.bench.saturation import Saturation
from tests.bench.web_sockets import WebSockets

__all__ = (
    "CALM",
    "FULL",
    "GEMINI",
    "JSON",
    "MESSAGES",
    "PACED",
    "QUICK",
    "RESPONSES",
    "SLOW",
    "STREAMS",
    "Plan",
    "slow_work",
)

SLOW = "litellm"
"""A contestant so slow that it takes part in one round, and in few works with few requests."""

_SLOW_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A run.

    Attributes:
        rounds: of every contestant.
        growths: counts by what grows, each with its number of exchanges.
        growth_rounds: of each: what one more unit costs is a small difference of two figures.
    """

    rounds: int
    works: tuple[Work, ...]
    open_streams: int
    big_bodies: BigBodies
    saturation: Saturation
    web_sockets: WebSockets
    growths: dict[str, dict[int, int]] = field(default_factory=dict)
    growth_rounds: int = 1


JSON = Work(name="JSON", mode="json", connections=32, requests=8000)
STREAMS = Work(name="200-chunk streams", mode="stream", connections=32, requests=2000)
RESPONSES = replace(STREAMS, name="200-delta streams of Responses", api="responses")
MESSAGES = replace(STREAMS, name="200-delta streams of Messages", api="messages")
GEMINI = replace(STREAMS, name="200-chunk streams of Gemini", api="gemini")
_AT_ONCE = Work(
    name="500 streams begun at once",
    mode="stream",
    connections=500,
    requests=1000,
    chunks=200,
    rate=50,
)
PACED = replace(
    _AT_ONCE,
    name="500 streams at 50 chunks/s",
    connections=520,  # a stream takes a little longer than its chunks
    requests=2000,
    starts_per_second=125,
)
"""As many open all the time, whose calls and chunks are spread over time: what is measured is the
relay, not a burst of 500 calls."""
CALM = replace(
    PACED,
    name="250 streams at 50 chunks/s",
    connections=260,
    requests=1000,
    starts_per_second=62.5,
)

FULL = Plan(
    rounds=3,
    works=(
        JSON,
        STREAMS,
        RESPONSES,
        MESSAGES,
        GEMINI,
        PACED,
        CALM,
        _AT_ONCE,
        Work(name="2,000 connections at once", mode="json", connections=2000, requests=2000),
    ),
    open_streams=1000,
    big_bodies=BigBodies(),
    saturation=Saturation(),
    web_sockets=WebSockets(),
    growths={
        "chunks of a stream": {10: 4000, 100: 1500, 1000: 300, 10_000: 48},
        "open streams": dict.fromkeys((1, 10, 100, 500, 1000, 2000), 0),
        "messages of a chat": {1: 6000, 10: 6000, 100: 4000, 1000: 600},
        "workers": {1: 4000, 2: 8000},
    },
    growth_rounds=6,
)

_LESS = 8
"""Of everything that is counted."""

QUICK = Plan(
    rounds=1,
    works=tuple(
        replace(
            work,
            requests=max(work.connections, work.requests // _LESS),
            chunks=100 if work.rate else work.chunks,
            starts_per_second=work.starts_per_second * 2,  # of streams half as long
        )
        for work in FULL.works
    ),
    open_streams=FULL.open_streams,
    big_bodies=replace(FULL.big_bodies, seconds=4),
    saturation=replace(FULL.saturation, seconds=4),
    web_sockets=replace(FULL.web_sockets, deltas=50),
    growths={
        name: {count: max(count_of // _LESS, 16) for count, count_of in counts.items()}
        for name, counts in FULL.growths.items()
    },
)


def slow_work(work: Work) -> Work | None:
    """What of a work the slow contestant does: the two that are told in its ratios, or nothing."""
    if work.rate or work.api != "chat" or work.connections > JSON.connections:
        return None
    return replace(work, requests=max(1, work.requests // 20), seconds=_SLOW_SECONDS)
