"""The items of a streamed response, found by the events that are about them.

An item is known by its ``output_index``, because GitHub Copilot changes its id from event to event.
Some servers give one index to several items; then an id or the order of arrival decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codec.members import text_of
from codec.text.integers import index_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codec.apis.responses.item_fold import ItemFold
    from codec.text.jsontext import JsonObject

__all__ = ("ItemList",)


class ItemList:
    """The items of one response under way. Not safe for concurrent calls.

    Each item keeps its place, a number: its index, or a negative number if that index was taken.
    """

    __slots__ = ("_items", "_shared")

    def __init__(self) -> None:
        self._items: dict[int, ItemFold] = {}  # by place, in the order in which they began
        self._shared: dict[int, list[int]] = {}  # by shared index, the places of its items

    def __len__(self) -> int:
        """How many there are."""
        return len(self._items)

    @property
    def has_shared_indexes(self) -> bool:
        """Whether several items share an index, so that an event's id decides between them."""
        return bool(self._shared)

    def items(self) -> Sequence[tuple[int, ItemFold]]:
        """List the items, each with its place, in the order of their indexes.

        Items that share an index stand in the order in which they began.
        """
        return [*self._items.items()] if self._shared else sorted(self._items.items())

    def get(self, place: int) -> ItemFold | None:
        """The item in a place, if there is one."""
        return self._items.get(place)

    def find(self, event: Mapping[str, Any]) -> int:
        """The place of the item that an event is about.

        The index decides, if only one item has it. Otherwise, or if there is no index, it is the
        item whose id the event names, else the item that began last.
        """
        index, item_id = index_of(event.get("output_index")), event.get("item_id")
        if index is not None and index not in self._shared:
            return index
        places = self._items if index is None else self._shared[index]
        if item_id is not None:
            for place in reversed(places):
                if self._items[place].value.get("id") == item_id:
                    return place
        return next(reversed(places), 0)

    def find_same(
        self, event: Mapping[str, Any], value: JsonObject, *, is_done: bool
    ) -> ItemFold | None:
        """The item that an event adds or ends; ``None`` if that is a further item.

        An item with the same ``call_id``, or else the same id, is the same item; one that is done
        is not added again. If the ids do not decide, an item that is done is the one of its type
        that is under way, and an item that is added is one that was added alike and has said
        nothing yet.
        """
        index = index_of(event.get("output_index"))
        places = self._items if index is None else self._shared.get(index, (index,))
        latest = [self._items[place] for place in reversed([*places]) if place in self._items]
        for item in latest:
            if _have_same_name(item.value, value) and (is_done or not item.is_done):
                return item
        return next((item for item in latest if _may_be(item, value, is_done=is_done)), None)

    def index_of_new(self, event: Mapping[str, Any]) -> int:
        """The index of a new item that an event begins."""
        index = index_of(event.get("output_index"))
        return max(self._items, default=-1) + 1 if index is None else index

    def add(self, place: int, item: ItemFold) -> None:
        """Add an item in a place, or as a further item of the same index if the place is taken."""
        if place in self._items:
            shared = (index for index, places in self._shared.items() if place in places)
            index = next(shared, place)
            place = -2 - len(self._items)
            self._shared.setdefault(index, [index]).append(place)
        self._items[place] = item


def _may_be(item: ItemFold, value: JsonObject, *, is_done: bool) -> bool:
    """Tell whether an event may be about an item, if the ids do not decide."""
    if item.is_done:
        return is_done and item.value == value
    is_alike = item.kind == text_of(value.get("type"))
    if is_done:
        calls = text_of(item.value.get("call_id")), text_of(value.get("call_id"))
        return item.is_unnamed or (is_alike and (None in calls or calls[0] == calls[1]))
    return (is_alike and item.is_unnamed) or (item.value == value and not item.texts)


def _have_same_name(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Tell whether two items have the same ``call_id``, or the same id if one lacks ``call_id``."""
    for name in ("call_id", "id"):
        names = text_of(one.get(name)), text_of(other.get(name))
        if None not in names:
            return names[0] == names[1] and one.get("type") == other.get("type")
    return False
