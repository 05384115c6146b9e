"""Folds the items of a streamed response, and the texts in them that come in pieces."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from codec.budget import size_bytes
from codec.growing_text import GrowingText, TextKind
from codec.members import list_of, object_of, text_of
from codec.text.integers import index_of
from codec.text.jsontext import join_text

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

    from codec.text.jsontext import JsonObject

__all__ = ("DELTAS", "WHOLES", "ItemFold", "Place", "look_at_whole", "part_of")


class Place(NamedTuple):
    """The place in an item of a text that comes in pieces.

    Attributes:
        item: the type of the item.
        member: the member of the item, or of one of its parts, that has the text.
        parts: the member of the item with the list of parts; ``None`` if the text is the item's.
        part: the type of the part; ``None`` if the part is the text itself.
        inside: the item's object that has the text, or the list of parts.
    """

    item: str
    member: str
    parts: str | None = None
    part: str | None = None
    inside: str | None = None


_PLACES: Final = {
    "response.output_text": Place("message", "text", "content", "output_text"),
    "response.refusal": Place("message", "refusal", "content", "refusal"),
    "response.reasoning_text": Place("reasoning", "text", "content", "reasoning_text"),
    "response.reasoning_summary_text": Place("reasoning", "text", "summary", "summary_text"),
    "response.function_call_arguments": Place("function_call", "arguments"),
    "response.mcp_call_arguments": Place("mcp_call", "arguments"),
    "response.custom_tool_call_input": Place("custom_tool_call", "input"),
    "response.code_interpreter_call_code": Place("code_interpreter_call", "code"),
    "response.shell_call_command": Place("shell_call", "command", "commands", None, "action"),
    "response.apply_patch_call_operation_diff": Place(
        "apply_patch_call", "diff", inside="operation"
    ),
    "response.audio.transcript": Place("message", "transcript", "content", "output_audio"),
}
DELTAS: Final = {f"{name}.delta": place for name, place in _PLACES.items()}
WHOLES: Final = {f"{name}.done": f"{name}.delta" for name in _PLACES}
_BETA_PARTS: Final = {"text": "output_text", "audio": "output_audio"}
"""Types of parts in the beta of Realtime, which xAI and Azure still have, and what they are now."""

_Key = tuple[Place, int]


class ItemFold:
    """An item under way.

    Attributes:
        value: the item as it came whole, in its first or last event.
        texts: pieces of texts by their place; once the item is done, only texts that its last
            event lacks.
        annotations: annotations of a part's text, by its place; empty once the item is done.
        is_done: the item came whole.
    """

    __slots__ = ("annotations", "is_done", "texts", "value")

    def __init__(self, value: JsonObject) -> None:
        self.value = value
        self.texts: dict[_Key, list[str]] = {}
        self.annotations: dict[int, list[Any]] = {}
        self.is_done = False

    @property
    def kind(self) -> str | None:
        """The type of the item."""
        return text_of(self.value.get("type"))

    @property
    def is_unnamed(self) -> bool:
        """Whether no event added it: it was made of deltas."""
        return not self.is_done and len(self.value) == 1

    def outdated_bytes(self, value: JsonObject) -> int:
        """The size of what a whole item replaces; texts are estimated at their least size."""
        outdated = (pieces for (place, _), pieces in self.texts.items() if _has_text(value, place))
        return size_bytes(self.value) + sum(map(len, chain.from_iterable(outdated)))

    def finish(self, value: JsonObject) -> None:
        """Take the item as it came whole; texts that it lacks are kept in pieces."""
        self.texts = {key: it for key, it in self.texts.items() if not _has_text(value, key[0])}
        if not self.texts:
            self.annotations = {}
        self.value, self.is_done = value, True

    def body(self) -> JsonObject:
        """The item as far as it is known."""
        if not self.texts:
            return self.value
        body = dict(self.value)
        lists: dict[tuple[str | None, str], list[Any]] = {}
        for (place, at), pieces in sorted(self.texts.items(), key=_part_index):
            text: Any = join_text(pieces)
            if place.parts is None:
                _put(body, place.inside, place.member, text)
                continue
            if place.part is not None:
                text = {"type": place.part, place.member: text}
                if at in self.annotations:
                    text["annotations"] = self.annotations[at]
            lists.setdefault((place.inside, place.parts), []).append(text)
        for (inside, member), parts in lists.items():
            _put(body, inside, member, parts)
        return body

    def look(self, index: Hashable) -> Iterator[GrowingText]:
        """Look at the texts of the item, which has this place in the stream."""
        if self.is_done:
            yield from look_at_whole(index, self.value)
        for (place, part), pieces in sorted(self.texts.items(), key=_part_index):
            yield GrowingText((index, place, part), _kind_of(place), pieces, _name_of(self.value))


def look_at_whole(index: Hashable, item: Any) -> Iterator[GrowingText]:
    """Look at the texts of an item that came whole."""
    value = object_of(item)
    for place in _PLACES.values():
        if place.item != value.get("type"):
            continue
        holder = value if place.inside is None else object_of(value.get(place.inside))
        parts = [holder] if place.parts is None else list_of(holder.get(place.parts))
        for part, each in enumerate(parts):
            text = each if isinstance(each, str) else object_of(each).get(place.member)
            if isinstance(text, str) and text and _is_of(place, each):
                key, kind = (index, place, part), _kind_of(place)
                yield GrowingText(key, kind, (text,), _name_of(value), grows=False)


def _has_text(item: Mapping[str, Any], place: Place) -> bool:
    """Tell whether an item has something where a text of it belongs."""
    holder = item if place.inside is None else object_of(item.get(place.inside))
    return bool(holder.get(place.parts or place.member))


def _is_of(place: Place, part: Any) -> bool:
    kind = text_of(object_of(part).get("type")) or ""
    return place.part is None or _BETA_PARTS.get(kind, kind) == place.part


def _kind_of(place: Place) -> TextKind:
    kinds = {"message": TextKind.TEXT, "reasoning": TextKind.REASONING}
    return kinds.get(place.item, TextKind.ARGUMENTS)


def _name_of(item: Mapping[str, Any]) -> str | None:
    return text_of(item.get("name"))


def _put(body: JsonObject, inside: str | None, member: str, value: Any) -> None:
    """Set a member of an item, or of an object in it."""
    if inside is None:
        body[member] = value
    else:
        body[inside] = object_of(body.get(inside)) | {member: value}


def part_of(event: Mapping[str, Any]) -> int:
    """The place in the item that an event is about: in its content, its summary, its commands."""
    names = ("content_index", "summary_index", "command_index")
    return next(filter(None, (index_of(event.get(name)) for name in names)), 0)


def _part_index(entry: tuple[_Key, list[str]]) -> int:
    return entry[0][1]
