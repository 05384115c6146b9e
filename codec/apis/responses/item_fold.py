"""Folds the items of a streamed response, and the texts in them that come in pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from codec.text.integers import index_of
from codec.text.jsontext import join_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codec.text.jsontext import JsonObject

__all__ = ("DELTAS", "PARTS", "WHOLES", "ItemFold", "Place", "part_of")


class Place(NamedTuple):
    """The place in an item of a text that comes in pieces.

    Attributes:
        item: the type of the item.
        member: which has the text, of the item or of one of its parts.
        parts: the item's list of parts; ``None`` where the text is the item's own.
        part: the type of the part.
    """

    item: str
    member: str
    parts: str | None = None
    part: str | None = None


_PLACES: Final = {
    "response.output_text": Place("message", "text", "content", "output_text"),
    "response.refusal": Place("message", "refusal", "content", "refusal"),
    "response.reasoning_text": Place("reasoning", "text", "content", "reasoning_text"),
    "response.reasoning_summary_text": Place("reasoning", "text", "summary", "summary_text"),
    "response.function_call_arguments": Place("function_call", "arguments"),
    "response.mcp_call_arguments": Place("mcp_call", "arguments"),
    "response.custom_tool_call_input": Place("custom_tool_call", "input"),
    "response.code_interpreter_call_code": Place("code_interpreter_call", "code"),
}
DELTAS: Final = {f"{name}.delta": place for name, place in _PLACES.items()}
WHOLES: Final = {f"{name}.done": f"{name}.delta" for name in _PLACES}
PARTS: Final = frozenset(
    f"response.{part}_part.{step}"
    for part in ("content", "reasoning_summary")
    for step in ("added", "done")
)
"""Events about a part of an item, which say nothing that others do not."""

_Key = tuple[Place, int]


class ItemFold:
    """An item under way.

    Attributes:
        value: what came of it as a whole.
        texts: what came in pieces, by their place; none once it is done.
        is_done: it came whole.
    """

    __slots__ = ("is_done", "texts", "value")

    def __init__(self, value: JsonObject) -> None:
        self.value = value
        self.texts: dict[_Key, list[str]] = {}
        self.is_done = False

    def body(self) -> JsonObject:
        """The item as far as it is known."""
        if not self.texts:
            return self.value
        body = dict(self.value)
        parts: dict[str, list[JsonObject]] = {}
        for (place, _), pieces in sorted(self.texts.items(), key=_part_index):
            text = join_text(pieces)
            if place.parts is None:
                body[place.member] = text
            else:
                part = {"type": place.part, place.member: text}
                parts.setdefault(place.parts, []).append(part)
        return body | parts


def part_of(event: Mapping[str, Any]) -> int:
    """The place in the item that an event is about: in its content, or in its summary."""
    return index_of(event.get("content_index")) or index_of(event.get("summary_index")) or 0


def _part_index(entry: tuple[_Key, list[str]]) -> int:
    return entry[0][1]
