"""Metrics over gRPC: the spans' sender with another method.

Importing this module imports grpc, which costs memory: do so only when the settings ask for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from telemetry.export.grpc_sender import GrpcSender

if TYPE_CHECKING:
    from telemetry.export.settings import OtlpSettings

__all__ = ("GrpcMetricsSender",)

_EXPORT = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
"""The method, by its path. Its answers are those of the traces' service but for the names: the
numbers of their fields are the same."""


class GrpcMetricsSender(GrpcSender):
    """Sends serialised ``ExportMetricsServiceRequest`` to an OTLP/gRPC backend."""

    def __init__(self, settings: OtlpSettings) -> None:
        """Prepare for `settings`; the first call connects."""
        super().__init__(settings)
        self._export = self._channel.unary_unary(_EXPORT)
