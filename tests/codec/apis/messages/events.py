"""Events of streamed messages, as Anthropic writes them."""

from __future__ import annotations

from typing import Any

from codec.apis.messages.stream import MessageStream
from codec.text.jsontext import encode_json

__all__ = (
    "MESSAGE",
    "START",
    "STOP",
    "STOPPED",
    "USAGE",
    "answer_of",
    "begin",
    "cut",
    "delta",
    "end",
    "text",
    "write_event",
)


def write_event(kind: str, **members: Any) -> bytes:
    """An event with its name."""
    data = encode_json({"type": kind, **members})
    return f"event: {kind}\ndata: {data}\n\n".encode()


def begin(index: int, kind: str = "text", **members: Any) -> bytes:
    """A block begins."""
    block = {"type": kind, **({"text": ""} if kind == "text" else {}), **members}
    return write_event("content_block_start", index=index, content_block=block)


def delta(index: int, kind: str, **members: Any) -> bytes:
    """A block grows."""
    return write_event("content_block_delta", index=index, delta={"type": kind, **members})


def text(piece: str, index: int = 0) -> bytes:
    """A block of text grows."""
    return delta(index, "text_delta", text=piece)


def end(reason: str | None = "end_turn", **usage: Any) -> bytes:
    """The reason to end, and the counts."""
    said = {"stop_reason": reason, "stop_sequence": None}
    return write_event("message_delta", delta=said, usage=usage or {"output_tokens": 9})


USAGE = {"input_tokens": 5, "cache_read_input_tokens": 10, "cache_creation_input_tokens": 20}
MESSAGE = {"id": "msg-1", "type": "message", "role": "assistant", "model": "m-1", "content": []}
START = write_event("message_start", message=MESSAGE | {"usage": USAGE | {"output_tokens": 1}})
STOP = write_event("message_stop")
STOPPED = [write_event("content_block_stop", index=index) for index in range(3)]
"""The events that end a block, by its index."""


def answer_of(*pieces: bytes, **limits: Any) -> Any:
    """The answer of these reads."""
    stream = MessageStream(**limits)
    for piece in pieces:
        stream.feed(piece)
    return stream.finish()


def cut(data: bytes, size: int) -> list[bytes]:
    """The bytes in reads of a size."""
    return [data[at : at + size] for at in range(0, len(data), size)]
