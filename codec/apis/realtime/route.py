"""The route of Realtime, and the names of its spans."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codec.apis.api import Api
from codec.apis.realtime.asked import RealtimeRequest
from codec.apis.realtime.sound import name_format
from codec.apis.realtime.stream import RealtimeStream
from codec.apis.responses.route import QUOTED
from codec.apis.responses.said import read_response

__all__ = ("REALTIME",)

if TYPE_CHECKING:
    from collections.abc import Callable

    from codec.asked import Asked


def _open_sounding(*, asked: Asked, lend: Callable[[int], bool]) -> RealtimeStream:
    """Begin an answer with sound, of the session's format unless the answer names another."""
    return RealtimeStream(lend=lend, keeps_sound=True, form=name_format(asked.body, "output"))


_QUOTED = {"audio", "max_response_output_tokens", "modalities", "output_modalities", "voice"}

REALTIME = Api(
    name="realtime",
    path_ends=("/realtime",),
    sockets_only=True,
    operation="realtime_inference",
    span_name="Realtime",
    quoted_members=QUOTED | _QUOTED,
    tool_lists=frozenset({"input", "output"}),
    asked=RealtimeRequest,
    open_stream=RealtimeStream,
    open_sounding=_open_sounding,
    read_said=read_response,
)
"""The operation is OpenTelemetry's word for a response of a session."""
