"""Joins the events of a streamed response to one response object, incrementally and within bounds.

See ``docs/contract/apis.md#responses-stream``. The event that ends an item says all of it; until
then an item is what it began with and its deltas. If the last event lacks a text, the deltas stand.
The object of the terminal event is the answer. Items that streamed but are missing in it keep their
place, because some servers leave all items out.

If a stream has several responses, the last one counts, cut or whole (``several_responses``). An
event of unknown type is counted as a chunk and otherwise ignored.

Beyond the budget nothing grows (``observer_limit``); how the response ended, its usage and errors
are still taken (R5). Before the terminal object is taken, the room of what it replaces is given
back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from codec.apis.responses.item_fold import (
    DELTAS,
    WHOLES,
    ItemFold,
    look_at_whole,
    part_of,
)
from codec.apis.responses.item_list import ItemList
from codec.apis.responses.said import make_answer
from codec.apis.responses.whole import (
    essentials_of,
    have_same_kinds,
    is_another,
    join_outputs,
    merge,
)
from codec.budget import MEMBER_BYTES, size_bytes
from codec.error_objects import find_error
from codec.members import list_of, object_of, text_of
from codec.text.base64_text import TakenPictures
from codec.text_fold import TextFold

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codec.apis.responses.item_fold import Place
    from codec.apis.responses.said import ResponseAnswer
    from codec.budget import Budget
    from codec.growing_text import GrowingText
    from codec.text.jsontext import JsonObject

__all__ = ("ResponseFold",)

_ITEM_BYTES: Final = 1_024
"""The room of an item before it says anything."""

_BEGINNINGS: Final = frozenset({"response.created", "response.in_progress", "response.queued"})
_ENDS: Final = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
    "response.done": "completed",
}
"""Terminal events, and the status that each means. The last event is the Realtime API's; some
servers end these streams with it, too. Its response mostly names the status itself."""

_SPOKEN: Final = (
    *("content", "summary", "arguments", "input", "code", "queries", "action", "operation"),
    "result",
)
"""Members with which an item says something that no delta said."""

_ADDED: Final = "response.output_item.added"
_DONE: Final = "response.output_item.done"
_ANNOTATION: Final = "response.output_text.annotation.added"
_PARTIAL_IMAGE: Final = "response.image_generation_call.partial_image"


class ResponseFold(TextFold):
    """Folds the events of one stream. Not safe for concurrent calls.

    Attributes:
        budget: of all that is kept.
        has_content: text, reasoning, a refusal, arguments or a picture was seen.
        is_complete: a terminal event was seen, and no other response behind it.
        has_shared_indexes: several items share an index, so an index alone does not say which item
            an event is about.
    """

    __slots__ = (
        "_ended",
        "_ended_places",
        "_items",
        "_limit_bytes",
        "_number",
        "_pictures",
        "_response",
        "has_shared_indexes",
        "is_complete",
    )

    def __init__(self, budget: Budget, pictures: TakenPictures | None = None) -> None:
        super().__init__(budget)
        self._pictures = TakenPictures() if pictures is None else pictures
        self.is_complete = False
        self._limit_bytes = budget.left_bytes
        self._number = 0  # of the present response in the stream
        self._reset()

    @property
    def item_count(self) -> int:
        """How many items streamed before the end."""
        return len(self._items)

    def _reset(self) -> None:
        """Forget the response before: another one begins."""
        self.is_complete = self.has_shared_indexes = False
        self._response: JsonObject = {}
        self._items = ItemList()
        self._ended: JsonObject | None = None  # the whole response, after its end
        self._ended_places: Sequence[int] = ()  # the places of its items in the stream

    def _is_piece(self, kind: str) -> bool:
        return kind in DELTAS

    def _find_pieces(self, kind: str, index: int, part: int) -> list[str] | None:
        place = DELTAS[kind]
        item = self._items.get(index)
        if item is None or (item.is_done and item.kind != place.item):
            item = self._add(index, {"type": place.item})
        if item is None or item.is_done:
            return None
        pieces = item.texts.get((place, part))
        if pieces is None and self.budget.reserve(_ITEM_BYTES):
            pieces = item.texts[place, part] = []
        return pieces

    def feed(self, event: Any, name: str | None = None) -> bool:
        """Fold one event, and tell whether it is a chunk; an error is not one.

        Args:
            event: its decoded JSON, of any type; the fold keeps and changes it.
            name: the event's own name, which counts if the JSON has no type.
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
            self._begin(object_of(members.get("response")), is_created=kind == "response.created")
        elif kind in _ENDS:
            self._end(object_of(members.get("response")), _ENDS[kind])
        elif kind == _ANNOTATION:
            self._annotate(members)
        elif kind == _PARTIAL_IMAGE:
            self.has_content = True
        return True

    def _feed_piece(self, kind: str, event: JsonObject, piece: Any) -> None:
        if isinstance(piece, str):
            self.open_text(kind, self._items.find(event), part_of(event), piece)

    def _feed_whole(self, kind: str, place: Place, event: JsonObject) -> None:
        """Fold an event with a whole text: the text is taken if its pieces did not come."""
        item = self._items.get(self._items.find(event))
        if item is None or (place, part_of(event)) not in item.texts:
            self._feed_piece(kind, event, event.get(place.member))

    def _annotate(self, event: JsonObject) -> None:
        """Add an annotation to a text under way; the event that ends the item has all of them."""
        item = self._items.get(self._items.find(event))
        note = event.get("annotation")
        if item is None or item.is_done or note is None:
            return
        if self.budget.reserve(MEMBER_BYTES + size_bytes(note)):
            item.annotations.setdefault(part_of(event), []).append(note)

    def _add(self, index: int, value: JsonObject) -> ItemFold | None:
        """Add an item; it is a further one if another item has the index."""
        if not self.budget.reserve(_ITEM_BYTES + size_bytes(value)):
            return None
        item = ItemFold(value)
        self._items.add(index, item)
        self.has_shared_indexes = self._items.has_shared_indexes
        return item

    def _feed_item(self, event: JsonObject, *, is_done: bool) -> None:
        value = event.get("item")
        if not isinstance(value, dict):
            return
        self._pictures.shorten(value)
        item = self._items.find_same(event, value, is_done=is_done)
        if item is None:
            item = self._add(self._items.index_of_new(event), value)
            if item is not None:
                item.is_done = is_done
        elif is_done and self.budget.reserve(size_bytes(value) - item.outdated_bytes(value)):
            item.finish(value)
        elif item.is_unnamed and self.budget.reserve(size_bytes(value)):
            item.value = value
        if is_done:
            self.has_content = self.has_content or _says_something(value)

    def _begin(self, response: JsonObject, *, is_created: bool) -> None:
        """Add what an event says of a response before its end.

        Members that the event lacks, or has as ``null``, stay as they were. Behind an end, another
        id begins another response, and so does ``response.created`` with any id. Before an end only
        ``response.created`` with another id does: GitHub Copilot has a new id in each event.
        """
        has_ended = self._ended is not None
        is_other = is_another(self._ended or self._response, response)
        if (is_other and (is_created or has_ended)) or (is_created and has_ended):
            self._begin_another()
        elif has_ended or response == self._response:
            return  # the events at the beginning repeat the same response
        whole = merge(self._response, response)
        if self.budget.reserve(size_bytes(whole) - size_bytes(self._response)):
            self._response = whole
        elif not self._response:
            self._response = essentials_of(response)

    def _begin_another(self) -> None:
        self.note("several_responses")
        self._reset()
        self._number += 1

    def _end(self, response: JsonObject, status: str) -> None:
        items = [item for _, item in self._items.items()]
        if self._ended is not None and is_another(self._ended, response):
            self._begin_another()
        self.is_complete = True
        known = self._ended or self._response  # the end may come twice
        for item in list_of(response.get("output")):
            self._pictures.shorten(object_of(item))
        whole = merge(known, response)
        if text_of(response.get("status")) is None:  # the status at the beginning is not an end
            whole["status"] = status
        output, before = join_outputs(response.get("output"), items), list_of(known.get("output"))
        whole["output"] = output if len(output) >= len(before) else before
        held_bytes = self._limit_bytes - self.budget.left_bytes
        if not self.budget.reserve(size_bytes(whole) - held_bytes):
            whole = essentials_of(whole) | {"output": self._bodies() or before}
        if self._error is None and whole.get("error"):
            self._error = find_error({"error": whole["error"]})
        if have_same_kinds(whole["output"], items):
            self._ended_places = [place for place, _ in self._items.items()]
        elif len(whole["output"]) != len(before):
            self._ended_places = ()
        self._ended, self._response, self._items = whole, {}, ItemList()

    def _bodies(self) -> list[Any]:
        return [item.body() for _, item in self._items.items()]

    def look(self) -> Sequence[GrowingText]:
        """Look at the texts of all items; those that ended keep their places."""
        number = self._number
        if self._ended is not None and not self._items:
            places = zip(self._ended_places, self._ended["output"], strict=False)
            return [text for at, it in places for text in look_at_whole((number, at), it)]
        return [text for at, it in self._items.items() for text in it.look((number, at))]

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


def _says_something(item: Mapping[str, Any]) -> bool:
    return any(map(item.get, _SPOKEN))
