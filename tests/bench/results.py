"""What a benchmark came to, every round of it, as it is kept in a file."""

from __future__ import annotations

import dataclasses
import datetime as dt
import importlib.metadata
import os
import platform
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from tests.bench.big_bodies import Stall
from tests.bench.growth import Point  # noqa: TC001 - msgspec looks it up
from tests.bench.measuring import Figures
from tests.bench.open_streams import OpenStreams
from tests.bench.saturation import Saturated  # noqa: TC001 - msgspec looks it up
from tests.bench.web_sockets import SocketFigures

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ("Results", "describe_machine", "find_difference", "find_ratio", "middle")

_Round = TypeVar("_Round", Figures, OpenStreams, Stall, SocketFigures)


@dataclass(slots=True, kw_only=True)
class Results:
    """All that was measured, by contestant, in the order of its rounds."""

    date: str
    machine: dict[str, str]
    works: dict[str, dict[str, list[Figures]]] = field(default_factory=dict)
    open_streams: dict[str, list[OpenStreams]] = field(default_factory=dict)
    big_bodies: dict[str, list[Stall]] = field(default_factory=dict)
    saturation: dict[str, Saturated] = field(default_factory=dict)
    web_sockets: dict[str, list[SocketFigures]] = field(default_factory=dict)
    growths: dict[str, list[Point]] = field(default_factory=dict)

    @classmethod
    def begin(cls) -> Results:
        """None so far, of here and now."""
        now = dt.datetime.now(dt.UTC)
        return cls(date=now.strftime("%Y-%m-%d %H:%M UTC"), machine=describe_machine())

    @classmethod
    def read(cls, path: Path) -> Results:
        """Those in a file.

        Raises:
            msgspec.DecodeError: the file holds something else.
        """
        return msgspec.json.decode(path.read_bytes(), type=cls)

    def write(self, path: Path) -> None:
        """Keep them."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self)) + b"\n")


def middle(rounds: Sequence[_Round]) -> _Round:
    """The median of each figure; of one that some round lacks, None."""
    members = [dataclasses.asdict(one) for one in rounds]
    return type(rounds[0])(**{name: _middle([one[name] for one in members]) for name in members[0]})


def find_ratio(
    rounds: Sequence[_Round], others: Sequence[_Round], figure: Callable[[_Round], float]
) -> float:
    """The median of the rounds' ratios: what disturbs one round disturbs both sides of it.

    Where one side has a single round, which is too slow for more, the median of the other is used.
    """
    if len(rounds) != len(others):
        return figure(middle(rounds)) / figure(middle(others))
    pairs = zip(rounds, others, strict=True)
    return statistics.median(figure(one) / figure(other) for one, other in pairs)


def find_difference(
    rounds: Sequence[_Round], others: Sequence[_Round], figure: Callable[[_Round], float]
) -> float:
    """The median of the rounds' differences, of as many rounds on both sides."""
    pairs = zip(rounds, others, strict=True)
    return statistics.median(figure(one) - figure(other) for one, other in pairs)


def describe_machine() -> dict[str, str]:
    """What the figures depend on."""
    model = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    packages = ("spantap", "aiohttp", "msgspec", "opentelemetry-sdk")
    versions = {name: importlib.metadata.version(name) for name in packages}
    return {
        "processor": f"{len(os.sched_getaffinity(0))} cores, {model}",
        "memory": f"{memory_bytes / 2**30:.0f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
    } | versions


def _middle(values: Sequence[Any]) -> Any:
    if isinstance(values[0], dict):
        return {name: _middle([value[name] for value in values]) for name in values[0]}
    return None if None in values else statistics.median(values)
