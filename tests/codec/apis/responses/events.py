"""Streams of the Responses API, made by hand."""

from __future__ import annotations

from typing import Any

from codec.apis.responses.stream import ResponseStream
from codec.text.jsontext import encode_json

__all__ = (
    "CALL",
    "CREATED",
    "MESSAGE",
    "WHOLE",
    "added",
    "answer_of",
    "delta",
    "done",
    "ended",
    "write_event",
)

MESSAGE: dict[str, Any] = {"type": "message", "id": "m-1", "role": "assistant", "content": []}
WHOLE: dict[str, Any] = MESSAGE | {"content": [{"type": "output_text", "text": "Hi there"}]}
CALL: dict[str, Any] = {
    "type": "function_call", "id": "i-1", "call_id": "c-1", "name": "f", "arguments": "{}"
}  # fmt: skip


def write_event(kind: str, **members: Any) -> bytes:
    """One event, with its name, as OpenAI writes it."""
    body = encode_json({"type": kind, **members}).encode("utf-8", "surrogatepass")
    return b"event: " + kind.encode() + b"\ndata: " + body + b"\n\n"


def added(index: int, item: dict[str, Any]) -> bytes:
    """An item begins."""
    return write_event("response.output_item.added", output_index=index, item=item)


def done(index: int, item: dict[str, Any]) -> bytes:
    """An item is whole."""
    return write_event("response.output_item.done", output_index=index, item=item)


def delta(text: str, index: int = 0, kind: str = "output_text", **members: Any) -> bytes:
    """A piece of a text."""
    return write_event(f"response.{kind}.delta", output_index=index, delta=text, **members)


def ended(status: str = "completed", **members: Any) -> bytes:
    """The terminal event."""
    response = {"object": "response", "status": status, **members}
    return write_event(f"response.{status}", response=response)


def answer_of(*pieces: bytes, **limits: Any) -> Any:
    """What a stream says that is read in these pieces."""
    stream = ResponseStream(**limits)
    for piece in pieces:
        stream.feed(piece)
    return stream.finish()


CREATED = write_event("response.created", response={"id": "r-1", "status": "in_progress"})
"""The first event."""
