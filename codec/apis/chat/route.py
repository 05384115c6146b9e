"""The route of chat completions, and the names of their spans."""

from __future__ import annotations

from codec.apis.api import Api

__all__ = ("CHAT",)

CHAT = Api(
    name="chat.completions",
    path_end="/chat/completions",
    operation="chat",
    span_name="ChatCompletion",
    api_type="chat_completions",
    has_usage_option=True,
)
"""The name of its spans is the one of OpenInference's instrumentor (contract section 1)."""
