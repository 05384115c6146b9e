"""The row of a finished span: what lists show of it, and its bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinference.semconv.trace import RerankerAttributes, SpanAttributes
from opentelemetry.trace import StatusCode, format_span_id, format_trace_id

from telemetry.observing.exchange import Outcome
from telemetry.spans.otlp.encoding import encode_span
from telemetry.store.rows import SpanRow

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.util.types import Attributes

    from telemetry.facts import CallColumns
    from telemetry.observing.exchange import Exchange
    from telemetry.store.rows import SpanStatus

MAX_MODEL_CHARS = 256
"""The most characters of a model's name in a row. The span has the whole name."""


def make_row(exchange: Exchange, span: ReadableSpan, columns: CallColumns, now_ns: int) -> SpanRow:
    """Make the row of an exchange's span, recorded at `now_ns`."""
    usage = exchange.response.usage if exchange.response is not None else None
    return SpanRow(
        span_id=exchange.identity.span_id,
        trace_id=exchange.identity.trace_id,
        name=span.name,
        start_ns=exchange.start_ns,
        end_ns=exchange.end_ns,
        model=_model(span.attributes),
        status=_STATUS[span.status.status_code],
        outcome=exchange.outcome.value,
        prompt_tokens=usage.prompt if usage is not None else None,
        completion_tokens=usage.completion if usage is not None else None,
        total_tokens=usage.total if usage is not None else None,
        launch=exchange.launch or None,
        kept_call=exchange.position.kept if exchange.position is not None else None,
        columns=columns,
        span=encode_span(span),
        recorded_ns=now_ns,
    )


def make_derived_row(span: ReadableSpan, columns: CallColumns, launch: str, now_ns: int) -> SpanRow:
    """Make the row of a span that was derived from calls, recorded at `now_ns`."""
    return SpanRow(
        span_id=format_span_id(span.context.span_id),
        trace_id=format_trace_id(span.context.trace_id),
        name=span.name,
        start_ns=span.start_time or 0,
        end_ns=span.end_time or 0,
        status=_STATUS[span.status.status_code],
        outcome=Outcome.COMPLETED.value,
        launch=launch or None,
        columns=columns,
        span=encode_span(span),
        recorded_ns=now_ns,
    )


def _model(attributes: Attributes) -> str | None:
    """Return the model as the span shows it, cut if it is long.

    A client may write what it likes, and lists read a thousand rows at once.
    """
    if attributes is not None:
        for name in _MODEL_NAMES:
            if (model := attributes.get(name)) is not None:
                return str(model)[:MAX_MODEL_CHARS]
    return None


_MODEL_NAMES = (
    SpanAttributes.LLM_MODEL_NAME,
    SpanAttributes.EMBEDDING_MODEL_NAME,
    RerankerAttributes.RERANKER_MODEL_NAME,
    # Spans that no backend should price have only these.
    "gen_ai.response.model",
    "gen_ai.request.model",
)

_STATUS: dict[StatusCode, SpanStatus] = {
    StatusCode.UNSET: "UNSET",
    StatusCode.OK: "OK",
    StatusCode.ERROR: "ERROR",
}
