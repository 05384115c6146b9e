"""Calls of the Responses API with canaries over a WebSocket: the same bodies in messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codec.text.jsontext import decode_json_object
from telemetry.frames.ending import EndKind
from tests.telemetry.canaries import body
from tests.telemetry.chat_canaries import ERROR, ERROR_WORDS, OUTPUT_WORDS
from tests.telemetry.observing.test_socket_calls import Wire
from tests.telemetry.response_canaries import (
    RESPONSES_ANSWERED,
    RESPONSES_ASKED,
    RESPONSES_WORDS,
    stream_response,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from telemetry.frames.frame import Frame

__all__ = ("SOCKET_SHAPES", "speak")

_STREAM = stream_response(RESPONSES_ANSWERED)
_REFUSED = b"data: " + body({"type": "error", "status": 400, **ERROR}) + b"\n\n"
_BEGUN, _, _ = _STREAM.rpartition(b"data: ")
_SHAPES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "response": ({"data": _STREAM}, RESPONSES_WORDS | OUTPUT_WORDS),
    "refused": ({"data": _REFUSED}, RESPONSES_WORDS | ERROR_WORDS),
    "broken": ({"data": _BEGUN + _REFUSED}, RESPONSES_WORDS | OUTPUT_WORDS | {"message"}),
    "cut": (
        {"data": _BEGUN, "kind": EndKind.UPSTREAM_BROKEN},
        RESPONSES_WORDS | OUTPUT_WORDS,
    ),
}

SOCKET_SHAPES: dict[str, tuple[dict[str, Any], set[str]]] = {
    f"{name} in {form} messages": (
        {
            "asked": body(RESPONSES_ASKED),
            "endpoint": "responses",
            "path": "/v1/responses",
            "is_compressed": form == "compressed",
            **members,
        },
        words,
    )
    for name, (members, words) in _SHAPES.items()
    for form in ("plain", "compressed")
}
"""As :data:`tests.telemetry.canary_shapes.SHAPES`."""


def speak(
    *,
    asked: bytes,
    data: bytes,
    headers: Iterable[tuple[str, str]],
    kind: EndKind = EndKind.CLIENT_GONE,
    **begun: Any,
) -> list[Frame]:
    """The frames of a connection: the request, and its events."""
    wire = Wire(headers=tuple(headers), **begun)
    wire.say(decode_json_object(asked) | {"type": "response.create"}, from_client=True)
    for event in data.split(b"\n\n"):
        if event:
            wire.say(event.removeprefix(b"data: "), from_client=False)
    wire.end(kind)
    return wire.frames
