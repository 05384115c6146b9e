"""The route of Responses, and the names of their spans."""

from __future__ import annotations

from codec.apis.api import Api
from codec.apis.responses.asked import ResponseRequest
from codec.apis.responses.said import read_response
from codec.apis.responses.stream import ResponseStream

__all__ = ("RESPONSES",)

RESPONSES = Api(
    name="responses",
    path_end="/responses",
    takes_slash=True,
    operation="chat",
    span_name="Response",
    api_type="responses",
    shows_past_reasoning=True,
    tool_members=frozenset({"tools", "tool_choice"}),
    read_asked=ResponseRequest,
    open_stream=ResponseStream,
    read_said=read_response,
)
"""The name of its spans is the one of OpenInference's instrumentor (``apis.md`` 1.1)."""
