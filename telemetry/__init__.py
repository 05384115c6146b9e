"""Telemetry: an exchange becomes a span, is stored, and goes to an observability backend.

:mod:`telemetry.frames` brings the facts of the wire, :mod:`telemetry.observing` makes an exchange
of them, :mod:`telemetry.spans` its span, :mod:`telemetry.store` keeps that until
:mod:`telemetry.export` has delivered it. :class:`telemetry.service.TelemetryService` is the door.
"""
