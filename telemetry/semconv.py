"""Names on spans that no installed package defines, and the few values we take from them.

Attribute names are not repeated here: OpenInference's come from :mod:`openinference.semconv.trace`,
OpenTelemetry's from :mod:`opentelemetry.semconv.attributes`
(``docs/contract/spans.md#whose-names``).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

SCOPE_NAME: Final = "spantap"
"""Instrumentation scope, and the ``service.name`` where the user gave none."""

FIRST_TOKEN_EVENT_NAME: Final = "First Token Stream Event"  # noqa: S105 - a name, no password
"""The instrumentor's exact event name (``docs/contract/spans.md#first-token-event``)."""

EXCEPTION_EVENT_NAME: Final = "exception"
"""Name of the event that Phoenix renders as an error (OTel trace semantic conventions)."""


REQUEST_BODY: Final = "spantap.request.body"
"""The client's body, where ``input.value`` is a text of it."""

RESPONSE_BODY: Final = "spantap.response.body"
"""The answer as the client received it, where ``output.value`` is a text of it."""


WEBSOCKET: Final = "websocket"
"""``network.protocol.name`` of a call over a WebSocket; other calls have none."""

LINK_RELATION: Final = "spantap.link"
"""On a span link: how the span continues the one that it links to."""


class MetadataMember(StrEnum):
    """Members of the one JSON object in ``metadata`` (``docs/contract/spans.md#metadata``)."""

    UPSTREAM = "upstream"
    MODEL = "model"
    REQUEST_ID = "request_id"
    PROXY_REWRITES = "proxy_rewrites"
    RETRY_COUNT = "retry_count"
    RETRY = "retry"
    TTFT_MS = "ttft_ms"
    FIRST_CONTENT_MS = "first_content_ms"
    CHUNK_COUNT = "chunk_count"
    CHUNK_WAIT_MS = "chunk_wait_ms"
    LONGEST_CHUNK_WAIT_MS = "longest_chunk_wait_ms"
    LONGEST_CHUNK_WAIT_AT = "longest_chunk_wait_at"
    OUTCOME = "outcome"
    ON_DISCONNECT = "on_disconnect"
    REFUSED_CHOICES = "refused_choices"
    FLAGGED = "flagged"
    FLAGGED_CATEGORIES = "flagged_categories"
    PARTIAL_IMAGES = "partial_images"
    INPUT_AUDIO = "input_audio"
    OUTPUT_BYTES = "output_bytes"
    OUTPUT_SECONDS = "output_seconds"
    USAGE_SOURCE = "usage_source"
    USAGE_RAW = "usage_raw"
    TRANSCRIPTION_USAGE = "transcription_usage"
    COST_SOURCE = "cost_source"
    COST_BASIS = "cost_basis"
    COST_LIST_DATE = "cost_list_date"
    RATE_LIMITS = "rate_limits"
    HEADERS = "headers"
    ANOMALIES = "anomalies"
    CONVERSATION = "conversation"
    KEPT_BY = "kept_by"
    CONTENT_HIDDEN_BY = "content_hidden_by"
    USAGE_EVENT_NOT_STRIPPED = "usage_event_not_stripped"
    LEFT_OUT_WITH_USAGE = "left_out_with_usage"
    CUT = "cut"
