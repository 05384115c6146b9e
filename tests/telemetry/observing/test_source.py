"""``telemetry.observing.source``: what has become of a worker's exchanges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from opentelemetry.sdk.resources import Resource

from telemetry import waiting_rows
from telemetry.errors import StoreUnavailable
from telemetry.frames.frame import Begin, End
from telemetry.service import TelemetryService
from telemetry.spans.otlp.decoding import decode_spans
from telemetry.spans.recorder import SpanRecorder, build_span_limits
from telemetry.store.store import Store
from tests.telemetry import tap_frames
from tests.telemetry.service_bench import Bench, FailingStore
from tests.telemetry.tap_frames import DONE, HEL, ROLE, STOP, WHOLE_STREAM, exchange_frames

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def bench() -> Bench:
    return Bench(FailingStore())


def test_an_exchange_is_settled_by_the_commit_of_its_span(bench: Bench) -> None:
    """Not by its end, and told once."""
    service = bench.service
    source = service.open_source()
    source.feed(*exchange_frames(*WHOLE_STREAM, number=3))
    assert source.pop_acks().settled == []
    service.commit()
    assert source.pop_acks().settled == [3]
    assert source.pop_acks().settled == []


def test_what_the_store_does_not_take_is_not_settled(bench: Bench) -> None:
    """It is when the store takes it later."""
    service = bench.service
    source = service.open_source()
    source.feed(*exchange_frames(*WHOLE_STREAM, number=3))
    bench.store.error = StoreUnavailable("full")
    service.commit()
    assert source.pop_acks().settled == []
    bench.store.error = None
    service.commit()
    assert source.pop_acks().settled == [3]


def test_what_is_given_up_is_settled(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dropped for want of memory, and counted: to send it again would not help."""
    monkeypatch.setattr(waiting_rows, "MAX_WAITING_BYTES", 1)
    service = bench.service
    source = service.open_source()
    bench.store.error = StoreUnavailable("full")
    service.commit()
    source.feed(*exchange_frames(*WHOLE_STREAM, number=3))
    assert service.counts.dropped == 1
    assert source.pop_acks().settled == [3]


def test_what_no_span_is_wanted_of_is_settled_at_its_end(bench: Bench) -> None:
    """Unsampled calls, and ends of exchanges that nobody began."""
    service = bench.service
    source = service.open_source()
    begin, *rest = exchange_frames(*WHOLE_STREAM, number=4)
    assert isinstance(begin, Begin)
    unsampled = msgspec.structs.replace(begin, identity=tap_frames.identity(4, trace_flags=0))
    source.feed(unsampled, *rest, tap_frames.end(99))
    assert source.pop_acks().settled == [4, 99]
    assert bench.store.rows == []


def test_numbers_of_two_workers_do_not_meet(bench: Bench) -> None:
    """Each has its exchange 1, and each is told of its own."""
    service = bench.service
    one, other = service.open_source(), service.open_source()
    begin, *rest = exchange_frames(*WHOLE_STREAM, number=1)
    assert isinstance(begin, Begin)
    second = msgspec.structs.replace(begin, identity=tap_frames.identity(2))
    for pair in zip([begin, *rest], [second, *rest], strict=True):
        one.feed(pair[0])
        other.feed(pair[1])
    service.commit()
    assert (one.pop_acks().settled, other.pop_acks().settled) == ([1], [1])
    assert sorted(row.span_id for row in bench.store.rows) == [
        tap_frames.identity(number).span_id for number in (1, 2)
    ]


def test_what_is_open_when_its_worker_is_lost_ends_as_worker_lost(tmp_path: Path) -> None:
    """ERROR ``worker_lost`` with the partial output; what had ended is not touched (R3)."""
    with Store.open(tmp_path / "t.db") as real:
        recorder = SpanRecorder(Resource.get_empty(), build_span_limits())
        service = TelemetryService(recorder, real, now_ns=lambda: tap_frames.START_NS)
        source = service.open_source()
        source.feed(*exchange_frames(*WHOLE_STREAM, number=1))
        whole = exchange_frames(ROLE, HEL, number=2)
        source.feed(*whole[:-1])
        source.feed(*exchange_frames(ROLE, HEL, STOP, DONE, number=3)[:-1])
        assert isinstance(whole[-1], End)
        assert len(source) == 2
        assert source.lose(tap_frames.START_NS + 5, "the worker process 7 ended") == 2
        assert source.lose(tap_frames.START_NS + 6, "again") == 0
        service.commit()
        spans = {
            row.span_id: decode_spans(row.span)[0]
            for row in real.read_due(10, 1 << 20, tap_frames.START_NS)
        }
    lost = spans[tap_frames.identity(2).span_id]
    assert lost.attributes["llm.output_messages.0.message.content"] == "Hel"
    assert "llm.token_count.total" not in lost.attributes
    assert (lost.status, lost.status_message) == (
        "ERROR",
        "worker_lost: the worker process 7 ended",
    )
    # Its [DONE] was read, and so relayed: complete, whoever goes next
    # (``docs/contract/promises.md#endings``).
    assert spans[tap_frames.identity(3).span_id].status == "OK"
