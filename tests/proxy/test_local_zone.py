"""``proxy.reading.local_zone``: times that somebody types."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from proxy.reading.local_zone import LocalZone
from telemetry.finding.filter import parse_filter

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("day", ["2026-01-31", "2026-07-31"])
def test_each_day_has_its_own_offset(day: str) -> None:
    """In winter and in summer, whatever today is."""
    local = datetime.fromisoformat(f"{day}T12:00").replace(tzinfo=LocalZone())
    offset = "+02:00" if "07" in day else "+01:00"
    assert local == datetime.fromisoformat(f"{day}T12:00{offset}")
    assert local.astimezone(UTC).astimezone(LocalZone()).isoformat() == f"{day}T12:00:00{offset}"
    assert local.tzname() == ("CEST" if "07" in day else "CET")


def test_a_filter_reads_times_by_it() -> None:
    """A clock's, a day's, and those that no clock of the system knows."""
    now_ns = int(datetime(2026, 7, 31, 13, tzinfo=UTC).timestamp()) * 1_000_000_000
    for words, written in (
        ("since:14:03", "since:2026-07-31T12:03:00Z"),
        ("since:2026-01-31", "since:2026-01-30T23:00:00Z"),
    ):
        assert str(parse_filter(words, now_ns=now_ns, zone=LocalZone())) == written
    for words in ("since:0001-01-01", "since:9999-12-31"):
        assert parse_filter(words, now_ns=now_ns, zone=LocalZone()).conditions


def test_without_a_time_there_is_no_offset() -> None:
    """As ``tzinfo`` wants it."""
    zone = LocalZone()
    assert (zone.utcoffset(None), zone.tzname(None), zone.dst(None)) == (None, None, None)
