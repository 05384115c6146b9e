r"""What is on the wire of an OpenAI-style chat, and what it means. Pure: bytes and values only.

What a client sent and what it asks for
    :func:`find_api`, :func:`decode_request`.

Asking for usage on its behalf, and hiding the answer to that
    :func:`scan_request` (:class:`RequestScanner` for pieces), :func:`rewrite_request`,
    :class:`UsageFilter`.

What a provider answered, whole or as a stream
    :func:`decode_response`, :class:`ChatStream`; below them :class:`SseDecoder` and
    :class:`Accumulator`.

>>> stream = ChatStream()
>>> stream.feed(b'data: {"choices":[{"index":0,"delta":{"content":"Hi"},')
>>> stream.feed(b'"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')
>>> stream.finish().choices[0].message.content
'Hi'
"""

from __future__ import annotations

from codec.accumulator import MAX_ACCUMULATED_BYTES, MAX_CHOICES, Accumulator
from codec.anomalies import calls_tool_not_offered
from codec.answer import ChatMessage, ChatResponse, Choice, ToolCall
from codec.apis.api import Api
from codec.apis.table import find_api
from codec.call import Asked, ErrorObject, Said
from codec.chunk import (
    ERROR_FINISH_REASONS,
    find_error,
    is_bare_value,
    is_chunk,
    is_done,
    is_usage_only,
)
from codec.completion import build_completion
from codec.cost import Cost, decode_cost
from codec.embeddings import decode_vector
from codec.errors import (
    CodecError,
    ContentFiltered,
    IncompleteAnswer,
    LengthReached,
    LimitExceeded,
    MalformedEvent,
    MalformedRequest,
    MalformedResponse,
)
from codec.finish import normalise_finish_reason
from codec.jsontext import (
    MAX_JSON_DEPTH,
    JsonObject,
    decode_json,
    decode_json_object,
    encode_json,
    is_too_deep,
)
from codec.request import ChatRequest, decode_request
from codec.response import decode_response
from codec.rewrite import (
    MAX_STREAM_OPTIONS_BYTES,
    USAGE_REWRITE,
    Rewrite,
    UsagePolicy,
    names_usage_option,
    rewrite_request,
)
from codec.scan import BodyScan, RequestScanner, scan_request
from codec.sse import MAX_EVENT_BYTES, ServerSentEvent, SseDecoder
from codec.stream import MAX_WASTED_TEMPLATES, ChatStream
from codec.usage import MAX_USAGE_BYTES, Usage, UsageEstimate, decode_usage
from codec.usage_filter import MAX_HELD_BYTES, UsageFilter

__all__ = (
    "ERROR_FINISH_REASONS",
    "MAX_ACCUMULATED_BYTES",
    "MAX_CHOICES",
    "MAX_EVENT_BYTES",
    "MAX_HELD_BYTES",
    "MAX_JSON_DEPTH",
    "MAX_STREAM_OPTIONS_BYTES",
    "MAX_USAGE_BYTES",
    "MAX_WASTED_TEMPLATES",
    "USAGE_REWRITE",
    "Accumulator",
    "Api",
    "Asked",
    "BodyScan",
    "ChatMessage",
    "ChatRequest",
    "ChatResponse",
    "ChatStream",
    "Choice",
    "CodecError",
    "ContentFiltered",
    "Cost",
    "ErrorObject",
    "IncompleteAnswer",
    "JsonObject",
    "LengthReached",
    "LimitExceeded",
    "MalformedEvent",
    "MalformedRequest",
    "MalformedResponse",
    "RequestScanner",
    "Rewrite",
    "Said",
    "ServerSentEvent",
    "SseDecoder",
    "ToolCall",
    "Usage",
    "UsageEstimate",
    "UsageFilter",
    "UsagePolicy",
    "build_completion",
    "calls_tool_not_offered",
    "decode_cost",
    "decode_json",
    "decode_json_object",
    "decode_request",
    "decode_response",
    "decode_usage",
    "decode_vector",
    "encode_json",
    "find_api",
    "find_error",
    "is_bare_value",
    "is_chunk",
    "is_done",
    "is_too_deep",
    "is_usage_only",
    "names_usage_option",
    "normalise_finish_reason",
    "rewrite_request",
    "scan_request",
)
