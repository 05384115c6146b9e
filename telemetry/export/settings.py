"""Settings of sending by OTLP, from OpenTelemetry's standard environment variables.

They mean what the OpenTelemetry specification says ("OTLP exporter configuration" and "General SDK
configuration"), except for three things. Without an endpoint nothing is sent, and the store is the
backend: the specification's default would be localhost, and a proxy without a backend would then
complain for ever. The timeout is in seconds, as every Python SDK reads it (the specification says
milliseconds). Compression is gzip by default (the specification's default is none), because prompts
are text and shrink to a fifth; on this machine's loopback it is off, because it would save no
network traffic.

A value that cannot be followed is an error at start, in one sentence that names the variable. No
message holds the value of a header or an endpoint, because both carry credentials (R7).
"""

from __future__ import annotations

import logging
import math
import re
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import SplitResult, unquote, urlsplit

from telemetry.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_log = logging.getLogger("spantap.telemetry")

_DEFAULT_TIMEOUT_SECONDS = 10.0
"""The specification's."""

_LONG_TIMEOUT_SECONDS = 1000.0
"""A longer time for one request is probably meant in milliseconds, and is logged."""

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A token of RFC 9110, section 5.6.2."""

_CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
"""A character that RFC 9110, section 5.5, forbids in a value: everything below space but the
tab."""

_FLAGS = {"true": True, "false": False, "": False}

Signal = Literal["traces", "metrics"]
"""The kind of data that is sent, under its name in variables and paths."""


class OtlpProtocol(StrEnum):
    """The protocol by which a signal travels."""

    HTTP_PROTOBUF = "http/protobuf"
    GRPC = "grpc"


@dataclass(frozen=True, slots=True, kw_only=True)
class OtlpSettings:
    """The address of an OTLP backend, and how to reach it.

    Attributes:
        protocol: OTLP/HTTP with protobuf bodies, or gRPC.
        signal: which requests the backend gets.
        endpoint: HTTP: the whole URL to POST to. gRPC: ``host:port``.
        backend: scheme, host and port alone, for log lines.
        headers: names in lower case and values, sent with every request.
        timeout_seconds: for one request, from connecting to the last byte of the answer.
        insecure: gRPC without TLS. With HTTP the endpoint's scheme says it.
        certificate: PEM file of the authorities to trust instead of the usual ones.
        client_certificate: PEM file of our own certificate, for mutual TLS.
        client_key: PEM file of its key; ``None`` if the certificate's file holds it.
    """

    signal: Signal = "traces"
    protocol: OtlpProtocol = OtlpProtocol.HTTP_PROTOBUF
    endpoint: str = field(repr=False)
    backend: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    timeout_seconds: float = _DEFAULT_TIMEOUT_SECONDS
    gzip: bool = True
    insecure: bool = False
    certificate: Path | None = None
    client_certificate: Path | None = None
    client_key: Path | None = None


@dataclass(frozen=True, slots=True)
class _Variables:
    """The environment, in which an empty variable counts as unset."""

    environ: Mapping[str, str]
    signal: Signal = "traces"

    def get(self, name: str) -> str:
        """Read a plain variable; empty if it is unset."""
        return self.environ.get(name, "").strip()

    def otlp(self, suffix: str) -> tuple[str, str]:
        """Return name and value of the variable that decides; the value is empty if none is set.

        The variable of the signal, ``OTEL_EXPORTER_OTLP_TRACES_…`` or ``…_METRICS_…``, wins over
        the general ``OTEL_EXPORTER_OTLP_…``.
        """
        general = f"OTEL_EXPORTER_OTLP_{suffix}"
        specific = f"OTEL_EXPORTER_OTLP_{self.signal.upper()}_{suffix}"
        name = specific if self.get(specific) else general
        return name, self.get(name)


def read_otlp_settings(environ: Mapping[str, str]) -> OtlpSettings | None:
    """Read the settings for spans; ``None`` if nothing is to be sent.

    That is so if no endpoint is set, ``OTEL_SDK_DISABLED`` is true, or
    ``OTEL_TRACES_EXPORTER`` is ``none``. The files that variables name are opened, to see whether
    they can be read.

    Raises:
        ConfigurationError: a variable has a value that cannot be followed.
    """
    return read_backend(environ, "traces") if _sends_spans(environ) else None


def is_sdk_disabled(environ: Mapping[str, str]) -> bool:
    """Tell whether ``OTEL_SDK_DISABLED`` switches everything off.

    Raises:
        ConfigurationError: it is neither true nor false.
    """
    value = _Variables(environ).get("OTEL_SDK_DISABLED")
    return _choose("OTEL_SDK_DISABLED", value, _FLAGS)


def read_backend(environ: Mapping[str, str], signal: Signal) -> OtlpSettings | None:
    """Read how to reach the backend of `signal`; ``None`` if no endpoint is set.

    The signal's own endpoint is used verbatim; over HTTP the general one gets ``/v1/traces`` or
    ``/v1/metrics``.

    Raises:
        ConfigurationError: a variable has a value that cannot be followed.
    """
    variables = _Variables(environ, signal)
    endpoint_name, endpoint = variables.otlp("ENDPOINT")
    if not endpoint:
        return None
    protocol = _protocol(*variables.otlp("PROTOCOL"))
    url = _endpoint_url(endpoint_name, endpoint, protocol)
    address = url.netloc.rpartition("@")[2]
    if protocol is OtlpProtocol.GRPC:
        insecure = url.scheme == "http" or (
            not url.scheme and _choose(*variables.otlp("INSECURE"), _FLAGS)
        )
        endpoint, scheme = address, "grpc"
    else:
        insecure, scheme = False, url.scheme
        if endpoint_name == "OTEL_EXPORTER_OTLP_ENDPOINT":
            endpoint = url._replace(path=f"{url.path.rstrip('/')}/v1/{signal}").geturl()
    compressions = {"gzip": True, "none": False, "": not _is_loopback(url.hostname or "")}
    certificate, client_certificate, client_key = (
        _file(*variables.otlp(suffix))
        for suffix in ("CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY")
    )
    if client_key and not client_certificate:
        raise ConfigurationError(
            "OTEL_EXPORTER_OTLP_CLIENT_KEY needs OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE beside it"
        )
    if protocol is OtlpProtocol.GRPC and client_certificate and not client_key:
        raise ConfigurationError(
            "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE needs OTEL_EXPORTER_OTLP_CLIENT_KEY beside it"
        )
    return OtlpSettings(
        signal=signal,
        protocol=protocol,
        endpoint=endpoint,
        backend=f"{scheme}://{address}",
        headers=_headers(*variables.otlp("HEADERS"), protocol),
        timeout_seconds=_timeout_seconds(*variables.otlp("TIMEOUT")),
        gzip=_choose(*variables.otlp("COMPRESSION"), compressions),
        insecure=insecure,
        certificate=certificate,
        client_certificate=client_certificate,
        client_key=client_key,
    )


def build_backend(url: str, headers: Sequence[str], environ: Mapping[str, str]) -> OtlpSettings:
    """Build the settings of a backend for spans that somebody names, over HTTP.

    Args:
        url: used verbatim, except that ``/v1/traces`` is added if there is no path.
        headers: each ``NAME=VALUE``; the last of equal names counts. The headers of the environment
            are for another backend, and are not sent.
        environ: the environment with the timeout and the certificates.

    Raises:
        ConfigurationError: one of these values is not valid.
    """
    variables = _Variables(environ)
    parts = _endpoint_url("--to", url, OtlpProtocol.HTTP_PROTOBUF)
    if not parts.path.strip("/"):
        parts = parts._replace(path="/v1/traces")
    certificate, client_certificate, client_key = (
        _file(*variables.otlp(suffix))
        for suffix in ("CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY")
    )
    named = {}
    for number, header in enumerate(headers, start=1):
        name, equals, text = header.partition("=")
        name = name.strip().lower()
        if not equals or not _HEADER_NAME.fullmatch(name):
            raise ConfigurationError(f"--header {number} is not of the form NAME=VALUE")
        if _CONTROL_CHARACTER.search(text):
            raise ConfigurationError(f"the value of --header {name} holds a control character")
        named[name] = text.strip()
    return OtlpSettings(
        endpoint=parts.geturl(),
        backend=f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}",
        headers=tuple(named.items()),
        timeout_seconds=_timeout_seconds(*variables.otlp("TIMEOUT")),
        gzip=not _is_loopback(parts.hostname or ""),
        certificate=certificate,
        client_certificate=client_certificate,
        client_key=client_key,
    )


def _sends_spans(environ: Mapping[str, str]) -> bool:
    """Tell whether the two general switches leave OTLP on."""
    disabled = is_sdk_disabled(environ)
    exporter = _Variables(environ).get("OTEL_TRACES_EXPORTER") or "otlp"
    if exporter not in {"otlp", "none"}:
        raise ConfigurationError(
            f"OTEL_TRACES_EXPORTER is {exporter!r}, but only otlp and none are known"
        )
    return not disabled and exporter == "otlp"


def _choose(name: str, value: str, meanings: Mapping[str, bool]) -> bool:
    """Look up a variable with two values, in upper or lower case; the empty one is the default."""
    if value.lower() not in meanings:
        known = " and ".join(filter(None, meanings))
        raise ConfigurationError(f"{name} is {value!r}, but only {known} are known")
    return meanings[value.lower()]


def _protocol(name: str, value: str) -> OtlpProtocol:
    try:
        return OtlpProtocol(value or OtlpProtocol.HTTP_PROTOBUF)
    except ValueError:
        raise ConfigurationError(
            f"{name} is {value!r}, but only http/protobuf and grpc are known"
        ) from None


def _endpoint_url(name: str, value: str, protocol: OtlpProtocol) -> SplitResult:
    """Split the endpoint; for gRPC it may be ``host:port``, without a scheme."""
    bare = protocol is OtlpProtocol.GRPC and "://" not in value
    try:
        url = urlsplit(f"//{value}" if bare else value)
        if url.hostname and (bare or url.scheme in {"http", "https"}) and url.port != 0:
            return url
    except ValueError:  # no port, or a broken IPv6 address
        pass
    forms = "an http:// or https:// URL"
    if protocol is OtlpProtocol.GRPC:
        forms += " or host:port"
    raise ConfigurationError(f"{name} must be {forms}")


def _headers(name: str, value: str, protocol: OtlpProtocol) -> tuple[tuple[str, str], ...]:
    """Read ``name=value,name=value``, percent-decoded; the last of equal names counts."""
    headers = {}
    for number, entry in enumerate(filter(None, map(str.strip, value.split(","))), start=1):
        key, equals, text = entry.partition("=")
        key, text = unquote(key).strip().lower(), unquote(text).strip()
        if not equals or not _HEADER_NAME.fullmatch(key):
            raise ConfigurationError(f"entry {number} of {name} is not of the form name=value")
        if _CONTROL_CHARACTER.search(text):
            raise ConfigurationError(f"the value of {key} in {name} holds a control character")
        if protocol is OtlpProtocol.GRPC and not text.isascii():
            raise ConfigurationError(f"the value of {key} in {name} must be ASCII for gRPC")
        headers[key] = text
    return tuple(headers.items())


def _timeout_seconds(name: str, value: str) -> float:
    try:
        seconds = float(value or _DEFAULT_TIMEOUT_SECONDS)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ConfigurationError(f"{name} is {value!r}, but must be a number of seconds above 0")
    if seconds >= _LONG_TIMEOUT_SECONDS:
        _log.warning("%s is %s, and is read in seconds", name, value)
    return seconds


def _is_loopback(host: str) -> bool:
    """Tell whether a host's name or address means this machine; nothing is looked up."""
    if host == "localhost" or host.endswith(".localhost"):  # RFC 6761, section 6.3
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _file(name: str, value: str) -> Path | None:
    """Return the file that a variable names, which has to be readable."""
    if not value:
        return None
    path = Path(value)
    try:
        path.open("rb").close()
    except OSError as error:
        raise ConfigurationError(f"{name}: {value} cannot be read: {error.strerror}") from error
    return path
