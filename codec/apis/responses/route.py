"""The route of Responses, and the names of their spans."""

from __future__ import annotations

from functools import partial

from codec.apis.api import Api, load_player
from codec.apis.responses.asked import ResponseRequest
from codec.apis.responses.said import read_response
from codec.apis.responses.stream import ResponseStream

__all__ = ("QUOTED", "RESPONSES")

QUOTED = frozenset(
    {
        *("background", "conversation", "frequency_penalty", "input", "instructions"),
        *("max_output_tokens", "max_tool_calls", "metadata", "parallel_tool_calls"),
        *("presence_penalty", "previous_response_id", "prompt", "prompt_cache_key"),
        *("prompt_cache_retention", "reasoning", "safety_identifier", "store", "temperature"),
        *("text", "tool_choice", "tools", "top_logprobs", "top_p", "truncation", "user"),
    }
)
"""Members of a response in which it repeats its request."""

RESPONSES = Api(
    name="responses",
    path_ends=("/responses", "/responses/compact"),
    operation="chat",
    span_name="Response",
    api_type="responses",
    shows_past_reasoning=True,
    quoted_members=QUOTED,
    tool_lists=frozenset({"input", "output"}),
    asked=ResponseRequest,
    open_stream=ResponseStream,
    read_said=read_response,
    open_pictured=ResponseStream,
    read_pictured=read_response,
    open_player=partial(load_player, "codec.apis.responses.player", "PLAYER"),
)
"""Responses. The name of their spans is the one of OpenInference's instrumentor
(``docs/contract/apis.md#span-names``)."""
