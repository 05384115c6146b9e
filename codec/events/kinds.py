"""The events of a streamed chat completion: frozen values, each with its ``type``.

The types are those of openai-python (``docs/contract/sources.md#s1-13``), and ``error``. A *delta*
event has what a chunk added and, as ``snapshot``, all there is so far; a *done* event has the
whole. There are no events for reasoning and for the legacy ``function_call``: these are in the
chunk and in the answer (:attr:`codec.events.stream.ChatEventStream.snapshot`).

The content of an event never changes, whatever comes after it. Events are cheap, because streams
have one or more for every token: a snapshot is put together, and JSON is parsed, each time that it
is asked for. ``parsed`` is ``None`` unless the text looks like JSON; then it is a list or an object
(:func:`~codec.events.partial_json.parse_payload`). A delta event has as much of it as has come
(``docs/contract/sources.md#s1-11``), a done event the whole, or ``None`` if it is not whole.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from codec.events.partial_json import parse_payload
from codec.said import ErrorObject
from codec.text.jsontext import JsonObject, join_text

__all__ = (
    "ArgumentsDelta",
    "ArgumentsDone",
    "ChatEvent",
    "ChunkEvent",
    "ContentDelta",
    "ContentDone",
    "ErrorEvent",
    "LogprobsContentDelta",
    "LogprobsContentDone",
    "LogprobsRefusalDelta",
    "LogprobsRefusalDone",
    "Prefix",
    "RefusalDelta",
    "RefusalDone",
)


class Prefix(msgspec.Struct, frozen=True, gc=False, eq=False):
    """The first items of a list that grows at its end. Two are equal if their items are.

    Attributes:
        items: the list; its owner appends to it.
        count: how many items of it are meant.
    """

    items: list[Any]
    count: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Prefix) and self.taken() == other.taken()

    def __hash__(self) -> int:
        return hash(self.count)  # items may be objects, which have no hash

    def taken(self) -> list[Any]:
        """Return the items."""
        return self.items[: self.count]


class ChunkEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A chunk came, as it was fed; the events of its changes follow."""

    type: ClassVar[Literal["chunk"]] = "chunk"
    chunk: JsonObject


class _TextDelta(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A choice has more of a text: the new piece, and the pieces so far."""

    choice_index: int
    delta: str
    so_far: Prefix

    @property
    def snapshot(self) -> str:
        """The text so far."""
        return join_text(self.so_far.taken())


class ContentDelta(_TextDelta, frozen=True, kw_only=True, gc=False):
    """A choice has more text."""

    type: ClassVar[Literal["content.delta"]] = "content.delta"

    @property
    def parsed(self) -> Any | None:
        """The value so far."""
        return _parsed(self.snapshot)


class ContentDone(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The text of a choice has ended; this has all of it."""

    type: ClassVar[Literal["content.done"]] = "content.done"
    choice_index: int
    content: str

    @property
    def parsed(self) -> Any | None:
        """The whole value."""
        return _parsed_whole(self.content)


class RefusalDelta(_TextDelta, frozen=True, kw_only=True, gc=False):
    """A choice has more of a refusal."""

    type: ClassVar[Literal["refusal.delta"]] = "refusal.delta"


class RefusalDone(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The refusal of a choice has ended: all of it."""

    type: ClassVar[Literal["refusal.done"]] = "refusal.done"
    choice_index: int
    refusal: str


class ArgumentsDelta(_TextDelta, frozen=True, kw_only=True, gc=False):
    """A tool call has begun or has more arguments; a custom tool's input counts as such.

    Attributes:
        index: the call's own index, or its place among the calls if it has none.
        call_id: its id, as far as known; several calls may have one index
            (``docs/contract/wire.md#tool-calls``).
        name: the function's name, as far as known.
    """

    type: ClassVar[Literal["tool_calls.function.arguments.delta"]] = (
        "tool_calls.function.arguments.delta"
    )
    index: int
    call_id: str | None
    name: str | None

    @property
    def parsed(self) -> Any | None:
        """The value so far."""
        return _parsed(self.snapshot)


class ArgumentsDone(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The arguments of a tool call have ended: all of them (:class:`ArgumentsDelta`)."""

    type: ClassVar[Literal["tool_calls.function.arguments.done"]] = (
        "tool_calls.function.arguments.done"
    )
    choice_index: int
    index: int
    call_id: str | None
    name: str | None
    arguments: str

    @property
    def parsed(self) -> Any | None:
        """The whole value; ``None`` if the arguments were cut off."""
        return _parsed_whole(self.arguments)


class _TokensDelta(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A choice has log probabilities of more tokens: the new entries, one for each, as sent."""

    choice_index: int
    delta: tuple[Any, ...]
    so_far: Prefix

    @property
    def snapshot(self) -> tuple[Any, ...]:
        """The entries so far."""
        return tuple(self.so_far.taken())


class LogprobsContentDelta(_TokensDelta, frozen=True, kw_only=True, gc=False):
    """A choice has log probabilities of more tokens of its text."""

    type: ClassVar[Literal["logprobs.content.delta"]] = "logprobs.content.delta"


class LogprobsContentDone(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The log probabilities of a choice's text have ended: all entries."""

    type: ClassVar[Literal["logprobs.content.done"]] = "logprobs.content.done"
    choice_index: int
    content: tuple[Any, ...]


class LogprobsRefusalDelta(_TokensDelta, frozen=True, kw_only=True, gc=False):
    """A choice has log probabilities of more tokens of its refusal."""

    type: ClassVar[Literal["logprobs.refusal.delta"]] = "logprobs.refusal.delta"


class LogprobsRefusalDone(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The log probabilities of a choice's refusal have ended: all entries."""

    type: ClassVar[Literal["logprobs.refusal.done"]] = "logprobs.refusal.done"
    choice_index: int
    refusal: tuple[Any, ...]


class ErrorEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The provider said that something failed: the last event of its stream."""

    type: ClassVar[Literal["error"]] = "error"
    error: ErrorObject


ChatEvent = (
    ChunkEvent
    | ContentDelta
    | ContentDone
    | RefusalDelta
    | RefusalDone
    | LogprobsContentDelta
    | LogprobsContentDone
    | LogprobsRefusalDelta
    | LogprobsRefusalDone
    | ArgumentsDelta
    | ArgumentsDone
    | ErrorEvent
)
"""Any event of a chat; ``type`` says which."""


def _parsed(text: str) -> Any | None:
    partial = parse_payload(text)
    return partial.value if partial else None


def _parsed_whole(text: str) -> Any | None:
    partial = parse_payload(text)
    return partial.value if partial and partial.complete else None
