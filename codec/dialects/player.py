"""The output of a generator as the bytes of a dialect: events, or the plain body.

A :class:`codec.generator.ChunkGenerator` makes the chunks, with running counts
(``UsagePolicy.CONTINUOUS``); the dialect decides where usage goes. Each piece of bytes is one event
with the comments around it, or the end marker. A stream without an end marker ends with its bytes
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
    """Plays one stream with the usage that the client asked for. Not safe for concurrent calls."""

    def __init__(self, dialect: Dialect, policy: UsagePolicy = UsagePolicy.NONE) -> None:
        self._dialect = dialect
        self._shaper = ChunkShaper(dialect, policy)
        self._events = 0

    def feed(self, chunk: JsonObject) -> Iterator[bytes]:
        """Feed a chunk of the generator; yield the events that it becomes.

        Raises:
            ValueError: the chunk has no running counts.
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
        """End the stream as a whole answer."""
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
        # A lone surrogate from a request must not break the stream.
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
        dialect: the dialect to write.
        chunks: the generator's chunks, with running counts.
        policy: the policy that the client asked for.
        error: an error that ends the stream after those chunks; as in :meth:`StreamPlayer.fail`.

    Raises:
        ValueError: as :meth:`StreamPlayer.feed`.
    """
    player = StreamPlayer(dialect, policy)
    for chunk in chunks:
        yield from player.feed(chunk)
    yield from player.end() if error is None else player.fail(error)


def play_body(dialect: Dialect, completion: JsonObject) -> bytes:
    """Write a generator's completion as a plain answer in a dialect."""
    usage = shape_usage(dialect.usage, completion["usage"])
    shaped = {"choices": [_choice(dialect, choice) for choice in completion["choices"]]}
    head = {name: member for name, member in completion.items() if name not in {"choices", "usage"}}
    whole = shape_head(dialect, head) | {"object": head["object"]}
    return _body(dialect, whole | shaped | {"usage": usage} | dialect.extras.body)


def play_error(dialect: Dialect, error: JsonObject) -> bytes:
    """Write the body of an error, which is as in :meth:`StreamPlayer.fail`."""
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
