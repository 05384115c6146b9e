"""``telemetry.recording.call_rows``: all rows of a call, and what a defect takes from it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from opentelemetry.sdk.resources import Resource

from telemetry.conversations.conversations import Conversations
from telemetry.fault_log import FaultLog
from telemetry.observing.crash_counter import CrashCounter
from telemetry.observing.observation import OBSERVER_FAILED
from telemetry.pricing.price_table import Price, PriceTable
from telemetry.pricing.pricing import Pricing
from telemetry.recording.call_rows import CallRows, RecordedCall
from telemetry.spans.recorder import SpanRecorder, build_span_limits
from telemetry.spans.rules import SpanRules
from tests.telemetry.observed import observe
from tests.telemetry.tap_frames import ANSWER, exchange_frames

if TYPE_CHECKING:
    from telemetry.observing.exchange import Exchange

RULES = SpanRules(pricing=Pricing(PriceTable([Price(model="*", input=1e6, output=0.0)])))


@pytest.fixture
def recorder() -> SpanRecorder:
    return SpanRecorder(Resource.get_empty(), build_span_limits(), RULES)


@pytest.fixture
def call_rows(recorder: SpanRecorder) -> CallRows:
    return CallRows(
        Conversations(),
        recorder,
        RULES,
        crashes=CrashCounter(),
        faults=FaultLog(time.time_ns),
        now_ns=time.time_ns,
    )


@pytest.fixture
def exchange() -> Exchange:
    return observe(exchange_frames(ANSWER))


def _fail(*_: object) -> Any:
    raise ZeroDivisionError


def test_a_call_becomes_a_row_with_its_position_and_price(
    call_rows: CallRows, exchange: Exchange
) -> None:
    recorded = call_rows.tell(exchange)
    assert recorded.row is not None
    assert (recorded.row.columns.conversation, recorded.row.columns.turn) == (1, 1)
    assert recorded.cost_usd == recorded.row.columns.cost_usd == 3.0
    assert (recorded.derived_rows, recorded.open_runs) == ((), {})
    assert (recorded.lacks_content, recorded.is_lost) == (False, False)


def test_a_call_that_gets_no_span_has_a_price(call_rows: CallRows, exchange: Exchange) -> None:
    """It was sampled out, and is of no conversation that is recorded."""
    unsampled = exchange.identity.as_sampled(sampled=False)
    assert call_rows.tell(replace(exchange, identity=unsampled)) == RecordedCall(cost_usd=3.0)


@pytest.mark.parametrize(
    ("step", "lost"),
    [
        ("telemetry.conversations.conversations.Conversations.follow", "conversation"),
        ("telemetry.recording.call_rows.build_columns", "preview"),
    ],
)
def test_a_step_that_fails_costs_its_result_alone(
    step: str,
    lost: str,
    call_rows: CallRows,
    exchange: Exchange,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(step, _fail)
    recorded = call_rows.tell(exchange)
    assert recorded.row is not None
    assert getattr(recorded.row.columns, lost) is None
    assert (recorded.lacks_content, recorded.is_lost) == (False, False)


def test_a_call_whose_span_cannot_be_made_is_lost_and_has_a_price(
    call_rows: CallRows,
    recorder: SpanRecorder,
    exchange: Exchange,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither with its content nor without; nothing is raised."""
    monkeypatch.setattr(recorder, "record", _fail)
    expected = RecordedCall(cost_usd=3.0, lacks_content=True, is_lost=True)
    assert call_rows.tell(exchange) == expected


def test_the_price_of_a_call_without_a_span_is_looked_up_once(
    call_rows: CallRows,
    recorder: SpanRecorder,
    exchange: Exchange,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A defect took its content, and without that no span is wanted. A fault is logged once."""
    looked_up = []

    def record(seen: Exchange) -> None:
        if OBSERVER_FAILED not in seen.anomalies:
            raise ZeroDivisionError

    def fail(priced: Exchange) -> None:
        looked_up.append(priced)
        raise ZeroDivisionError

    monkeypatch.setattr(recorder, "record", record)
    monkeypatch.setattr(RULES.pricing, "price", fail)
    assert call_rows.tell(exchange) == RecordedCall(lacks_content=True)
    assert looked_up == [exchange]
    assert caplog.text.count("a call is not in the metrics") == 1
