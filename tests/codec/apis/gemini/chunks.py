"""Chunks of Gemini's streams, and their framings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codec.apis.gemini.stream import ContentStream
from codec.text.jsontext import encode_json

if TYPE_CHECKING:
    from codec.apis.gemini.said import ContentAnswer

__all__ = ("USAGE", "answer_of", "chunk", "write_array", "write_events")

USAGE: dict[str, Any] = {
    "promptTokenCount": 10,
    "candidatesTokenCount": 5,
    "thoughtsTokenCount": 7,
    "totalTokenCount": 22,
}


def chunk(*parts: dict[str, Any], reason: Any = None, **members: Any) -> dict[str, Any]:
    """A chunk with these parts of the first candidate."""
    candidate: dict[str, Any] = {"content": {"parts": [*parts], "role": "model"}, "index": 0}
    if reason is not None:
        candidate["finishReason"] = reason
    return {"candidates": [candidate], **members}


def write_events(*chunks: Any) -> bytes:
    """The chunks as Google's events."""
    return b"".join(b"data: " + encode_json(one).encode() + b"\r\n\r\n" for one in chunks)


def write_array(*chunks: Any) -> bytes:
    """The chunks as Google's array."""
    return b"[" + b"\r\n,".join(encode_json(one).encode() for one in chunks) + b"\r\n]"


def answer_of(*chunks: Any) -> ContentAnswer:
    """What a stream of these chunks says."""
    stream = ContentStream()
    stream.feed(write_events(*chunks))
    return stream.finish()
