"""SDKs with OpenInference's own instrumentation, for as long as it is wanted."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import openai
from openinference.instrumentation import TraceConfig
from openinference.instrumentation.openai import OpenAIInstrumentor
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from telemetry.spans.recorder import MAX_SPAN_ATTRIBUTES

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ("instrumented_by", "instrumented_sdk")

_PATCHED = (openai.OpenAI, openai.AsyncOpenAI)


@contextlib.contextmanager
def instrumented_by(instrumentor: Any) -> Iterator[InMemorySpanExporter]:
    """Instrument by one of OpenInference's; what it records is kept in memory."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(
        sampler=ALWAYS_ON,
        span_limits=SpanLimits(max_span_attributes=MAX_SPAN_ATTRIBUTES),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instrumentor.instrument(tracer_provider=provider, config=TraceConfig())
    try:
        yield exporter
    finally:
        instrumentor.uninstrument()
        provider.shutdown()


@contextlib.contextmanager
def instrumented_sdk() -> Iterator[InMemorySpanExporter]:
    """Instrument OpenAI's SDK; afterwards it is as before.

    The instrumentation leaves the original method behind as an attribute of the client classes,
    which had inherited it: that is taken away as well.
    """
    own = [client for client in _PATCHED if "request" in vars(client)]
    try:
        with instrumented_by(OpenAIInstrumentor()) as exporter:
            yield exporter
    finally:
        for client in _PATCHED:
            if client not in own:
                del client.request
