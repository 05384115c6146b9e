r"""Codec: the wire of a call to a model, and its meaning. Pure: bytes and values only.

A request's path finds its API in the table of :mod:`codec.apis`. The API reads the request and the
answer, whole or streamed, into the record of a call (:mod:`codec.asked`, :mod:`codec.said`), which
has one shape for all APIs. :mod:`codec.text` finds JSON and events in the bytes, and
:mod:`codec.chat` joins the chunks of chats.

The product uses these modules. Doors: ``agent_code``, ``apis``, ``asked``, ``charges``,
``chat``, ``compared_text``, ``cost``, ``errors``, ``growing_text``, ``history_items``,
``history_states``, ``members``, ``no_answer``, ``observations``, ``parts``, ``rankings``,
``rate_limits``, ``said``, ``text``, ``tools``, ``usage``, ``usage_option``, ``verdicts``,
``websockets``, ``_version``, and for library users ``compat``, ``dialects``, ``events``,
``generator``, ``token_logprobs``, ``values``, ``wire``. Library users import the names below from
the package itself.

What a client sent and what it asks for
    :func:`find_api`, :func:`decode_request`.

Asking for usage on its behalf, and hiding the usage that comes back
    :data:`STREAM_OPTIONS` names the members that :func:`scan_request` is to find
    (:class:`RequestScanner` in pieces), for :func:`rewrite_request`; :class:`UsageFilter`.

What a provider answered, whole or as a stream
    :func:`decode_response`, :class:`ChatStream`; below them :class:`SseDecoder` and
    :class:`Accumulator`.

>>> from codec import ChatStream
>>> stream = ChatStream()
>>> stream.feed(b'data: {"choices":[{"index":0,"delta":{"content":"Hi"},')
>>> stream.feed(b'"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')
>>> stream.finish().choices[0].message.content
'Hi'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from codec.apis.api import Api
    from codec.apis.table import find_api
    from codec.asked import Asked
    from codec.chat.accumulator import Accumulator
    from codec.chat.answer import ChatMessage, ChatResponse, Choice, ToolCall
    from codec.chat.completion import build_completion
    from codec.chat.finish import normalise_finish_reason
    from codec.chat.request import ChatRequest, decode_request
    from codec.chat.response import decode_response
    from codec.chat.rewrite import rewrite_request
    from codec.chat.stream import ChatStream
    from codec.chat.usage_filter import UsageFilter
    from codec.chat.usage_option import STREAM_OPTIONS
    from codec.cost import Cost
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
    from codec.said import ErrorObject, Said
    from codec.text.scan import BodyScan, RequestScanner, scan_request
    from codec.text.sse import ServerSentEvent, SseDecoder
    from codec.usage import Usage, UsageEstimate
    from codec.usage_option import Rewrite, UsagePolicy

__all__ = (
    "STREAM_OPTIONS",
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
    "decode_request",
    "decode_response",
    "find_api",
    "normalise_finish_reason",
    "rewrite_request",
    "scan_request",
)

_HOMES: Final = {
    "Api": "codec.apis.api",
    "find_api": "codec.apis.table",
    "Asked": "codec.asked",
    "ErrorObject": "codec.said",
    "Said": "codec.said",
    "Accumulator": "codec.chat.accumulator",
    "ChatMessage": "codec.chat.answer",
    "ChatResponse": "codec.chat.answer",
    "Choice": "codec.chat.answer",
    "ToolCall": "codec.chat.answer",
    "build_completion": "codec.chat.completion",
    "normalise_finish_reason": "codec.chat.finish",
    "ChatRequest": "codec.chat.request",
    "decode_request": "codec.chat.request",
    "decode_response": "codec.chat.response",
    "rewrite_request": "codec.chat.rewrite",
    "ChatStream": "codec.chat.stream",
    "UsageFilter": "codec.chat.usage_filter",
    "STREAM_OPTIONS": "codec.chat.usage_option",
    "Cost": "codec.cost",
    "CodecError": "codec.errors",
    "ContentFiltered": "codec.errors",
    "IncompleteAnswer": "codec.errors",
    "LengthReached": "codec.errors",
    "LimitExceeded": "codec.errors",
    "MalformedEvent": "codec.errors",
    "MalformedRequest": "codec.errors",
    "MalformedResponse": "codec.errors",
    "BodyScan": "codec.text.scan",
    "RequestScanner": "codec.text.scan",
    "scan_request": "codec.text.scan",
    "ServerSentEvent": "codec.text.sse",
    "SseDecoder": "codec.text.sse",
    "Usage": "codec.usage",
    "UsageEstimate": "codec.usage",
    "Rewrite": "codec.usage_option",
    "UsagePolicy": "codec.usage_option",
}
"""The modules that have the names. Each is imported when one of its names is first used, so that a
command that only reads JSON does not wait for every API."""


def __getattr__(name: str) -> object:
    """Import a name from its module.

    Raises:
        AttributeError: the package does not have it.
    """
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    """List all names, also those that were not used yet."""
    return sorted({*globals(), *__all__})
