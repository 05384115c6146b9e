"""OTLP: a span as the bytes that the protocol sends, written without the SDK's steps in between.

:mod:`telemetry.spans.otlp.writer` writes a finished span,
:func:`telemetry.spans.otlp.decoding.decode_spans` reads one back.

Doors: ``attributes``, ``decoding``, ``encoding``, ``writer``.
"""
