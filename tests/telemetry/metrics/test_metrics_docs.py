"""``docs/metrics.md`` has every metric."""

from __future__ import annotations

from pathlib import Path

from telemetry.metrics.instruments import INSTRUMENTS

PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"


def test_the_page_lists_every_metric_as_it_is() -> None:
    """Name, Prometheus' name, kind, its own labels and what it means, in the table's order."""
    table = PAGE.read_text(encoding="utf-8").partition("<!-- instruments -->")[2]
    lines = [line for line in table.partition("<!-- end -->")[0].splitlines() if "`" in line]
    assert len(lines) == len(INSTRUMENTS)
    for instrument, line in zip(INSTRUMENTS, lines, strict=True):
        name, prometheus, kind, labels, meaning = (c.strip() for c in line.strip("|").split("|"))
        assert (name, prometheus) == (f"`{instrument.name}`", f"`{instrument.prometheus_name}`")
        assert (kind, meaning) == (instrument.kind.value, instrument.description)
        own = instrument.labels[6:] if labels.startswith("of a call") else instrument.labels
        assert all(f"`{label}`" in labels for label in own)
