"""The route of Gemini Live, and the names of its spans."""

from __future__ import annotations

from functools import partial

from codec.apis.api import Api
from codec.apis.gemini.live.asked import LiveRequest
from codec.apis.gemini.live.stream import LiveStream
from codec.apis.gemini.said import read_answer

__all__ = ("GEMINI_LIVE",)

GEMINI_LIVE = Api(
    name="gemini.live",
    path_ends=(
        *(".BidiGenerateContent", "/BidiGenerateContent"),
        *(".BidiGenerateContentConstrained", "/BidiGenerateContentConstrained"),
    ),
    sockets_only=True,
    operation="realtime_inference",
    span_name="BidiGenerateContent",
    system="vertexai",
    shows_past_reasoning=True,
    asked=LiveRequest,
    open_stream=LiveStream,
    open_sounding=partial(LiveStream, keeps_sound=True),
    read_said=read_answer,
)
"""The dot comes before the method in Google's own API, the slash in Vertex AI."""
