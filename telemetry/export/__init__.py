"""Export: stored spans, and metrics, go to an OTLP backend.

:class:`telemetry.export.exporter.Exporter` reads the store and sends waiting spans; its senders
speak HTTP and gRPC, and :mod:`telemetry.export.suspicion` finds the span that a backend fails at.
The standard ``OTEL_*`` variables set it up.

Doors: ``delivery``, ``exporter``, ``metrics_exporter``, ``otel_environment``, ``resending``,
``sdk_logs``, ``settings``.
"""
