"""The store that the benchmark of reading makes: its calls are whole, and like recorded ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from telemetry.reading.stored_calls import open_calls
from telemetry.spans.otlp.decoding import decode_spans
from tests.bench.big_store import DAYS, LONG_MESSAGES, copy_rows, play_recordings, write_store
from tests.corpus.recordings import FOLDER, NEEDS_RECORDINGS

if TYPE_CHECKING:
    from telemetry.store.rows import SpanRow

pytestmark = NEEDS_RECORDINGS

END_NS = 1_790_000_000_000_000_000
DAY_NS = 86_400_000_000_000


@pytest.fixture(scope="module")
def base() -> list[SpanRow]:
    return play_recordings(FOLDER or Path())


def test_recordings_of_many_shapes_are_played(base: list[SpanRow]) -> None:
    """Some that failed, of several APIs, models, clients and upstreams; each with its columns."""
    assert len(base) > 100
    assert 2 < sum(row.status == "ERROR" for row in base) < len(base) / 4
    assert len({row.columns.api for row in base}) >= 6
    assert 10 < len({row.model for row in base}) < 30
    assert len({row.columns.client for row in base}) > 5
    assert len({row.columns.upstream for row in base}) > 4
    assert any(row.columns.cost_usd for row in base)
    assert base[-1].columns.new_messages == LONG_MESSAGES


def test_a_copy_has_ids_and_times_of_its_own_in_its_bytes_too(base: list[SpanRow]) -> None:
    """Rule 1, and all else of its span is as it was played."""
    played = [(len(row.span), decode_spans(row.span)[0].attributes) for row in base]
    seen = set()
    for row in copy_rows(base, 500, end_ns=END_NS, seed=3):
        [span] = decode_spans(row.span)
        ids = (row.span_id, row.trace_id)
        assert (span.span_id, span.trace_id) == ids
        assert (span.start_ns, span.end_ns) == (row.start_ns, row.end_ns)
        assert (len(row.span), span.attributes) in played
        seen.add(ids)
    assert len(seen) == 500


def test_calls_are_spread_over_the_days_and_the_newest_is_long(tmp_path: Path) -> None:
    """Rules 2 and 4; a few have failed."""
    path = tmp_path / "traces.db"
    write_store(path, 2000, folder=FOLDER or Path(), end_ns=END_NS)
    with open_calls(path) as reader:
        numbers = reader.numbers(10_000)
        rows = [*reader.rows(reversed(numbers))]
    assert len(rows) == 2000
    starts = [row.start_ns for row in rows]
    assert starts == sorted(starts)
    assert starts[-1] == END_NS
    assert starts[0] == pytest.approx(END_NS - DAYS * DAY_NS, abs=DAY_NS / 100)
    assert rows[-1].columns.new_messages == LONG_MESSAGES
    assert 10 < sum(row.status == "ERROR" for row in rows) < 200
    assert len({row.columns.session for row in rows}) == 250


def test_what_is_made_depends_on_its_arguments_alone(base: list[SpanRow]) -> None:
    """Rule 3."""
    one, same = ([*copy_rows(base, 20, end_ns=END_NS, seed=1)] for _ in range(2))
    assert one == same
    assert one != [*copy_rows(base, 20, end_ns=END_NS, seed=2)]
