"""``telemetry.export.settings``: where spans go, from the standard variables."""

from __future__ import annotations

from pathlib import Path

import pytest

from telemetry.errors import ConfigurationError
from telemetry.export.settings import (
    OtlpProtocol,
    OtlpSettings,
    is_sdk_disabled,
    read_backend,
    read_otlp_settings,
)

PREFIX = "OTEL_EXPORTER_OTLP_"
BASE = {PREFIX + "ENDPOINT": "http://backend:4318"}


def read(**variables: str) -> OtlpSettings:
    """The settings of variables without their common prefix, on top of an endpoint."""
    settings = read_otlp_settings(
        BASE | {PREFIX + name: value for name, value in variables.items()}
    )
    assert settings is not None
    return settings


def test_defaults() -> None:
    """HTTP with protobuf, gzip, 10 seconds."""
    assert read() == OtlpSettings(
        protocol=OtlpProtocol.HTTP_PROTOBUF,
        endpoint="http://backend:4318/v1/traces",
        backend="http://backend:4318",
        headers=(),
        timeout_seconds=10.0,
        gzip=True,
    )


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {PREFIX + "ENDPOINT": "  "},
        {PREFIX + "PROTOCOL": "grpc", PREFIX + "HEADERS": "a=b"},
        BASE | {"OTEL_SDK_DISABLED": "True"},
        BASE | {"OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_nothing_to_send(environ: dict[str, str]) -> None:
    """Without an endpoint, or switched off, there is no backend."""
    assert read_otlp_settings(environ) is None


@pytest.mark.parametrize(
    "variables", [{"OTEL_SDK_DISABLED": "false"}, {"OTEL_TRACES_EXPORTER": "otlp"}]
)
def test_switches_left_on(variables: dict[str, str]) -> None:
    """The switches' other values change nothing."""
    assert read_otlp_settings(BASE | variables) == read()


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://h:4318", "http://h:4318/v1/traces"),
        ("http://h:4318/", "http://h:4318/v1/traces"),
        ("https://h/otlp/", "https://h/otlp/v1/traces"),
        ("https://h/otlp?key=1", "https://h/otlp/v1/traces?key=1"),
        ("http://[::1]:4318", "http://[::1]:4318/v1/traces"),
    ],
)
def test_general_endpoint_gets_the_path(endpoint: str, url: str) -> None:
    """``/v1/traces`` is joined to the general endpoint's path."""
    assert read(ENDPOINT=endpoint).endpoint == url


@pytest.mark.parametrize("endpoint", ["http://h:1", "http://h:1/", "https://h/a?b=c"])
def test_traces_endpoint_is_verbatim(endpoint: str) -> None:
    """The traces endpoint wins, and is used as it is."""
    assert read(TRACES_ENDPOINT=endpoint).endpoint == endpoint


def test_another_signal_has_variables_and_a_path_of_its_own() -> None:
    """What is set for traces says nothing of metrics, nor the traces' switch."""
    environ = BASE | {
        "OTEL_TRACES_EXPORTER": "none",
        PREFIX + "TRACES_ENDPOINT": "http://traces",
        PREFIX + "TRACES_TIMEOUT": "1",
        PREFIX + "METRICS_TIMEOUT": "2",
    }
    settings = read_backend(environ, "metrics")
    assert settings is not None
    assert settings.endpoint == "http://backend:4318/v1/metrics"
    assert settings.timeout_seconds == 2
    verbatim = read_backend(environ | {PREFIX + "METRICS_ENDPOINT": "http://h/x"}, "metrics")
    assert verbatim is not None
    assert verbatim.endpoint == "http://h/x"
    assert read_backend({PREFIX + "TRACES_ENDPOINT": "http://traces"}, "metrics") is None


@pytest.mark.parametrize(
    ("value", "disabled"), [(None, False), ("", False), ("False", False), (" TRUE ", True)]
)
def test_the_switch_of_everything(value: str | None, disabled: bool) -> None:
    """``OTEL_SDK_DISABLED`` is a boolean in any case, and false where it is empty."""
    environ = {} if value is None else {"OTEL_SDK_DISABLED": value}
    assert is_sdk_disabled(environ) is disabled


@pytest.mark.parametrize(
    ("name", "general", "specific", "attribute", "expected"),
    [
        ("PROTOCOL", "http/json", "grpc", "protocol", OtlpProtocol.GRPC),
        ("HEADERS", "a=1", "b=2", "headers", (("b", "2"),)),
        ("TIMEOUT", "1", "2.5", "timeout_seconds", 2.5),
        ("COMPRESSION", "gzip", "none", "gzip", False),
        ("COMPRESSION", "none", " ", "gzip", False),
    ],
)
def test_traces_variables_win(
    name: str, general: str, specific: str, attribute: str, expected: object
) -> None:
    """The variable for traces wins, unless it is empty."""
    settings = read(**{name: general, f"TRACES_{name}": specific})
    assert getattr(settings, attribute) == expected


@pytest.mark.parametrize(
    ("endpoint", "said", "gzips"),
    [
        ("http://localhost:6006", "", False),
        ("http://phoenix.localhost", "", False),
        ("http://127.8.0.1:6006", "", False),
        ("https://[::1]:6006", "", False),
        ("http://localhost:6006", "gzip", True),
        ("http://backend:6006", "", True),
        ("http://localhost.example", "", True),
        ("http://128.0.0.1", "", True),
        ("http://[::2]", "", True),
        ("http://[::2]", "none", False),
    ],
)
def test_nothing_is_compressed_for_loopback(endpoint: str, said: str, gzips: bool) -> None:
    """By the name or the address alone, and only where nothing is said."""
    assert read(ENDPOINT=endpoint, COMPRESSION=said).gzip is gzips


@pytest.mark.parametrize(
    ("endpoint", "target", "insecure"),
    [
        ("http://h:4317", "h:4317", True),
        ("https://h:4317/ignored", "h:4317", False),
        ("h:4317", "h:4317", False),
        ("https://user:secret@h:4317", "h:4317", False),
    ],
)
def test_grpc_endpoint(endpoint: str, target: str, insecure: bool) -> None:
    """For gRPC the scheme says whether there is TLS, and without one there is."""
    settings = read(PROTOCOL="grpc", ENDPOINT=endpoint)
    assert (settings.endpoint, settings.insecure) == (target, insecure)
    assert settings.backend == "grpc://h:4317"


@pytest.mark.parametrize(
    ("endpoint", "insecure"), [("h:4317", True), ("http://h:1", True), ("https://h:1", False)]
)
def test_grpc_insecure(endpoint: str, insecure: bool) -> None:
    """``INSECURE`` decides where the endpoint has no scheme, and only there."""
    assert read(PROTOCOL="grpc", ENDPOINT=endpoint, INSECURE="TRUE").insecure is insecure


@pytest.mark.parametrize(
    ("text", "headers"),
    [
        ("Api-Key=abc", (("api-key", "abc"),)),
        ("a=1,b=2", (("a", "1"), ("b", "2"))),
        (" a = 1 ,, b = 2 ,", (("a", "1"), ("b", "2"))),
        ("Authorization=Bearer%20x%3Dy", (("authorization", "Bearer x=y"),)),
        ("authorization=Basic eA==", (("authorization", "Basic eA=="),)),
        ("name=d%C3%A9j%C3%A0", (("name", "déjà"),)),
        ("a=1,A=2", (("a", "2"),)),
        ("empty=", (("empty", ""),)),
    ],
)
def test_headers(text: str, headers: tuple[tuple[str, str], ...]) -> None:
    """A list of pairs, percent-decoded; values may hold ``=`` and plain spaces."""
    assert read(HEADERS=text).headers == headers


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"PROTOCOL": "http/json"}, "PROTOCOL is 'http/json', but only http/protobuf and grpc"),
        ({"ENDPOINT": "localhost:4318"}, "ENDPOINT must be an http:// or https:// URL"),
        ({"ENDPOINT": "ftp://h"}, "must be an http"),
        ({"ENDPOINT": "http://"}, "must be an http"),
        ({"ENDPOINT": "http://h:99999"}, "must be an http"),
        ({"ENDPOINT": "http://h:0"}, "must be an http"),
        ({"ENDPOINT": "http://[::1"}, "must be an http"),
        ({"TRACES_ENDPOINT": "h"}, "TRACES_ENDPOINT must be"),
        ({"PROTOCOL": "grpc", "ENDPOINT": "dns://h"}, "https:// URL or host:port"),
        ({"PROTOCOL": "grpc", "ENDPOINT": "h", "INSECURE": "1"}, "INSECURE is '1'"),
        ({"TIMEOUT": "soon"}, "TIMEOUT is 'soon', but must be a number of seconds above 0"),
        ({"TIMEOUT": "0"}, "above 0"),
        ({"TIMEOUT": "inf"}, "above 0"),
        ({"TRACES_TIMEOUT": "nan"}, "TRACES_TIMEOUT"),
        ({"COMPRESSION": "deflate"}, "only gzip and none"),
        ({"CERTIFICATE": "/no/such.pem"}, "CERTIFICATE: /no/such.pem cannot be read: No such"),
        ({"CLIENT_KEY": __file__}, "needs OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"),
        (
            {"PROTOCOL": "grpc", "CLIENT_CERTIFICATE": __file__},
            "needs OTEL_EXPORTER_OTLP_CLIENT_KEY",
        ),
    ],
)
def test_values_that_cannot_be_followed(variables: dict[str, str], message: str) -> None:
    """One sentence that names the variable."""
    with pytest.raises(ConfigurationError) as refused:
        read(**variables)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("value", "warned"), [("1000", True), ("30000", True), ("999.9", False), ("", False)]
)
def test_a_timeout_that_looks_like_milliseconds_is_told(
    value: str, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """It is followed, in seconds, but a reader of the specification meant less."""
    assert read(TRACES_TIMEOUT=value).timeout_seconds == float(value or 10)
    lines = [f"{PREFIX}TRACES_TIMEOUT is {value}, and is read in seconds"] if warned else []
    assert [record.getMessage() for record in caplog.records] == lines
    assert {record.levelname for record in caplog.records} <= {"WARNING"}


@pytest.mark.parametrize(
    "variables", [{"OTEL_TRACES_EXPORTER": "console"}, {"OTEL_SDK_DISABLED": "yes"}]
)
def test_switches_that_cannot_be_followed(variables: dict[str, str]) -> None:
    """The general switches are checked, too: an error names the variable."""
    (name,) = variables
    with pytest.raises(ConfigurationError, match=name):
        read_otlp_settings(BASE | variables)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"HEADERS": "a=1,sekret"}, "entry 2 of OTEL_EXPORTER_OTLP_HEADERS"),
        ({"HEADERS": "a b=sekret"}, "entry 1"),
        ({"HEADERS": "=sekret"}, "entry 1"),
        ({"TRACES_HEADERS": "key=sekret%0D%0Ax: y"}, "value of key in OTEL_EXPORTER_OTLP_TRACES_"),
        ({"PROTOCOL": "grpc", "HEADERS": "key=sekret%C3%A9"}, "must be ASCII for gRPC"),
        ({"ENDPOINT": "ftp://sekret@h"}, "must be an http"),
    ],
)
def test_no_message_holds_a_credential(variables: dict[str, str], message: str) -> None:
    """What is wrong with a header or an endpoint is said without its value (R7)."""
    with pytest.raises(ConfigurationError) as refused:
        read(**variables)
    assert message in str(refused.value)
    assert "sekret" not in str(refused.value)


def test_settings_can_be_printed() -> None:
    """Neither their representation nor the backend's name tells a credential (R7)."""
    settings = read(ENDPOINT="https://user:sekret@h/?key=sekret", HEADERS="key=sekret")
    assert "sekret" not in repr(settings)
    assert settings.backend == "https://h"


def test_files(tmp_path: Path) -> None:
    """Certificates and key are paths of readable files."""
    for name in ("ca", "cert", "key"):
        (tmp_path / name).touch()
    settings = read(
        CERTIFICATE=str(tmp_path / "ca"),
        CLIENT_CERTIFICATE=str(tmp_path / "cert"),
        TRACES_CLIENT_KEY=str(tmp_path / "key"),
    )
    assert (settings.certificate, settings.client_certificate, settings.client_key) == (
        tmp_path / "ca",
        tmp_path / "cert",
        tmp_path / "key",
    )
    assert read(CLIENT_CERTIFICATE=str(Path(__file__))).client_key is None
