"""``telemetry.metrics.instruments``: the table of all metrics."""

from __future__ import annotations

import re

import pytest
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics

from telemetry.metrics import instruments as table
from telemetry.metrics.instruments import INSTRUMENTS, Instrument, Kind, prometheus_label

CONTRACT_BUCKETS = {
    "gen_ai.client.token.usage": (
        "1,4,16,64,256,1024,4096,16384,65536,262144,1048576,4194304,16777216,67108864"
    ),
    **dict.fromkeys(
        (
            "gen_ai.client.operation.duration",
            "gen_ai.client.operation.time_to_first_chunk",
            "gen_ai.client.operation.time_per_output_chunk",
        ),
        "0.01,0.02,0.04,0.08,0.16,0.32,0.64,1.28,2.56,5.12,10.24,20.48,40.96,81.92",
    ),
}
"""As ``docs/contract/spans.md#metrics`` writes them."""


def test_histograms_are_those_of_the_conventions() -> None:
    """Names and buckets are the contract's, and there are no others."""
    buckets = {
        instrument.name: instrument.bounds
        for instrument in INSTRUMENTS
        if instrument.kind is Kind.HISTOGRAM
    }
    assert buckets == {
        name: tuple(map(float, bounds.split(","))) for name, bounds in CONTRACT_BUCKETS.items()
    }


@pytest.mark.parametrize(
    ("instrument", "name"),
    [
        (table.TOKEN_USAGE, gen_ai_metrics.GEN_AI_CLIENT_TOKEN_USAGE),
        (table.OPERATION_DURATION, gen_ai_metrics.GEN_AI_CLIENT_OPERATION_DURATION),
        (
            table.TIME_TO_FIRST_CHUNK,
            gen_ai_metrics.GEN_AI_CLIENT_OPERATION_TIME_TO_FIRST_CHUNK,
        ),
        (
            table.TIME_PER_OUTPUT_CHUNK,
            gen_ai_metrics.GEN_AI_CLIENT_OPERATION_TIME_PER_OUTPUT_CHUNK,
        ),
    ],
)
def test_names_are_those_of_the_package(instrument: Instrument, name: str) -> None:
    """Where the package of conventions has a name, it is ours."""
    assert instrument.name == name


@pytest.mark.parametrize("instrument", INSTRUMENTS, ids=lambda instrument: str(instrument.name))
def test_a_row_is_well_formed(instrument: Instrument) -> None:
    """Names, units and descriptions have the form that both worlds take."""
    assert re.fullmatch(r"(gen_ai|spantap)(\.[a-z]+(_[a-z]+)*)+", instrument.name)
    assert re.fullmatch(r"s|By|\{[a-z]+\}", instrument.unit)
    assert instrument.description[0].isupper()
    assert not instrument.description.endswith(".")
    assert len(set(instrument.labels)) == len(instrument.labels)
    assert (instrument.kind is Kind.HISTOGRAM) == bool(instrument.bounds)
    assert list(instrument.bounds) == sorted(set(instrument.bounds))


def test_no_two_instruments_have_one_name() -> None:
    """In neither world."""
    assert len({instrument.name for instrument in INSTRUMENTS}) == len(INSTRUMENTS) > 30
    assert len({instrument.prometheus_name for instrument in INSTRUMENTS}) == len(INSTRUMENTS)


@pytest.mark.parametrize(
    ("instrument", "name"),
    [
        (table.TOKEN_USAGE, "gen_ai_client_token_usage"),
        (table.OPERATION_DURATION, "gen_ai_client_operation_duration_seconds"),
        (table.TIME_TO_FIRST_CHUNK, "gen_ai_client_operation_time_to_first_chunk_seconds"),
        (table.REQUESTS, "spantap_requests_total"),
        (table.EXCHANGES_OPEN, "spantap_exchanges_open"),
        (table.TAP_SHED, "spantap_tap_shed_bytes_total"),
        (table.STORE_SIZE, "spantap_store_size_bytes"),
        (table.STORE_OLDEST_PENDING_AGE, "spantap_store_oldest_pending_age_seconds"),
    ],
)
def test_prometheus_names(instrument: Instrument, name: str) -> None:
    """Dots become underscores, the unit a word at the end, and a counter has ``_total``."""
    assert instrument.prometheus_name == name


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("gen_ai.request.model", "gen_ai_request_model"),
        ("error.type", "error_type"),
        ("a..b-c", "a_b_c"),
    ],
)
def test_prometheus_labels(label: str, name: str) -> None:
    """What Prometheus does not allow becomes one underscore, however much of it there is."""
    assert prometheus_label(label) == name
