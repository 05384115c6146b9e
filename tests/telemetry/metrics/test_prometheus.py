"""``telemetry.metrics.prometheus``: the text that Prometheus scrapes."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from telemetry.metrics.instruments import (
    INSTRUMENTS,
    REQUESTS,
    SPANS_DROPPED,
    STORE_OLDEST_PENDING_AGE,
    STORE_SIZE,
    TIME_TO_FIRST_CHUNK,
    Kind,
)
from telemetry.metrics.prometheus import render
from telemetry.metrics.registry import MetricsRegistry

LABELS = ("chat", "openai", "gpt-4o", "", "api.openai.com", 443)


def read(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Samples by name and labels, as Prometheus' own parser reads them."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_numbers() -> None:
    """A counter without labels, one with, and a gauge that is no whole number."""
    registry = MetricsRegistry()
    registry.add(REQUESTS, 3)
    registry.add(SPANS_DROPPED, 2, ("store_full",))
    registry.set(STORE_OLDEST_PENDING_AGE, 0.25)
    text = render(registry.snapshot())
    samples = read(text)
    assert samples["spantap_requests_total", frozenset()] == 3
    assert samples["spantap_spans_dropped_total", frozenset({("reason", "store_full")})] == 2
    assert samples["spantap_store_oldest_pending_age_seconds", frozenset()] == 0.25
    assert "# TYPE spantap_requests_total counter\nspantap_requests_total 3\n" in text
    assert "# HELP spantap_requests_total Requests on the traffic port\n" in text


def test_histograms() -> None:
    """Buckets are cumulative and end in ``+Inf``; sum and count stand beside them."""
    registry = MetricsRegistry()
    for value in (0.005, 0.01, 0.3, 100.0):
        registry.observe_all([(TIME_TO_FIRST_CHUNK, value, LABELS)])
    samples = read(render(registry.snapshot()))
    name = "gen_ai_client_operation_time_to_first_chunk_seconds"
    labels = frozenset(
        {
            ("gen_ai_operation_name", "chat"),
            ("gen_ai_provider_name", "openai"),
            ("gen_ai_request_model", "gpt-4o"),
            ("server_address", "api.openai.com"),
            ("server_port", "443"),
        }
    )
    buckets = {
        dict(at)["le"]: value for (what, at), value in samples.items() if what == f"{name}_bucket"
    }
    assert list(map(float, buckets)) == [*TIME_TO_FIRST_CHUNK.bounds, math.inf]
    assert list(buckets.values()) == [2, 2, 2, 2, 2, *[3] * 9, 4]
    assert samples[f"{name}_sum", labels] == 100.315
    assert samples[f"{name}_count", labels] == 4


def test_every_instrument_can_be_shown() -> None:
    """Prometheus' parser knows each under its name and kind."""
    registry = MetricsRegistry()
    for instrument in INSTRUMENTS:
        labels = tuple(f"value of {label}" for label in instrument.labels)
        match instrument.kind:
            case Kind.COUNTER:
                registry.add(instrument, 1, labels)
            case Kind.GAUGE:
                registry.set(instrument, 1, labels)
            case Kind.HISTOGRAM:
                registry.observe_all([(instrument, 1, labels)])
    families = [*text_string_to_metric_families(render(registry.snapshot()))]
    assert [(family.name, family.type, family.documentation) for family in families] == [
        (
            instrument.prometheus_name.removesuffix("_total"),
            instrument.kind.value,
            instrument.description,
        )
        for instrument in INSTRUMENTS
    ]


def test_what_has_no_series_is_left_out() -> None:
    """A gauge that nobody gave is not shown as zero."""
    text = render(MetricsRegistry().snapshot())
    assert STORE_SIZE.prometheus_name not in text
    assert set(read(text).values()) == {0.0}


@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_label_values_come_through(value: str) -> None:
    """Quotes, backslashes and line feeds are escaped, whatever else is there."""
    registry = MetricsRegistry()
    registry.add(SPANS_DROPPED, 1, (value,))
    assert read(render(registry.snapshot()))[
        "spantap_spans_dropped_total", frozenset({("reason", value)})
    ]


@given(st.floats() | st.integers())
def test_numbers_come_through(value: float) -> None:
    """Infinities and what is no number have spellings of their own."""
    registry = MetricsRegistry()
    registry.set(STORE_SIZE, value)
    shown = read(render(registry.snapshot()))[STORE_SIZE.prometheus_name, frozenset()]
    assert shown == value or (math.isnan(shown) and math.isnan(value))
