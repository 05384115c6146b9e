"""``telemetry.export.metrics_settings``: whether metrics are sent, where to and how often."""

from __future__ import annotations

import pytest

from telemetry.errors import ConfigurationError
from telemetry.export.metrics_settings import MetricsSettings, read_metrics_settings
from telemetry.export.settings import OtlpProtocol, OtlpSettings

GENERAL = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}
SPECIFIC = {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://h:9090/api/v1/otlp/v1/metrics"}
ON = GENERAL | {"OTEL_METRICS_EXPORTER": "otlp"}


@pytest.mark.parametrize(
    "environ",
    [
        {},
        GENERAL,
        GENERAL | {"OTEL_METRICS_EXPORTER": " "},
        GENERAL | {"OTEL_METRICS_EXPORTER": "none"},
        GENERAL | {"OTEL_METRICS_EXPORTER": "prometheus"},
        SPECIFIC | {"OTEL_METRICS_EXPORTER": "none"},
        SPECIFIC | {"OTEL_METRICS_EXPORTER": "prometheus"},
        {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "  "},
    ],
)
def test_rule_1_nothing_is_sent_unasked(environ: dict[str, str]) -> None:
    """The general endpoint alone is where traces go; a named exporter other than OTLP wins."""
    assert read_metrics_settings(environ) is None


def test_rule_1_sent_when_the_exporter_is_named() -> None:
    """Then the general endpoint will do; the interval is the specification's minute."""
    assert read_metrics_settings(ON) == MetricsSettings(
        otlp=OtlpSettings(
            signal="metrics",
            protocol=OtlpProtocol.HTTP_PROTOBUF,
            endpoint="http://127.0.0.1:4318/v1/metrics",
            backend="http://127.0.0.1:4318",
            gzip=False,  # nothing is said, and it is on loopback
        ),
        interval_seconds=60.0,
    )


@pytest.mark.parametrize("exporters", ["otlp", " otlp , prometheus ", "prometheus,otlp,", ""])
def test_rule_1_sent_where_metrics_have_an_endpoint(exporters: str) -> None:
    """It is used as it is, whatever the general one says."""
    environ = GENERAL | SPECIFIC | {"OTEL_METRICS_EXPORTER": exporters}
    settings = read_metrics_settings(environ)
    assert settings is not None
    assert settings.otlp.endpoint == "http://h:9090/api/v1/otlp/v1/metrics"


def test_variables_for_metrics_win() -> None:
    """Those for traces have no say, the general ones where nothing else does."""
    settings = read_metrics_settings(
        ON
        | {
            "OTEL_EXPORTER_OTLP_METRICS_HEADERS": "a=1",
            "OTEL_EXPORTER_OTLP_HEADERS": "b=2",
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "c=3",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "3",
            "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "4",
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://traces",
            "OTEL_METRIC_EXPORT_INTERVAL": "1500",
        }
    )
    assert settings is not None
    assert settings.otlp.headers == (("a", "1"),)
    assert settings.otlp.timeout_seconds == 3
    assert settings.otlp.protocol is OtlpProtocol.HTTP_PROTOBUF
    assert settings.otlp.endpoint == "http://127.0.0.1:4318/v1/metrics"
    assert settings.interval_seconds == 1.5


def test_grpc() -> None:
    """The protocol of metrics is their own."""
    settings = read_metrics_settings(ON | {"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "grpc"})
    assert settings is not None
    assert settings.otlp.protocol is OtlpProtocol.GRPC
    assert settings.otlp.endpoint == "127.0.0.1:4318"


@pytest.mark.parametrize("value", ["true", "TRUE"])
def test_rule_2_the_sdk_switch_turns_metrics_off(value: str) -> None:
    """Whatever else is set."""
    assert read_metrics_settings(ON | SPECIFIC | {"OTEL_SDK_DISABLED": value}) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "Cumulative"),
        (
            "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION",
            "explicit_bucket_histogram",
        ),
        ("OTEL_METRIC_EXPORT_INTERVAL", " "),
        ("OTEL_METRIC_EXPORT_INTERVAL", "60000"),
    ],
)
def test_defaults_may_be_said(name: str, value: str) -> None:
    """What we do anyway can be asked for."""
    assert read_metrics_settings(ON | {name: value}) == read_metrics_settings(ON)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"OTEL_METRICS_EXPORTER": "console"}, "is 'console', but only otlp, prometheus, none"),
        ({"OTEL_METRICS_EXPORTER": "otlp,none"}, "none cannot stand beside another"),
        ({"OTEL_METRICS_EXPORTER": "OTLP"}, "OTEL_METRICS_EXPORTER is 'OTLP'"),
        ({"OTEL_SDK_DISABLED": "1"}, "OTEL_SDK_DISABLED is '1'"),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
            "neither OTEL_EXPORTER_OTLP_METRICS_ENDPOINT nor OTEL_EXPORTER_OTLP_ENDPOINT says",
        ),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "h"}, "OTLP_METRICS_ENDPOINT must be an http"),
        ({"OTEL_EXPORTER_OTLP_METRICS_TIMEOUT": "soon"}, "OTLP_METRICS_TIMEOUT is 'soon'"),
        ({"OTEL_METRIC_EXPORT_INTERVAL": "soon"}, "OTEL_METRIC_EXPORT_INTERVAL is 'soon'"),
        ({"OTEL_METRIC_EXPORT_INTERVAL": "99"}, "milliseconds from 100 to 86400000"),
        ({"OTEL_METRIC_EXPORT_INTERVAL": "86400001"}, "milliseconds from 100"),
        ({"OTEL_METRIC_EXPORT_INTERVAL": "-1"}, "milliseconds from 100"),
        ({"OTEL_METRIC_EXPORT_INTERVAL": "1e3"}, "a whole number"),
        ({"OTEL_METRIC_EXPORT_INTERVAL": "9" * 5000}, "a whole number"),
        (
            {"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "delta"},
            "PREFERENCE is 'delta', but only cumulative is known",
        ),
        (
            {
                "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION": (
                    "base2_exponential_bucket_histogram"
                )
            },
            "only explicit_bucket_histogram is known",
        ),
    ],
)
def test_rule_3_values_that_cannot_be_followed(variables: dict[str, str], message: str) -> None:
    """One sentence that names the variable."""
    with pytest.raises(ConfigurationError) as refused:
        read_metrics_settings(ON | variables)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_switch_is_looked_at_even_where_nothing_is_sent() -> None:
    """A slip in the switch itself must not pass for "off"."""
    with pytest.raises(ConfigurationError, match="OTEL_METRICS_EXPORTER"):
        read_metrics_settings({"OTEL_METRICS_EXPORTER": "otpl", "OTEL_SDK_DISABLED": "true"})
