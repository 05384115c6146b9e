"""The output of a generator to the bytes of a dialect: events, or the plain body.

Rules:

1. The chunks are made by :class:`codec.generator.ChunkGenerator` with running counts
   (``UsagePolicy.CONTINUOUS``); where usage goes is the dialect's choice.
2. Each piece of bytes is one event, with the comments around it, or the end marker.
3. Without an end marker the end of the bytes is the end
   (``docs/contract/wire.md#end-of-the-bytes``).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from codec.dialects._chunks import ChunkShaper, shape_error, shape_head, shape_usage
from codec.dialects._deltas import shape_message
from codec.generator import UsagePolicy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from codec.dialects.profile import Dialect
    from codec.text.jsontext import JsonObject

__all__ = ("StreamPlayer", "play_body", "play_error", "play_stream")


class StreamPlayer:
    """Plays one stream, by what the client asked for. Not safe for concurrent calls."""

    def __init__(self, dialect: Dialect, policy: UsagePolicy = UsagePolicy.NONE) -> None:
        self._dialect = dialect
        self._shaper = ChunkShaper(dialect, policy)
        self._events = 0

    def feed(self, chunk: JsonObject) -> Iterator[bytes]:
        """Feed a chunk of the generator; give the events that it becomes.

        Raises:
            ValueError: the chunk has no running counts (rule 1).
        """
        if chunk.get("usage") is None:
            raise ValueError("a dialect needs chunks with running counts")
        if not self._events and (before := self._shaper.before(chunk)) is not None:
            yield self._event(before)
        for shaped in self._shaper.feed(chunk):
            yield self._event(shaped)

    def fail(self, error: JsonObject) -> Iterator[bytes]:
        """End the stream with an error: ``message``, ``type``, ``param`` and ``code``."""
        for shaped in self._shaper.fail(error):
            yield self._event(shaped, self._dialect.error.event)
        if self._dialect.error.done:
            yield self._done()

    def end(self) -> Iterator[bytes]:
        """End the stream as it should end."""
        if self._dialect.framing.done:
            yield self._done()

    def _event(self, value: JsonObject, name: str | None = None) -> bytes:
        framing = self._dialect.framing
        lines = [] if name is None else [f"event: {name}"]
        lines += ["data: " + _dump(value, spaced=framing.spaced), ""]
        if not self._events:
            lines = [line for comment in framing.comments for line in (comment, "")] + lines
        elif self._events == 1 and framing.comment_between is not None:
            lines = [framing.comment_between, "", *lines]
        self._events += 1
        return self._lines(lines)

    def _done(self) -> bytes:
        return self._lines(["data: [DONE]", ""])

    def _lines(self, lines: list[str]) -> bytes:
        # A lone surrogate that a request brought along is not a reason to break the stream.
        return "".join(line + self._dialect.framing.line_end for line in lines).encode(
            errors="replace"
        )


def play_stream(
    dialect: Dialect,
    chunks: Iterable[JsonObject],
    *,
    policy: UsagePolicy = UsagePolicy.NONE,
    error: JsonObject | None = None,
) -> Iterator[bytes]:
    """Play a whole stream.

    Args:
        dialect: how to speak.
        chunks: of the generator (rule 1).
        policy: what the client asked for.
        error: what ends the stream after those chunks; as in :meth:`StreamPlayer.fail`.

    Raises:
        ValueError: as :meth:`StreamPlayer.feed`.
    """
    player = StreamPlayer(dialect, policy)
    for chunk in chunks:
        yield from player.feed(chunk)
    yield from player.end() if error is None else player.fail(error)


def play_body(dialect: Dialect, completion: JsonObject) -> bytes:
    """Write the plain answer that a generator's completion is in a dialect."""
    usage = shape_usage(dialect.usage, completion["usage"])
    shaped = {"choices": [_choice(dialect, choice) for choice in completion["choices"]]}
    head = {name: member for name, member in completion.items() if name not in {"choices", "usage"}}
    whole = shape_head(dialect, head) | {"object": head["object"]}
    return _body(dialect, whole | shaped | {"usage": usage} | dialect.extras.body)


def play_error(dialect: Dialect, error: JsonObject) -> bytes:
    """Write the body of an answer that is none; the error is as in :meth:`StreamPlayer.fail`."""
    shape = dialect.error
    shaped: Any = shape_error(shape.body_form, error)
    return _dump([shaped] if shape.in_list else shaped, spaced=False).encode(errors="replace")


def _choice(dialect: Dialect, choice: JsonObject) -> JsonObject:
    if "text" in choice:
        return choice
    return choice | {"message": shape_message(dialect, choice["message"])}


def _body(dialect: Dialect, value: JsonObject) -> bytes:
    framing = dialect.framing
    blank = framing.line_end * framing.blank_lines
    return (blank + _dump(value, spaced=framing.spaced)).encode(errors="replace")


def _dump(value: Any, *, spaced: bool) -> str:
    separators = (", ", ": ") if spaced else (",", ":")
    return json.dumps(value, ensure_ascii=False, separators=separators)
