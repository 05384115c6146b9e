"""What a session remembers of responses that have ended, so that later ones can continue them.

A request that names an earlier response has only what is new. Its whole input is the earlier
response's input and output, and then the new items. Each response is kept with its own items and
the id of the one before it, so that a conversation is kept once, however many turns it has.

What was used last is kept longest. If a conversation does not fit, its beginning is forgotten first
(R5). Requests that wait and steering input share the room.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from codec.apis.session import MAX_SESSION_BYTES
from codec.budget import MEMBER_BYTES, size_bytes
from codec.members import object_of

__all__ = ("SessionMemory",)

_KEPT_BYTES: Final = 256
"""The cost of a response, or of anything that waits, besides its items."""


class _Kept(msgspec.Struct, frozen=True):
    """A response that has ended.

    Attributes:
        parent: the id of the response before it.
        items: the items that it added, of input and of output.
        is_partial: some of these are missing.
    """

    parent: str | None
    items: Sequence[Any]
    is_partial: bool
    size_bytes: int


class SessionMemory:
    """The memory of one session. Not safe for concurrent calls.

    Args:
        limit_bytes: the most that it takes, as an estimate.
    """

    __slots__ = ("_held_bytes", "_kept", "_kept_bytes", "_limit_bytes")

    def __init__(self, limit_bytes: int = MAX_SESSION_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._kept: OrderedDict[str, _Kept] = OrderedDict()  # what was used last is last
        self._kept_bytes = 0
        self._held_bytes = 0

    def hold(self, value: Any) -> int:
        """Make room for a value, and return its size; 0 if it does not fit.

        Responses are forgotten for it.
        """
        size = size_bytes(value) + _KEPT_BYTES
        if self._held_bytes + size > self._limit_bytes:
            return 0
        self._held_bytes += size
        self._forget()
        return size

    def release(self, size: int) -> None:
        """Give back the room of a value."""
        self._held_bytes -= size

    def keep(
        self, response_id: str, parent: str | None, items: Sequence[Any], *, is_partial: bool
    ) -> None:
        """Keep a response that has ended, with the items that it added to its parent's.

        A part of an item that would take most of the room for itself, such as a picture, is left
        out.
        """
        room_bytes = self._limit_bytes // 4
        fitting = [_without_large_parts(item, room_bytes) for item in items]
        if any(each is not item for each, item in zip(fitting, items, strict=True)):
            items, is_partial = [item for item in fitting if item is not None], True
        size = size_bytes(items) + len(response_id) + len(parent or "") + MEMBER_BYTES + _KEPT_BYTES
        self._drop(response_id)
        self._kept[response_id] = _Kept(
            parent=parent, items=items, is_partial=is_partial, size_bytes=size
        )
        self._kept_bytes += size
        self._forget()

    def join(self, response_id: str) -> tuple[list[Any], bool]:
        """Join all items up to a response, and tell whether none is missing."""
        line: dict[str, _Kept] = {}  # from the last one back to the first
        at: str | None = response_id
        while at is not None and at not in line and (kept := self._kept.get(at)) is not None:
            line[at] = kept
            at = kept.parent
        items: list[Any] = []
        for each, kept in reversed(line.items()):
            self._kept.move_to_end(each)
            items += kept.items
        return items, at is None and not any(kept.is_partial for kept in line.values())

    @property
    def state(self) -> list[Any]:
        """The responses that are kept, as JSON, for :meth:`restore`."""
        return [
            [response_id, kept.parent, kept.items, kept.is_partial]
            for response_id, kept in self._kept.items()
        ]

    def restore(self, state: list[Any]) -> None:
        """Keep the responses of a memory's state."""
        for response_id, parent, items, is_partial in state:
            self.keep(response_id, parent, items, is_partial=is_partial)

    def _forget(self) -> None:
        while self._kept and self._kept_bytes + self._held_bytes > self._limit_bytes:
            self._drop(next(iter(self._kept)))

    def _drop(self, response_id: str) -> None:
        if (kept := self._kept.pop(response_id, None)) is not None:
            self._kept_bytes -= kept.size_bytes


def _without_large_parts(item: Any, room_bytes: int) -> Any:
    """Leave out the parts of an item that are too large; ``None`` if it is too large without."""
    if size_bytes(item) <= room_bytes:
        return item
    parts = object_of(item).get("content")
    if not isinstance(parts, list):
        return None
    small = item | {"content": [part for part in parts if size_bytes(part) <= room_bytes]}
    return small if size_bytes(small) <= room_bytes else None
