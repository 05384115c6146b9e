"""``telemetry.reading.limits``: how near each rate limit came."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from telemetry.reading import limits as reading_limits
from telemetry.reading.limits import find_limits, read_limits, read_metadata
from telemetry.reading.sqlite.engine import SqliteEngine
from telemetry.reading.stored_calls import open_calls
from telemetry.store.store import Store
from tests.proxy.recorded_calls import make_exchange, make_row
from tests.telemetry.reading.asking import where

if TYPE_CHECKING:
    from pathlib import Path

    from telemetry.reading.limits import Limits
    from telemetry.store.rows import SpanRow


def call(number: int, left: int, *, upstream: str = "openai", name: str = "tokens") -> SpanRow:
    """A call whose answer said that so much of a hundred was left."""
    said = {f"x-ratelimit-limit-{name}": "100", f"x-ratelimit-remaining-{name}": str(left)}
    said[f"x-ratelimit-reset-{name}"] = f"{number}s"
    return make_row(make_exchange(number, upstream=upstream, heads={"response": said}))


def find(path: Path, *rows: SpanRow, words: str = "") -> Limits:
    """The limits in a store of these calls."""
    with Store.open(path / "traces.db") as store:
        store.add([*rows])
    with open_calls(path / "traces.db") as calls:
        return calls.that(where(words)).limits(60)


def shown(found: Limits) -> list[tuple[object, ...]]:
    """What is told of each limit."""
    return [
        (one.upstream, one.lowest.name, one.lowest.left, one.lowest.reset, one.row.seq, one.calls)
        for one in found.nearest
    ]


def test_the_lowest_share_of_each_limit_is_found(tmp_path: Path) -> None:
    """With its reset and its call; of two that are alike the newer one. The nearest comes first."""
    found = find(
        tmp_path,
        call(1, 50),
        call(2, 20),
        call(3, 20),
        call(4, 90),
        call(5, 5, upstream="groq"),
        call(6, 70, name="requests"),
        make_row(make_exchange(7)),
    )
    assert shown(found) == [
        ("groq", "tokens", 0.05, "5s", 5, 1),
        ("openai", "tokens", 0.2, "3s", 3, 4),
        ("openai", "requests", 0.7, "6s", 6, 1),
    ]
    assert (found.calls, found.is_whole) == (7, True)
    assert found.nearest[0].model == "gpt-demo"


def test_a_filter_chooses_the_calls(tmp_path: Path) -> None:
    """As that of other sums."""
    found = find(tmp_path, call(1, 50), call(2, 5, upstream="groq"), words="upstream:openai")
    assert [one.upstream for one in found.nearest] == ["openai"]


def test_old_calls_have_their_limits(tmp_path: Path) -> None:
    """Before there was ``headers``, there was ``rate_limits``."""
    said = {"x-ratelimit-limit-tokens": "100", "x-ratelimit-remaining-tokens": "4"}
    found = find(tmp_path, make_row(make_exchange(1, rate_limits=said)))
    assert [one.lowest.left for one in found.nearest] == [0.04]


def test_the_newest_calls_are_read_and_no_more(tmp_path: Path) -> None:
    """It says so, also if the time is over (R5)."""
    with Store.open(tmp_path / "traces.db") as store:
        store.add([call(number, number) for number in range(1, 6)])
    engine = SqliteEngine(tmp_path / "traces.db")
    ticks = iter([False, False, True])
    for late, most, calls, lowest in (
        (lambda: False, 5, 5, 0.01),
        (lambda: False, 3, 3, 0.03),
        (lambda: next(ticks), 5, 2, 0.04),
    ):
        found = find_limits(engine, where(""), late, most)
        assert (found.calls, found.is_whole) == (calls, calls == 5)
        assert found.nearest[0].lowest.left == lowest
    engine.close()


def test_the_number_of_limits_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider may make up names; those that are known already go on."""
    monkeypatch.setattr(reading_limits, "MAX_LIMITS", 2)
    rows = [call(number, 50, name=f"n{number}") for number in range(1, 5)]
    found = find(tmp_path, *rows, call(5, 10, name="n4"))
    assert [one.lowest.name for one in found.nearest] == ["n4", "n3"]
    assert not found.is_whole


@pytest.mark.parametrize("span", [b"", b"\xff\xff", b"no span"])
def test_a_damaged_call_has_no_limits(span: bytes) -> None:
    """And breaks nothing."""
    assert read_metadata(span) == {}


@pytest.mark.parametrize("metadata", [{"rate_limits": 5, "headers": {"response": []}}, {}])
def test_metadata_of_any_form_is_read(metadata: dict[str, object]) -> None:
    """A client may have written any."""
    assert read_limits(metadata) == []
    assert read_limits({"headers": {"response": {"x-ratelimit-limit": 5}}}) == []
