"""Lines of streamed answers, as Ollama writes them."""

from __future__ import annotations

from typing import Any

from codec.apis.ollama.said import ChatSaid, GenerateSaid
from codec.apis.ollama.stream import LineStream
from codec.text.jsontext import encode_json

__all__ = ("COUNTS", "DONE", "answer_of", "call", "end", "said", "text_of", "write_line", "written")

COUNTS = {
    "total_duration": 5_000_000_000,
    "load_duration": 1_000_000,
    "prompt_eval_count": 26,
    "prompt_eval_duration": 130_000_000,
    "eval_count": 7,
    "eval_duration": 4_000_000_000,
}


def write_line(**members: Any) -> bytes:
    """A line of a stream."""
    head = {"model": "m-1", "created_at": "2026-11-23T18:00:00.5Z"}
    return encode_json(head | {"done": False} | members).encode() + b"\n"


def said(content: str | None = "", **members: Any) -> bytes:
    """A line of a chat."""
    told = {} if content is None else {"content": content}
    return write_line(message={"role": "assistant", **told, **members})


def written(text: str, **members: Any) -> bytes:
    """A line of a text from a prompt."""
    return write_line(response=text, **members)


def call(name: str, arguments: Any, **members: Any) -> dict[str, Any]:
    """A call of a tool."""
    return {**members, "function": {"name": name, "arguments": arguments}}


def end(reason: str | None = "stop", **members: Any) -> bytes:
    """The last line of a chat."""
    word = {} if reason is None else {"done_reason": reason}
    message = {"role": "assistant", "content": ""}
    return write_line(message=message, done=True, **word, **(COUNTS | members))


DONE = end()


def answer_of(*pieces: bytes, **limits: Any) -> Any:
    """A chat's answer of these reads."""
    return _read(ChatSaid, pieces, limits)


def text_of(*pieces: bytes, **limits: Any) -> Any:
    """The text of these reads, from a prompt."""
    return _read(GenerateSaid, pieces, limits)


def _read(kind: Any, pieces: tuple[bytes, ...], limits: dict[str, Any]) -> Any:
    stream = LineStream(kind=kind, **limits)
    for piece in pieces:
        stream.feed(piece)
    return stream.finish()
