"""Snapshots as Prometheus reads them: the text format, version 0.0.4.

See "Exposition formats" in Prometheus' documentation.
"""

from __future__ import annotations

import math
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from telemetry.metrics.instruments import INSTRUMENTS, prometheus_label

if TYPE_CHECKING:
    from collections.abc import Iterator

    from telemetry.metrics.instruments import Instrument
    from telemetry.metrics.snapshot import Labels, Snapshot

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""The content type of what :func:`render` returns, in UTF-8."""


def render(snapshot: Snapshot) -> str:
    """The text of `snapshot`; metrics without series are left out."""
    lines: list[str] = []
    for instrument in INSTRUMENTS:
        if samples := [*_samples(instrument, snapshot)]:
            name = instrument.prometheus_name
            lines.append(f"# HELP {name} {_escape(instrument.description)}")
            lines.append(f"# TYPE {name} {instrument.kind}")
            lines.extend(samples)
    return "".join(f"{line}\n" for line in lines)


def _samples(instrument: Instrument, snapshot: Snapshot) -> Iterator[str]:
    name = instrument.prometheus_name
    for number in snapshot.numbers.get(instrument.name, ()):
        yield f"{name}{_braced(_pairs(instrument, number.labels))} {_number(number.value)}"
    bounds = [_pair("le", _number(bound)) for bound in (*instrument.bounds, math.inf)]
    for histogram in snapshot.histograms.get(instrument.name, ()):
        pairs = _pairs(instrument, histogram.labels)
        for bound, count in zip(bounds, accumulate(histogram.counts), strict=True):
            yield f"{name}_bucket{_braced([*pairs, bound])} {count}"
        yield f"{name}_sum{_braced(pairs)} {_number(histogram.sum)}"
        yield f"{name}_count{_braced(pairs)} {histogram.count}"


def _pairs(instrument: Instrument, labels: Labels) -> list[str]:
    pairs = zip(instrument.labels, labels, strict=True)
    return [_pair(prometheus_label(name), str(value)) for name, value in pairs if value != ""]


def _pair(name: str, value: str) -> str:
    escaped = _escape(value).replace('"', r"\"")
    return f'{name}="{escaped}"'


def _braced(pairs: list[str]) -> str:
    return f"{{{','.join(pairs)}}}" if pairs else ""


def _number(value: float) -> str:
    return "+Inf" if value == math.inf else repr(value)


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")
