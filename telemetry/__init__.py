"""Telemetry: an exchange becomes a span, is stored, and goes to an observability backend.

:mod:`telemetry.frames` brings the facts of the wire, :mod:`telemetry.observing` makes an exchange
of them, :mod:`telemetry.spans` its span, :mod:`telemetry.store` keeps that until
:mod:`telemetry.export` has delivered it. :class:`telemetry.service.TelemetryService` joins them.

Doors: ``conversation_position``, ``conversations``, ``errors``, ``export``, ``fact``, ``facts``,
``finding``, ``frames``, ``identity``, ``in_process``, ``launch_labels``, ``metrics``, ``news``,
``observing``, ``own_files``, ``pipeline``, ``pricing``, ``privacy``, ``provider``, ``rate_limit``,
``raw_answer``, ``reading``, ``semconv``, ``service``, ``span_identity``, ``spans``, ``store``.
"""
