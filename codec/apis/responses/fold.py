"""The events of a streamed response to one response object, incrementally and within bounds.

Rules (``apis.md`` 2.2):

1. Items are known by their ``output_index``, never by their ids, which may change from event to
   event. Where it is missing, an item known by its id, or the last one, is meant.
2. An item is what its last event says; while that is to come, what it began with, and the deltas.
3. The object of the terminal event is the answer. Items that streamed and that it lacks stay in
   their place: some servers leave all of them out.
4. Of several responses in one stream the last that ended counts (``several_responses``).
5. Past its budget nothing grows (``observer_limit``); how it ended, usage and errors are still
   taken (R5). What the terminal object replaces is given back before that is taken.
6. An event of a type that nobody knows is a chunk, and passed over.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from codec.apis.responses.item_fold import (
    DELTAS,
    PARTS,
    WHOLES,
    ItemFold,
    look_at_whole,
    part_of,
)
from codec.apis.responses.said import make_answer
from codec.budget import MEMBER_BYTES, size_bytes
from codec.error_objects import find_error
from codec.members import list_of, object_of, text_of
from codec.text.base64_text import shorten_base64
from codec.text.integers import index_of
from codec.text.jsontext import compact_text
from codec.text_fold import TextFold

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codec.apis.responses.item_fold import Place
    from codec.apis.responses.said import ResponseAnswer
    from codec.budget import Budget
    from codec.growing_text import GrowingText
    from codec.text.jsontext import JsonObject

__all__ = ("ResponseFold",)

_ITEM_BYTES: Final = 1_024
"""The room of an item before it says anything."""

_MAX_ESSENTIAL_BYTES: Final = 64 * 1024
"""Largest member that is kept past the limit: a usage has 2 KiB."""

_ESSENTIALS: Final = (
    *("id", "object", "created_at", "model", "status", "service_tier", "system_fingerprint"),
    *("usage", "error", "incomplete_details"),
)

_BEGINNINGS: Final = frozenset({"response.created", "response.in_progress", "response.queued"})
_ENDS: Final = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}
"""Terminal events, and the status that each means."""

_SPOKEN: Final = (
    *("content", "summary", "arguments", "input", "code", "queries", "action", "operation"),
    "result",
)
"""Members of an item that say something, where no delta did."""

_ADDED: Final = "response.output_item.added"
_DONE: Final = "response.output_item.done"
_ANNOTATION: Final = "response.output_text.annotation.added"
_PARTIAL_IMAGE: Final = "response.image_generation_call.partial_image"


class ResponseFold(TextFold):
    """Folds the events of one stream. Not safe for concurrent calls.

    Attributes:
        budget: of all that is kept.
        has_content: text, reasoning, a refusal, arguments or a picture was seen.
        is_complete: a terminal event was seen.
    """

    __slots__ = (
        "_ended",
        "_ended_number",
        "_items",
        "_limit_bytes",
        "_number",
        "_response",
        "is_complete",
    )

    def __init__(self, budget: Budget) -> None:
        super().__init__(budget)
        self.is_complete = False
        self._limit_bytes = budget.left_bytes
        self._response: JsonObject = {}
        self._items: dict[int, ItemFold] = {}
        self._ended: JsonObject | None = None  # the last response that ended, whole
        self._number = 0  # of the present response in the stream
        self._ended_number = -1  # of one whose items ended in the places in which they streamed

    def was_told(self, kind: str, index: int, part: int) -> bool:
        """Tell whether an event of such a type repeats a text whose pieces came."""
        if kind in PARTS:
            return True
        item = self._items.get(index)
        return kind in WHOLES and item is not None and (DELTAS[WHOLES[kind]], part) in item.texts

    def _is_piece(self, kind: str) -> bool:
        return kind in DELTAS

    def _find_pieces(self, kind: str, index: int, part: int) -> list[str] | None:
        place = DELTAS[kind]
        item = self._items.get(index) or self._add(index, {"type": place.item})
        if item is None or item.is_done:
            return None
        pieces = item.texts.get((place, part))
        if pieces is None and self.budget.reserve(_ITEM_BYTES):
            pieces = item.texts[place, part] = []
        return pieces

    def feed(self, event: Any, name: str | None = None) -> bool:
        """Fold one event; whether it is a chunk, which an error is not.

        Args:
            event: its decoded JSON, of any type, which is the fold's from here on.
            name: the event's own name, which counts where the JSON has no type.
        """
        self._close_text()
        members = object_of(event)
        kind = text_of(members.get("type")) or name or ""
        if not kind.startswith("response."):
            if (error := find_error(event, name)) is not None:
                self.note_error(error)
                return False
            if not kind:
                self.note("foreign_chunk")
            return True
        if kind in DELTAS:
            self._feed_piece(kind, members, members.get("delta"))
        elif (whole := WHOLES.get(kind)) is not None:
            self._feed_whole(whole, DELTAS[whole], members)
        elif kind in {_ADDED, _DONE}:
            self._feed_item(members, is_done=kind == _DONE)
        elif kind in _BEGINNINGS:
            self._begin(object_of(members.get("response")), is_new=kind == "response.created")
        elif kind in _ENDS:
            self._end(object_of(members.get("response")), _ENDS[kind])
        elif kind == _ANNOTATION:
            self._annotate(members)
        elif kind == _PARTIAL_IMAGE:
            self.has_content = True
        return True

    def _feed_piece(self, kind: str, event: JsonObject, piece: Any) -> None:
        if isinstance(piece, str):
            self.open_text(kind, self._find(event, event.get("item_id")), part_of(event), piece)

    def _feed_whole(self, kind: str, place: Place, event: JsonObject) -> None:
        """Fold a text that is told whole: all of it, where its pieces did not come."""
        item = self._items.get(self._find(event, event.get("item_id")))
        if item is None or (place, part_of(event)) not in item.texts:
            self._feed_piece(kind, event, event.get(place.member))

    def _annotate(self, event: JsonObject) -> None:
        """Add a note to a text under way: a whole item has all of them."""
        item = self._items.get(self._find(event, event.get("item_id")))
        note = event.get("annotation")
        if item is None or item.is_done or note is None:
            return
        if self.budget.reserve(MEMBER_BYTES + size_bytes(note)):
            item.annotations.setdefault(part_of(event), []).append(note)

    def _find(self, event: JsonObject, item_id: Any, *, is_new: bool = False) -> int:
        """The index of the item that an event is about (rule 1)."""
        index = index_of(event.get("output_index"))
        if index is not None:
            return index
        if item_id is not None:
            for at, item in self._items.items():
                if item.value.get("id") == item_id:
                    return at
        last = max(self._items, default=-1)
        return last + 1 if is_new or last < 0 else last

    def _add(self, index: int, value: JsonObject) -> ItemFold | None:
        if not self.budget.reserve(_ITEM_BYTES + size_bytes(value)):
            return None
        item = self._items[index] = ItemFold(value)
        return item

    def _feed_item(self, event: JsonObject, *, is_done: bool) -> None:
        value = event.get("item")
        if not isinstance(value, dict):
            return
        shorten_base64(value)
        index = self._find(event, value.get("id"), is_new=True)
        item = self._items.get(index)
        if item is None:
            item = self._add(index, value)
        elif is_done and self.budget.reserve(size_bytes(value) - _held_bytes(item)):
            item.value, item.texts, item.annotations = value, {}, {}
        if item is not None and is_done and item.value is value:
            item.is_done = True
        if is_done:
            self.has_content = self.has_content or _says_something(value)

    def _begin(self, response: JsonObject, *, is_new: bool) -> None:
        if is_new and self._ended is not None:
            self.note("several_responses")
            self._response, self._items = {}, {}
            self._number += 1
        if response == self._response:
            return  # the events of a beginning repeat it
        if self.budget.reserve(size_bytes(response) - size_bytes(self._response)):
            self._response = response
        elif not self._response:
            self._response = _essentials(response)

    def _end(self, response: JsonObject, status: str) -> None:
        self.is_complete = True
        if self._ended is not None:
            self.note("several_responses")
        output = response.get("output")
        for item in list_of(output):
            shorten_base64(object_of(item))
        whole = {**self._response, **response}
        if text_of(response.get("status")) is None:  # what it began with is not an end
            whole["status"] = status
        whole["output"] = _join_outputs(output, self._items)
        held_bytes = self._limit_bytes - self.budget.left_bytes
        if not self.budget.reserve(size_bytes(whole) - held_bytes):
            whole = _essentials(whole) | {"output": self._bodies()}
        if self._error is None and whole.get("error"):
            self._error = find_error({"error": whole["error"]})
        items = [self._items[at].value for at in sorted(self._items)]
        if [*map(_kind_of, whole["output"])] == [*map(_kind_of, items)]:
            self._ended_number = self._number
        self._ended, self._response, self._items = whole, {}, {}

    def _bodies(self) -> list[Any]:
        return [self._items[index].body() for index in sorted(self._items)]

    def look(self) -> Sequence[GrowingText]:
        """Look at the texts of all items, of those that ended too, where they kept their places."""
        number = self._number
        if self._ended is not None and not self._items:
            output = self._ended["output"] if number == self._ended_number else ()
            return [
                text for at, it in enumerate(output) for text in look_at_whole((number, at), it)
            ]
        return [text for at in sorted(self._items) for text in self._items[at].look((number, at))]

    def answer(self) -> ResponseAnswer:
        """Return the answer as it stands, after the last event."""
        self._close_text()
        if self.budget.exceeded:
            self.note("observer_limit")
        if self._ended is not None:
            return make_answer(self._ended, error=self._error, anomalies=(*self._anomalies,))
        body = dict(self._response)
        if self._items:
            body["output"] = self._bodies()
        return make_answer(body, error=self._error, anomalies=(*self._anomalies,), is_cut=True)


def _held_bytes(item: ItemFold) -> int:
    """Return the size that was reserved for an item so far; of its texts, the least they take."""
    return size_bytes(item.value) + sum(map(len, chain.from_iterable(item.texts.values())))


def _kind_of(item: Any) -> str | None:
    return text_of(object_of(item).get("type"))


def _says_something(item: Mapping[str, Any]) -> bool:
    return any(map(item.get, _SPOKEN))


def _essentials(response: Mapping[str, Any]) -> JsonObject:
    """Return the members that are kept of a response that is too large (rule 5)."""
    return {
        name: response[name]
        for name in _ESSENTIALS
        if name in response and size_bytes(response[name]) <= _MAX_ESSENTIAL_BYTES
    }


def _join_outputs(output: Any, items: Mapping[int, ItemFold]) -> list[Any]:
    """The items of a terminal object, and those that streamed and that it lacks (rule 3)."""
    told = [*list_of(output)]
    if len(told) >= len(items):
        return told
    known = {mark for item in told for mark in _marks(object_of(item))}
    for place, index in enumerate(sorted(items)):
        item = items[index]
        is_known = not known.isdisjoint(_marks(item.body())) if known else False
        if not is_known and (item.is_done or item.texts):
            told.insert(place, item.body())
    return told


def _marks(item: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield what an item is recognised by: either of its ids, or all that it says."""
    kind = text_of(item.get("type")) or ""
    for name in ("id", "call_id"):
        if (text := text_of(item.get(name))) is not None:
            yield name, kind, text
    yield "", kind, compact_text({name: value for name, value in item.items() if name != "id"})
