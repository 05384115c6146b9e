"""The tool calls of a stream in llama-stack's form: the new text, then the parsed calls.

A call is its name and ``(``, the fragments of its arguments, and ``)``
(``docs/contract/sources.md#s3-8``); text that begins with the python tag is one call of raw text.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from codec.events import ArgumentsDelta, ArgumentsDone, ChatEventStream, ContentDelta
from codec.text.jsontext import decode_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codec.events import ChatEvent

__all__ = (
    "MAX_RAW_CHARACTERS",
    "PYTHON_TAG",
    "ParseStatus",
    "ParsedCall",
    "TaggedText",
    "ToolProgress",
    "parse_call",
)

PYTHON_TAG = "<|python_tag|>"
"""Begins a call in the text of Llama's models."""


MAX_RAW_CHARACTERS = 64 * 1024
"""The longest call that is text; it is longer than any call of a function. The rest is left out."""


class ParseStatus(StrEnum):
    """How far a call is."""

    STARTED = "started"
    IN_PROGRESS = "in_progress"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedCall:
    """A whole call.

    Attributes:
        id: empty if there was none.
        arguments: the parsed object; ``None`` if the text is not an object.
        raw: the argument text.
        parse_status: succeeded or failed.
    """

    id: str = ""
    name: str = ""
    arguments: dict[str, Any] | None = None
    raw: str = ""
    parse_status: ParseStatus


def parse_call(call_id: str | None, name: str | None, arguments: str) -> ParsedCall:
    """Parse the arguments of a call; an empty text is an empty object."""
    try:
        value = decode_json(arguments) if arguments.strip() else {}
    except ValueError:
        value = None
    parsed = value if isinstance(value, dict) else None
    return ParsedCall(
        id=call_id or "",
        name=name or "",
        arguments=parsed,
        raw=arguments,
        parse_status=ParseStatus.FAILED if parsed is None else ParseStatus.SUCCEEDED,
    )


class ToolProgress:
    """Makes the increments of one choice's text and tool calls from the codec's events."""

    def __init__(self, choice_index: int = 0) -> None:
        self._index = choice_index
        self._events = ChatEventStream()
        self._begun: set[int] = set()  # the calls whose name was returned

    def feed(self, chunk: Any) -> list[str]:
        """Feed a chunk and return what it adds: text first, then calls."""
        return [piece for event in self._events.feed(chunk) for piece in self._list_pieces(event)]

    def finish(self) -> tuple[list[str], tuple[ParsedCall, ...]]:
        """End the stream; return the last increments, and all calls parsed."""
        pieces = [piece for event in self._events.finish() for piece in self._list_pieces(event)]
        choices = self._events.response().choices
        calls = next((c.message.tool_calls for c in choices if c.index == self._index), ())
        return pieces, tuple(parse_call(call.id, call.name, call.arguments) for call in calls)

    def _list_pieces(self, event: ChatEvent) -> Iterator[str]:
        if getattr(event, "choice_index", None) != self._index:
            return
        if isinstance(event, ContentDelta):
            yield event.delta
        elif isinstance(event, ArgumentsDelta):
            call = id(event.so_far.items)  # the stream keeps the list, so the id stays unique
            if call not in self._begun:
                self._begun.add(call)
                yield f"{event.name or ''}("
            if event.delta:
                yield event.delta
        elif isinstance(event, ArgumentsDone):
            yield ")"


class TaggedText:
    """Finds the python tag in a stream, whole or in pieces (``docs/contract/sources.md#s3-7``).

    Attributes:
        raw_text: the call's text so far, including its tag; empty if there is no call.
    """

    def __init__(self) -> None:
        self.raw_text = ""
        self._begun = ""

    def feed(self, text: str) -> ParseStatus | None:
        """Feed a piece of text; return the call's phase, ``None`` if the text is not a call."""
        if self.raw_text:
            self.raw_text = (self.raw_text + text)[:MAX_RAW_CHARACTERS]
            return ParseStatus.IN_PROGRESS if text else None
        if not PYTHON_TAG.startswith(self._begun):
            return None  # the text began in another way
        self._begun = (self._begun + text)[:MAX_RAW_CHARACTERS]
        if self._begun.startswith(PYTHON_TAG):
            self.raw_text = self._begun
            return ParseStatus.STARTED
        return None

    def finish(self) -> ParseStatus | None:
        """End the text; a call with text behind its tag succeeded."""
        if not self.raw_text:
            return None
        empty = self.raw_text == PYTHON_TAG
        return ParseStatus.FAILED if empty else ParseStatus.SUCCEEDED
