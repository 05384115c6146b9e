"""What the user says in a session, as sound, until a request has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from codec.apis.realtime.sound import make_sound, put_sound
from codec.kept_sound import KeptSound
from codec.members import object_of, text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.text.jsontext import JsonObject

__all__ = ("HeardSound",)

_MAX_HELD_CHARS: Final = 1024 * 1024
"""The most base64 of items that no request has yet: one long sound, or some short ones."""


class HeardSound:
    """The sound under way, and that of items. Not safe for concurrent calls.

    Attributes:
        is_partial: the sound of an item that the next request brings was left out.
    """

    __slots__ = ("_items", "_under_way", "is_partial")

    def __init__(self, missing_bytes: int = 0, *, is_partial: bool = False) -> None:
        self._under_way = KeptSound(keeps_end=True, missing_bytes=missing_bytes)
        self._items: dict[str, JsonObject] = {}  # by the id of the item
        self.is_partial = is_partial

    @property
    def state(self) -> tuple[int, bool]:
        """What another one that continues here misses: of the sound under way, and of items."""
        came_bytes = len(self._under_way) + self._under_way.missing_bytes
        return came_bytes, self.is_partial or bool(self._items)

    @property
    def held_bytes(self) -> int:
        """What all of it takes."""
        return len(self._under_way) + self._item_chars

    @property
    def _item_chars(self) -> int:
        return sum(len(sound["data"]) for sound in self._items.values())

    def append(self, base64: str) -> None:
        """Add a piece of what the client sends."""
        self._under_way.add(base64)

    def clear(self) -> None:
        """Forget the sound under way, because the client took it back."""
        self._under_way.pop()

    def commit(self, item_id: Any, form: str | None) -> None:
        """End the sound under way: an item has it. Beyond the limit the oldest ones are left out.

        Args:
            item_id: the id of the item.
            form: the format, as :func:`~codec.apis.realtime.sound.name_format` names it.
        """
        sound = make_sound(self._under_way, form)
        if sound is None or (name := text_of(item_id)) is None:
            return
        self._items[name] = sound
        while self._item_chars > _MAX_HELD_CHARS:
            del self._items[next(iter(self._items))]
            self.is_partial = True

    def bring(self, items: Sequence[JsonObject]) -> tuple[list[JsonObject], int]:
        """Put sound into the items of a request, and forget it.

        Returns:
            The items, and how many bytes of base64 they have now.
        """
        sounds, self._items, self.is_partial = self._items, {}, False
        found = [sounds.get(text_of(object_of(item).get("id")) or "") for item in items]
        brought = [put_sound(item, sound) for item, sound in zip(items, found, strict=True)]
        return brought, sum(len(sound["data"]) for sound in found if sound is not None)

    def forget(self) -> None:
        """Forget all sound, because others need the room."""
        self._under_way.forget()
        self.is_partial |= bool(self._items)
        self._items.clear()
