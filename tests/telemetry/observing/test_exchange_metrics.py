"""``telemetry.observing.exchange_metrics``: what an exchange adds to the metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from codec.chat.answer import ChatMessage
from codec.usage import Usage
from telemetry.metrics.instruments import (
    ANOMALIES,
    CLIENT_DISCONNECTS,
    COST,
    LABEL_OVERFLOWS,
    OPERATION_DURATION,
    SPANS_KEPT_BY_RULE,
    TIME_PER_OUTPUT_CHUNK,
    TIME_TO_FIRST_CHUNK,
    TOKEN_USAGE,
    UPSTREAM_ERRORS,
    USAGE_RESENDS,
)
from telemetry.metrics.label_limit import MAX_LABEL_CHARS, OTHER
from telemetry.metrics.registry import MetricsRegistry
from telemetry.observing import exchange_metrics
from telemetry.observing.chunk_timing import ChunkClock, ChunkTiming
from telemetry.observing.exchange import Outcome
from telemetry.observing.exchange_metrics import (
    MAX_ANOMALIES,
    MAX_ERROR_TYPES,
    MAX_MODELS,
    ExchangeMetrics,
)
from tests.telemetry.exchanges import ASKED, START_NS, USAGE, make_exchange, make_response

if TYPE_CHECKING:
    from telemetry.metrics.instruments import Instrument
    from telemetry.metrics.snapshot import HistogramSeries, Snapshot
    from telemetry.observing.exchange import Exchange

CALL = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "gpt-4o",
    "gen_ai.response.model": "gpt-4o-2024-08-06",
    "server.address": "api.openai.com",
    "server.port": 443,
}
SERVER: dict[str, Any] = {"server_address": "api.openai.com", "server_port": 443}
HISTOGRAMS = (OPERATION_DURATION, TIME_TO_FIRST_CHUNK, TIME_PER_OUTPUT_CHUNK, TOKEN_USAGE)


def record(*exchanges: Exchange) -> Snapshot:
    """The numbers after some exchanges."""
    registry = MetricsRegistry()
    metrics = ExchangeMetrics(registry)
    for exchange in exchanges:
        metrics.record(exchange)
    return registry.snapshot()


def histogram(snapshot: Snapshot, instrument: Instrument) -> HistogramSeries:
    """The one series of a histogram."""
    (series,) = snapshot.histograms[instrument.name]
    return series


def labels(instrument: Instrument, series: HistogramSeries) -> dict[str, str | int]:
    """Label names to values, without absent ones."""
    pairs = zip(instrument.labels, series.labels, strict=True)
    return {name: value for name, value in pairs if value != ""}


def numbers(snapshot: Snapshot, instrument: Instrument) -> dict[object, float]:
    """The numbers of a counter by their labels."""
    return {series.labels: series.value for series in snapshot.numbers[instrument.name]}


def time_chunks(*at_ms: int) -> ChunkTiming | None:
    """Chunks that came so long after the beginning."""
    clock = ChunkClock()
    for ms in at_ms:
        clock.arrive(1, START_NS + ms * 1_000_000)
    return clock.read()


def make_stream(*at_ms: int, **members: Any) -> Exchange:
    """A streamed exchange whose chunks came so long after its beginning."""
    chunks = time_chunks(*at_ms)
    first_ns = chunks.first_ns if chunks is not None else None
    defaults: dict[str, Any] = {
        "streamed": True,
        "chunks": chunks,
        "first_chunk_ns": first_ns,
        "response": make_response(ChatMessage(content="x")),
    }
    return make_exchange(**SERVER, **{**defaults, **members})


def test_a_call() -> None:
    """Duration and tokens, labelled as in ``docs/contract/spans.md#metrics``; no chunks."""
    snapshot = record(make_exchange(response=make_response(ChatMessage(content="x")), **SERVER))
    duration = histogram(snapshot, OPERATION_DURATION)
    assert labels(OPERATION_DURATION, duration) == CALL
    assert (duration.count, duration.sum) == (1, 2.0)
    tokens = {
        labels(TOKEN_USAGE, series)["gen_ai.token.type"]: (series.count, series.sum)
        for series in snapshot.histograms[TOKEN_USAGE.name]
    }
    assert tokens == {"input": (1, 12), "output": (1, 3)}
    assert not snapshot.histograms[TIME_TO_FIRST_CHUNK.name]
    assert not snapshot.histograms[TIME_PER_OUTPUT_CHUNK.name]


def test_a_stream_is_timed_chunk_by_chunk() -> None:
    """The first chunk comes after 100 ms, the others after waits of 50 and 100 ms.

    A wait is not divided by the tokens in its chunk, because a chunk does not say how many those
    are (``docs/contract/sources.md#s0-14``). Tokens are the provider's.
    """
    usage = Usage(completion=4)
    response = make_response(ChatMessage(content="x"), usage=usage)
    snapshot = record(make_stream(100, 150, 250, response=response))
    first = histogram(snapshot, TIME_TO_FIRST_CHUNK)
    assert (first.count, first.sum) == (1, 0.1)
    assert labels(TIME_TO_FIRST_CHUNK, first) == CALL
    waits = histogram(snapshot, TIME_PER_OUTPUT_CHUNK)
    assert waits.sum == 0.15
    assert dict(zip(TIME_PER_OUTPUT_CHUNK.bounds, waits.counts, strict=False)) == {
        bound: int(bound in {0.08, 0.16}) for bound in TIME_PER_OUTPUT_CHUNK.bounds
    }
    assert histogram(snapshot, TOKEN_USAGE).sum == 4
    assert labels(TOKEN_USAGE, histogram(snapshot, TOKEN_USAGE))["gen_ai.token.type"] == "output"


def test_a_client_that_goes_away_is_recorded_all_the_same() -> None:
    """1.25 s in all, 0.25 s to the first chunk (``docs/contract/sources.md#s3-12``).

    It is no error (``docs/contract/spans.md#endings``), so the duration has no ``error.type``.
    """
    exchange = make_stream(
        250,
        outcome=Outcome.CLIENT_DISCONNECTED,
        end_ns=START_NS + 1_250_000_000,
        response=make_response(ChatMessage(content="x"), usage=None),
    )
    snapshot = record(exchange)
    duration = histogram(snapshot, OPERATION_DURATION)
    assert (duration.count, duration.sum) == (1, 1.25)
    assert labels(OPERATION_DURATION, duration) == CALL
    assert histogram(snapshot, TIME_TO_FIRST_CHUNK).sum == 0.25
    assert not snapshot.histograms[TOKEN_USAGE.name]
    assert not snapshot.histograms[TIME_PER_OUTPUT_CHUNK.name]
    assert numbers(snapshot, CLIENT_DISCONNECTS) == {(): 1}
    assert numbers(snapshot, UPSTREAM_ERRORS) == {}


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("outcome", Outcome)
def test_every_end_is_recorded_once(outcome: Outcome, streamed: bool) -> None:
    """No path loses duration, stream or usage (``docs/contract/sources.md#s3-12``)."""
    is_error = outcome not in {Outcome.COMPLETED, Outcome.CLIENT_DISCONNECTED}
    exchange = make_stream(
        100, 200, outcome=outcome, error_type=outcome.value if is_error else None
    )
    if not streamed:
        exchange = replace(exchange, streamed=False, chunks=None, first_chunk_ns=None)
    snapshot = record(exchange)
    duration = histogram(snapshot, OPERATION_DURATION)
    assert duration.count == 1
    error = {"error.type": outcome.value} if is_error else {}
    assert labels(OPERATION_DURATION, duration) == CALL | error
    assert len(snapshot.histograms[TOKEN_USAGE.name]) == 2
    assert len(snapshot.histograms[TIME_TO_FIRST_CHUNK.name]) == streamed
    assert len(snapshot.histograms[TIME_PER_OUTPUT_CHUNK.name]) == streamed


@pytest.mark.parametrize(
    ("outcome", "counted"),
    [
        (Outcome.UPSTREAM_ERROR, True),
        (Outcome.TIMEOUT, True),
        (Outcome.DRAIN_DEADLINE, False),
        (Outcome.RELAY_ERROR, False),
    ],
)
def test_errors_of_the_upstream_are_counted_by_class(outcome: Outcome, counted: bool) -> None:
    """What we cut or broke ourselves is not among them."""
    snapshot = record(make_exchange(outcome=outcome, error_type="429"))
    assert numbers(snapshot, UPSTREAM_ERRORS) == ({("429",): 1} if counted else {})


def test_a_completed_call_is_no_disconnect() -> None:
    """Nor is anything else that ended otherwise."""
    snapshot = record(make_exchange(), make_exchange(outcome=Outcome.TRUNCATED))
    assert numbers(snapshot, CLIENT_DISCONNECTS) == {(): 0}


@pytest.mark.parametrize(
    ("usage", "kinds"),
    [
        (None, set()),
        (Usage(), set()),
        (Usage(prompt=0), {"input"}),
        (replace(USAGE, prompt=None), {"output"}),
    ],
)
def test_only_reported_tokens_are_recorded(usage: Usage | None, kinds: set[str]) -> None:
    """A reported zero is a value; what was not reported is none."""
    snapshot = record(make_exchange(response=make_response(ChatMessage(content="x"), usage=usage)))
    recorded = snapshot.histograms[TOKEN_USAGE.name]
    assert {labels(TOKEN_USAGE, series)["gen_ai.token.type"] for series in recorded} == kinds


def test_waits_are_added_whole() -> None:
    """A thousand chunks are one step, and their number and sum are right."""
    snapshot = record(make_stream(*range(0, 10_000, 10)), make_stream(0, 500))
    waits = histogram(snapshot, TIME_PER_OUTPUT_CHUNK)
    assert waits.counts[0] == 999
    assert waits.count == 1000
    assert waits.sum == pytest.approx(9.99 + 0.5)


@pytest.mark.parametrize("dollars", [float("inf"), float("nan"), -1.0])
def test_costs_add_up_by_call(dollars: float) -> None:
    """Those that are amounts."""
    registry = MetricsRegistry()
    metrics = ExchangeMetrics(registry)
    exchange = make_exchange(**SERVER, provider="openai")
    for amount in (0.25, 0.5, dollars):
        metrics.record_cost(exchange, amount)
    (series,) = registry.snapshot().numbers[COST.name]
    told = CALL | {"gen_ai.response.model": "", "cost.basis": ""}
    assert dict(zip(COST.labels, series.labels, strict=True)) == told
    assert series.value == 0.75
    metrics.record_cost(exchange, 9.0, "list")
    spent, listed = registry.snapshot().numbers[COST.name]
    assert (spent.value, listed.value) == (0.75, 9.0), "what a subscription pays is apart"
    assert listed.labels == (*spent.labels[:-1], "list")


def test_nothing_is_known() -> None:
    """Of a request that nobody could read, only what is known is a label."""
    snapshot = record(make_exchange(request=None, endpoint="embeddings"))
    duration = histogram(record(replace(make_exchange(), request=None)), OPERATION_DURATION)
    assert labels(OPERATION_DURATION, duration) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai_compatible",
    }
    duration = histogram(snapshot, OPERATION_DURATION)
    assert labels(OPERATION_DURATION, duration)["gen_ai.operation.name"] == "embeddings"


def test_the_provider_is_the_one_of_the_settings() -> None:
    """In the conventions' spelling."""
    duration = histogram(record(make_exchange(provider="xai")), OPERATION_DURATION)
    assert labels(OPERATION_DURATION, duration)["gen_ai.provider.name"] == "x_ai"


def test_a_clock_that_was_put_back_takes_nothing_away() -> None:
    """The sums of histograms only grow."""
    chunks = ChunkTiming(
        count=2, first_ns=START_NS, last_ns=START_NS - 5, longest_wait_ns=0, wait_counts=(1,) * 15
    )
    snapshot = record(
        make_stream(0, end_ns=START_NS - 1, first_chunk_ns=START_NS - 1, chunks=chunks)
    )
    sums = {
        instrument.name: histogram(snapshot, instrument).sum
        for instrument in HISTOGRAMS
        if instrument is not TOKEN_USAGE
    }
    assert set(sums.values()) == {0.0}


def test_re_sent_kept_and_odd_exchanges_are_counted() -> None:
    """Each under its name."""
    snapshot = record(
        make_exchange(resend_count=1, anomalies=("no_usage", "foreign_chunk")),
        make_exchange(kept_by="slow", anomalies=("no_usage",)),
    )
    assert numbers(snapshot, USAGE_RESENDS) == {(): 1}
    assert numbers(snapshot, SPANS_KEPT_BY_RULE) == {("slow",): 1}
    assert numbers(snapshot, ANOMALIES) == {("no_usage",): 2, ("foreign_chunk",): 1}


def test_models_are_bounded() -> None:
    """200 names, asked for and answered together, and then ``_other``, counted."""
    snapshot = record(
        *(
            make_exchange(
                ASKED | {"model": f"asked-{number}"},
                response=make_response(model="answered"),
            )
            for number in range(MAX_MODELS + 4)
        )
    )
    asked = [
        labels(OPERATION_DURATION, series)["gen_ai.request.model"]
        for series in snapshot.histograms[OPERATION_DURATION.name]
    ]
    assert len(asked) == MAX_MODELS  # one place is the answered one's
    assert asked[-1] == OTHER
    assert numbers(snapshot, LABEL_OVERFLOWS) == {("model",): 5}


@pytest.mark.parametrize(
    "model", ["m" * 10_000_000, "\ud800\x00\n", 7, None, ["x"], {"a": 1}, 10**400, float("nan")]
)
def test_hostile_models_are_labels(model: object) -> None:
    """Whatever a client calls its model, the label is short text that can be encoded."""
    duration = histogram(record(make_exchange(ASKED | {"model": model})), OPERATION_DURATION)
    label = labels(OPERATION_DURATION, duration).get("gen_ai.request.model", "")
    assert isinstance(label, str)
    assert len(label.encode()) <= 128


def test_classes_of_errors_and_anomalies_are_bounded() -> None:
    """A provider's error codes are its own to make up."""
    exchanges = [
        make_exchange(
            outcome=Outcome.STREAM_ERROR, error_type=f"e{number}", anomalies=(f"a{number}",)
        )
        for number in range(max(MAX_ERROR_TYPES, MAX_ANOMALIES) + 1)
    ]
    snapshot = record(*exchanges)
    assert len(numbers(snapshot, UPSTREAM_ERRORS)) == MAX_ERROR_TYPES + 1
    assert numbers(snapshot, UPSTREAM_ERRORS)[OTHER,] == 1
    assert numbers(snapshot, ANOMALIES)[OTHER,] == 1
    assert numbers(snapshot, LABEL_OVERFLOWS) == {("error.type",): 1, ("anomaly",): 1}


_MODELS = st.sampled_from(("a", "b", "c", "d", "\u200b", "x" * (MAX_LABEL_CHARS + 1), OTHER, None))


@given(st.lists(st.tuples(_MODELS, _MODELS, st.sampled_from((None, "a.example", "b.example")))))
def test_remembered_labels_are_those_that_would_be_made_again(
    calls: list[tuple[str | None, str | None, str | None]],
) -> None:
    """Whatever came before, and whatever a limit made of it: numbers and overflows are the same."""
    exchanges = [
        make_exchange(
            ASKED | {"model": asked},
            response=make_response(ChatMessage(content="x"), model=answered),
            server_address=address,
        )
        for asked, answered, address in calls
    ]
    with patch.object(exchange_metrics, "MAX_MODELS", 3):
        remembered = record(*exchanges)
        with patch.object(exchange_metrics, "MAX_CALLS", 0):
            made_again = record(*exchanges)
    assert remembered.histograms == made_again.histograms
    assert remembered.numbers == made_again.numbers


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the number of kinds of calls, and by the length of what a client may name."""
    monkeypatch.setattr(exchange_metrics, "MAX_CALLS", 2)
    metrics = ExchangeMetrics(MetricsRegistry())
    for model in ("x" * 1_000, "a", "b", "c"):
        metrics.record(make_exchange(ASKED | {"model": model}))
    assert len(metrics._labels) == 2
    assert "x" * 1_000 not in {made_of[4] for made_of in metrics._labels}
