"""Metrics: what happens, in numbers (``docs/contract/spans.md#metrics``).

The table of all metrics is :mod:`telemetry.metrics.instruments`. A
:class:`~telemetry.metrics.registry.MetricsRegistry` counts, cheaply, and gives
:mod:`snapshots <telemetry.metrics.snapshot>`; these can be sent between processes, merged, shown
to Prometheus (:mod:`telemetry.metrics.prometheus`) and sent by OTLP
(:mod:`telemetry.export.metrics_exporter`). What an exchange adds to the numbers,
:mod:`telemetry.observing.exchange_metrics` knows.

OpenTelemetry's SDK counts too, but one record costs it some ten microseconds, and it has no values
that another process could add to its own.

Doors: ``buckets``, ``instruments``, ``label_limit``, ``prometheus``, ``registry``, ``snapshot``.
"""
