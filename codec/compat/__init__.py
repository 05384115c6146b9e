"""Compat: conversions and readings of neighbouring systems, for library users.

llama-stack's reading of an answer (``docs/contract/sources.md#the-lossy-reader``), and other APIs
of the same providers in the codec's words (``docs/contract/sources.md#s4-21``). Most of it is
functions from value to value. The classes follow a stream: they are fed its chunks or its text, and
finished at its end. The proxy and telemetry do not use it.

An answer in llama-stack's words
    :class:`AnswerProgress`, and :class:`ToolProgress` of its calls; :func:`stop_reason_of_chat` and
    :func:`stop_reason_of_completion`, :class:`EndMarkerFilter`, :func:`text_of_choice`,
    :func:`decode_logprobs`.

A request out of llama-stack's words
    :func:`convert_message`, :func:`build_tool_definition`, :func:`greedy_options`,
    :func:`top_p_options`, :func:`top_k_options`.

Other APIs
    :func:`find_request_shape` and :func:`find_response_shape` say which API a body belongs to,
    :func:`normalise_stop_reason` and :func:`decode_anthropic_usage` read Anthropic's,
    :func:`normalise_response_status` and :func:`find_response_calls` OpenAI's Responses.

Doors: the names above, such as ``AnswerProgress``; no module.
"""

from __future__ import annotations

from codec.compat.answers import (
    END_MARKERS,
    MAX_MARKERS,
    AnswerProgress,
    EndMarkerFilter,
    ProgressKind,
    ProgressStep,
    StopReason,
    TokenLogprobs,
    cut_end_markers,
    decode_logprobs,
    stop_reason_of_chat,
    stop_reason_of_completion,
    text_of_choice,
)
from codec.compat.other_apis import (
    ApiShape,
    decode_anthropic_usage,
    find_request_shape,
    find_response_calls,
    find_response_shape,
    normalise_response_status,
    normalise_stop_reason,
)
from codec.compat.requests import (
    ROLES_WITH_IMAGES,
    ToolParameter,
    build_tool_definition,
    convert_message,
    greedy_options,
    image_data_url,
    top_k_options,
    top_p_options,
)
from codec.compat.tool_progress import (
    MAX_RAW_CHARACTERS,
    PYTHON_TAG,
    ParsedCall,
    ParseStatus,
    TaggedText,
    ToolProgress,
    parse_call,
)

__all__ = (
    "END_MARKERS",
    "MAX_MARKERS",
    "MAX_RAW_CHARACTERS",
    "PYTHON_TAG",
    "ROLES_WITH_IMAGES",
    "AnswerProgress",
    "ApiShape",
    "EndMarkerFilter",
    "ParseStatus",
    "ParsedCall",
    "ProgressKind",
    "ProgressStep",
    "StopReason",
    "TaggedText",
    "TokenLogprobs",
    "ToolParameter",
    "ToolProgress",
    "build_tool_definition",
    "convert_message",
    "cut_end_markers",
    "decode_anthropic_usage",
    "decode_logprobs",
    "find_request_shape",
    "find_response_calls",
    "find_response_shape",
    "greedy_options",
    "image_data_url",
    "normalise_response_status",
    "normalise_stop_reason",
    "parse_call",
    "stop_reason_of_chat",
    "stop_reason_of_completion",
    "text_of_choice",
    "top_k_options",
    "top_p_options",
)
