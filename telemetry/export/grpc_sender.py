"""OTLP over gRPC: stored bytes are sent as they are, in one unary call.

Only the ``OTEL_*`` variables say how; gRPC itself would take a proxy from ``grpc_proxy`` and
others.

Importing this module imports grpc, which costs memory: do so only when the settings ask for it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import grpc  # type: ignore[import-untyped]  # ships no types
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # as grpc
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]  # as grpc
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # as grpc

from codec._version import __version__
from telemetry.export.delivery import Answer, classify_grpc_error, classify_success, without_secrets

if TYPE_CHECKING:
    from pathlib import Path

    from telemetry.export.settings import OtlpSettings

_METHODS = {
    "traces": "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    "metrics": "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
}
"""The methods by their path: the generated stubs would decode and encode bytes that are ready. The
fields of both answers have the same numbers."""

_STATUS_DETAILS = "grpc-status-details-bin"
"""The trailer with a serialised ``google.rpc.Status``, where ``RetryInfo`` is."""

_CHANNEL_OPTIONS = (
    ("grpc.primary_user_agent", f"spantap/{__version__}"),
    ("grpc.enable_http_proxy", 0),
    # The exporter paces its tries; the channel must not stay away longer than they do.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)


class GrpcSender:
    """Sends batches to an OTLP/gRPC backend over one channel, which the first call connects."""

    def __init__(self, settings: OtlpSettings) -> None:
        self._settings = settings
        self._secrets = [value for _, value in settings.headers]
        compression = grpc.Compression.Gzip if settings.gzip else grpc.Compression.NoCompression
        if settings.insecure:
            self._channel = grpc.insecure_channel(
                settings.endpoint, options=_CHANNEL_OPTIONS, compression=compression
            )
        else:
            self._channel = grpc.secure_channel(
                settings.endpoint,
                grpc.ssl_channel_credentials(
                    root_certificates=_read(settings.certificate),
                    private_key=_read(settings.client_key),
                    certificate_chain=_read(settings.client_certificate),
                ),
                options=_CHANNEL_OPTIONS,
                compression=compression,
            )
        # Without serialisers the call sends and returns bytes.
        self._export = self._channel.unary_unary(_METHODS[settings.signal])

    @property
    def backend(self) -> str:
        """The backend's scheme, host and port."""
        return self._settings.backend

    def send(self, batch: bytes) -> Answer:
        """Send `batch`, a serialised request, and classify the answer."""
        try:
            body = self._export(
                batch,
                timeout=self._settings.timeout_seconds,
                metadata=self._settings.headers,
            )
        except grpc.RpcError as error:
            answer = classify_grpc_error(
                error.code().name, error.details() or "", _retry_delay_seconds(error)
            )
        else:
            answer = classify_success(body)
        return replace(answer, words=without_secrets(answer.words, self._secrets))

    def close(self) -> None:
        """Close the channel; a call under way ends as cancelled."""
        self._channel.close()


def _read(path: Path | None) -> bytes | None:
    return None if path is None else path.read_bytes()


def _retry_delay_seconds(error: Any) -> float | None:
    """Read the delay in the ``RetryInfo`` of a failed call, ``None`` if it has none."""
    trailers = dict(error.trailing_metadata() or ())
    try:
        details = Status.FromString(trailers.get(_STATUS_DETAILS, b"")).details
        for detail in details:
            info = RetryInfo()
            if detail.Unpack(info):
                return float(info.retry_delay.seconds + info.retry_delay.nanos / 1e9)
    except DecodeError:
        pass
    return None
