"""Conversions and readings of neighbouring systems, for library users.

llama-stack's way of telling an answer (``seeds.md`` S3), and what other APIs of the same providers
say, in the codec's words (S4.21 to S4.23). Neither the proxy nor the telemetry needs any of it.
"""

from __future__ import annotations

from codec.compat.anthropic import decode_anthropic_usage, normalise_stop_reason
from codec.compat.api_shapes import ApiShape, find_request_shape, find_response_shape
from codec.compat.choices import text_of_choice
from codec.compat.end_markers import END_MARKERS, MAX_MARKERS, EndMarkerFilter, cut_end_markers
from codec.compat.logprobs import TokenLogprobs, decode_logprobs
from codec.compat.messages import ROLES_WITH_IMAGES, convert_message, image_data_url
from codec.compat.progress import AnswerProgress, ProgressKind, ProgressStep
from codec.compat.responses_api import find_response_calls, normalise_response_status
from codec.compat.sampling import greedy_options, top_k_options, top_p_options
from codec.compat.stop_reasons import StopReason, stop_reason_of_chat, stop_reason_of_completion
from codec.compat.tool_definitions import ToolParameter, build_tool_definition
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
