"""The conversation of a Realtime session: its items in their order, within bounds.

Only what the server says counts: it gives every item its id and its place, and says when one is
changed or removed. If the items do not fit, the oldest ones are forgotten first (R5). An item that
would take most of the room for itself, such as a picture, is left out. What waits in the session
shares the room.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from codec.apis.realtime.sound import take_sound
from codec.apis.session import MAX_SESSION_BYTES
from codec.budget import size_bytes
from codec.members import list_of, object_of, text_of
from codec.text.integers import index_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codec.text.jsontext import JsonObject

__all__ = ("ADDED", "Conversation")

_ITEM_BYTES: Final = 512
"""The cost of an item besides its value."""

ADDED: Final = frozenset({"conversation.item.added", "conversation.item.created"})
"""The events that add an item, by their name now and in the beta of the API."""

_FIRST: Final = "root"
"""Instead of the item before, for an item that becomes the first one."""


@dataclass(slots=True, eq=False)
class _Item:
    """An item, and what it takes."""

    value: JsonObject
    size_bytes: int


class Conversation:
    """The items of one connection. Not safe for concurrent calls.

    Args:
        limit_bytes: the most that it takes, as an estimate.

    Attributes:
        is_partial: some items are missing, because they were forgotten or came on another
            connection.
    """

    __slots__ = ("_held_bytes", "_items", "_items_bytes", "_limit_bytes", "is_partial")

    def __init__(self, limit_bytes: int = MAX_SESSION_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._items: dict[str, _Item] = {}  # in the order of the conversation
        self._items_bytes = 0
        self._held_bytes = 0
        self.is_partial = False

    @property
    def state(self) -> tuple[list[Any], bool]:
        """The items, as JSON, for :meth:`restore`."""
        return self.list(), self.is_partial

    def restore(self, items: list[Any], is_partial: bool) -> None:  # noqa: FBT001 - from JSON
        """Keep the items of a conversation's state."""
        for value in items:
            self.put(value)
        self.is_partial = is_partial

    def hold(self, value: Any) -> int:
        """Make room for a value, and return its size; 0 if it does not fit."""
        size = size_bytes(value) + _ITEM_BYTES
        if self._held_bytes + size > self._limit_bytes:
            return 0
        self._held_bytes += size
        self._forget()
        return size

    def release(self, size: int) -> None:
        """Give back the room of a value."""
        self._held_bytes -= size

    def follow(self, kind: str, event: JsonObject) -> None:
        """Follow what the server says of an item; other events change nothing."""
        if kind in ADDED:
            self.put(event.get("item"), event.get("previous_item_id"))
        elif kind == "conversation.item.done":
            self.put(event.get("item"), is_new=False)
        elif kind == "conversation.item.deleted":
            self.remove(event.get("item_id"))
        elif kind == "conversation.item.truncated":
            item_id, place = event.get("item_id"), event.get("content_index")
            self.change_part(item_id, place, audio_end_ms=event.get("audio_end_ms"))

    def put(self, value: Any, previous: Any = None, *, is_new: bool = True) -> None:
        """Add an item, or change it.

        Args:
            value: the item; without an id it is not kept.
            previous: the id of the item before it; ``None`` for the last item.
            is_new: its place counts.
        """
        if not isinstance(value, dict) or (item_id := text_of(value.get("id"))) is None:
            return
        value, _ = take_sound(value)
        if size_bytes(value) > self._limit_bytes // 4:
            self.remove(item_id)
            self.is_partial = True
            return
        if item_id in self._items:
            self._set(item_id, _keep_transcripts(value, self._items[item_id].value))
            return
        before = text_of(previous) if is_new else None
        if before is not None and before != _FIRST and before not in self._items:
            self.is_partial = True
        self._items[item_id] = _Item({}, 0)
        self._set(item_id, value)
        if before == _FIRST or (before in self._items and before != next(reversed(self._items))):
            self._move(item_id, before)
        self._forget()

    def change_part(self, item_id: Any, place: Any, **members: Any) -> str | None:
        """Change a part of an item; return the item's id, or ``None`` if it is not known."""
        name, at = text_of(item_id) or "", index_of(place) or 0
        if (item := self._items.get(name)) is None:
            return None
        parts = [*list_of(item.value.get("content"))]
        if at >= len(parts):
            return None
        parts[at] = object_of(parts[at]) | members
        self._set(name, item.value | {"content": parts})
        self._forget()
        return name

    def remove(self, item_id: Any) -> None:
        """Remove an item."""
        if (item := self._items.pop(text_of(item_id) or "", None)) is not None:
            self._items_bytes -= item.size_bytes

    def get(self, item_id: Any) -> JsonObject | None:
        """The item with this id, if it is known."""
        item = self._items.get(text_of(item_id) or "")
        return None if item is None else item.value

    def resolve(self, given: Sequence[Any]) -> list[Any]:
        """Put the items that are known in the place of references to them, and drop the others."""
        items = []
        for item in given:
            if object_of(item).get("type") != "item_reference":
                items.append(item)
            elif (known := self.get(object_of(item).get("id"))) is not None:
                items.append(known)
        return items

    def list(self) -> list[JsonObject]:
        """List the items."""
        return [item.value for item in self._items.values()]

    def _set(self, item_id: str, value: JsonObject) -> None:
        item = self._items[item_id]
        size = size_bytes(value) + len(item_id) + _ITEM_BYTES
        self._items_bytes += size - item.size_bytes
        item.value, item.size_bytes = value, size

    def _move(self, item_id: str, before: str | None) -> None:
        """Move the last item behind another one, or to the beginning."""
        moved = self._items.pop(item_id)
        items = [] if before != _FIRST else [(item_id, moved)]
        for name, item in self._items.items():
            items.append((name, item))
            if name == before:
                items.append((item_id, moved))
        self._items = dict(items)

    def _forget(self) -> None:
        while self._items and self._items_bytes + self._held_bytes > self._limit_bytes:
            self.remove(next(iter(self._items)))
            self.is_partial = True


def _keep_transcripts(value: JsonObject, known: Mapping[str, Any]) -> JsonObject:
    """Keep the transcripts of an item that comes again; the server may leave them out."""
    parts, before = list_of(value.get("content")), list_of(known.get("content"))
    if not parts:
        return dict(known) | {name: it for name, it in value.items() if name != "content"}
    kept = [*parts]
    for at, (part, old) in enumerate(zip(parts, before, strict=False)):
        words = text_of(object_of(old).get("transcript"))
        if words is not None and isinstance(part, dict) and not part.get("transcript"):
            kept[at] = part | {"transcript": words}
    return value | {"content": kept}
