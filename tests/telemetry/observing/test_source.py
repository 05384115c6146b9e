"""``telemetry.observing.source``: what has become of a worker's exchanges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from opentelemetry.sdk.resources import Resource

from telemetry import service as service_module
from telemetry.errors import StoreUnavailable
from telemetry.frames.ending import EndKind
from telemetry.frames.frame import Begin, End
from telemetry.observing.exchange import Outcome
from telemetry.service import TelemetryService
from telemetry.spans.otlp.encoding import decode_spans
from telemetry.spans.recorder import SpanRecorder, build_span_limits
from telemetry.store.store import Store
from tests.telemetry import tap_frames
from tests.telemetry.service_bench import FailingStore
from tests.telemetry.tap_frames import DONE, HEL, ROLE, STOP, WHOLE_STREAM, exchange_frames

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from telemetry.frames.frame import Frame
    from telemetry.observing.source import FrameSource


def make_service(store: FailingStore) -> TelemetryService:
    """A service before a store that fails as told."""
    recorder = SpanRecorder(Resource.get_empty(), build_span_limits())
    return TelemetryService(recorder, store, now_ns=lambda: tap_frames.START_NS)  # type: ignore[arg-type]  # quacks


@pytest.fixture
def store() -> FailingStore:
    return FailingStore()


def feed(source: FrameSource, frames: Iterable[Frame]) -> None:
    for frame in frames:
        source.feed(frame)


def test_rule_1_an_exchange_is_settled_by_the_commit_of_its_span(store: FailingStore) -> None:
    """Not by its end, and told once."""
    service = make_service(store)
    source = service.open_source()
    feed(source, exchange_frames(*WHOLE_STREAM, number=3))
    assert source.take_settled() == []
    service.commit()
    assert source.take_settled() == [3]
    assert source.take_settled() == []


def test_rule_1_what_the_store_does_not_take_is_not_settled(store: FailingStore) -> None:
    """It is when the store takes it later."""
    service = make_service(store)
    source = service.open_source()
    feed(source, exchange_frames(*WHOLE_STREAM, number=3))
    store.error = StoreUnavailable("full")
    service.commit()
    assert source.take_settled() == []
    store.error = None
    service.commit()
    assert source.take_settled() == [3]


def test_rule_1_what_is_given_up_is_settled(
    store: FailingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dropped for want of memory, and counted: to send it again would not help."""
    monkeypatch.setattr(service_module, "MAX_WAITING_BYTES", 1)
    service = make_service(store)
    source = service.open_source()
    store.error = StoreUnavailable("full")
    service.commit()
    feed(source, exchange_frames(*WHOLE_STREAM, number=3))
    assert service.counts.dropped == 1
    assert source.take_settled() == [3]


def test_rule_1_what_no_span_is_wanted_of_is_settled_at_its_end(store: FailingStore) -> None:
    """Unsampled calls, and ends of exchanges that nobody began."""
    service = make_service(store)
    source = service.open_source()
    begin, *rest = exchange_frames(*WHOLE_STREAM, number=4)
    assert isinstance(begin, Begin)
    unsampled = msgspec.structs.replace(begin, identity=tap_frames.identity(4, trace_flags=0))
    feed(source, [unsampled, *rest, tap_frames.end(99)])
    assert source.take_settled() == [4, 99]
    assert store.rows == []


def test_numbers_of_two_workers_do_not_meet(store: FailingStore) -> None:
    """Each has its exchange 1, and each is told of its own."""
    service = make_service(store)
    one, other = service.open_source(), service.open_source()
    begin, *rest = exchange_frames(*WHOLE_STREAM, number=1)
    assert isinstance(begin, Begin)
    second = msgspec.structs.replace(begin, identity=tap_frames.identity(2))
    for pair in zip([begin, *rest], [second, *rest], strict=True):
        one.feed(pair[0])
        other.feed(pair[1])
    service.commit()
    assert (one.take_settled(), other.take_settled()) == ([1], [1])
    assert sorted(row.span_id for row in store.rows) == [
        tap_frames.identity(number).span_id for number in (1, 2)
    ]


def test_rule_2_what_is_open_when_its_worker_is_lost_ends_as_worker_lost(tmp_path: Path) -> None:
    """ERROR ``worker_lost`` with the partial output; what had ended is not touched (R3)."""
    with Store.open(tmp_path / "t.db") as real:
        recorder = SpanRecorder(Resource.get_empty(), build_span_limits())
        service = TelemetryService(recorder, real, now_ns=lambda: tap_frames.START_NS)
        source = service.open_source()
        feed(source, exchange_frames(*WHOLE_STREAM, number=1))
        whole = list(exchange_frames(ROLE, HEL, number=2))
        feed(source, whole[:-1])
        feed(source, list(exchange_frames(ROLE, HEL, STOP, DONE, number=3))[:-1])
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
    # Its [DONE] was read, and so relayed: complete, whoever goes next (design.md section 6).
    assert spans[tap_frames.identity(3).span_id].status == "OK"


def test_a_worker_lost_has_its_own_outcome() -> None:
    """Of ``end`` frames and of exchanges the word is the same."""
    assert EndKind.WORKER_LOST.value == Outcome.WORKER_LOST.value == "worker_lost"
