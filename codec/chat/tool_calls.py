"""Tool calls of one choice, from deltas or whole.

Sources: ``docs/contract/wire.md#tool-calls``, ``docs/contract/sources.md#s0-11``.

Rules:

1. An entry with an ``index`` (:func:`codec.text.integers.index_of`) belongs to the calls at that
   index. If its id is known there, it is that call; a new id **with a name**, behind another id, is
   a new call; anything else continues the latest call there, except for rule 3. A new call at a
   used index is noted (``tool_index_reused``).
2. An entry without an ``index`` continues the last call, unless its id (or, without an id, its
   name) is a different one, or another entry without an index stands beside it in the same delta. A
   call of which only arguments came accepts either.
3. If ids do not decide, a different name begins a new call, unless the call under way has an id and
   its arguments are not whole yet. Gateways repeat the same name with each piece; it begins a new
   call only if the arguments of the call under way are whole and more arguments come, in this entry
   or later.
4. Arguments with neither id nor name, at an index without a call, belong to the last call: no
   client could run a call without a name.
5. In a whole message, each entry with a name is a call.
6. The first non-empty id, name and type are kept. A later one that differs, and that begins no new
   call by the other rules, is noted (``tool_identity_conflict``).
7. Argument text is concatenated exactly as sent. An object in its place is encoded compactly.
8. A call of a custom tool has ``custom`` with free ``input`` instead of ``function`` with
   ``arguments``, and is put together in the same way; the body has it as it came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codec.chat.answer import ToolCall
from codec.growing_text import GrowingText, TextKind
from codec.members import merge_members, text_of
from codec.text.integers import index_of
from codec.text.json_stream import JsonSplitter
from codec.text.jsontext import compact_text, join_text

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from codec.budget import Budget
    from codec.text.jsontext import JsonObject

__all__ = ("CallSlot", "ToolCallSlots")

_CALL_MEMBERS = frozenset({"index", "id", "type", "function"})
_CUSTOM_CALL_MEMBERS = _CALL_MEMBERS | {"custom"}
_FUNCTION_MEMBERS = frozenset({"name", "arguments"})
_SLOT_BYTES = 1024  # what an empty slot takes of the budget, so that empty calls end somewhere


class CallSlot:
    """A call that is being put together, a tool call or the legacy ``function_call``.

    Its ``id``, ``name`` and ``type`` are the first that are not empty.

    Attributes:
        index: its ``index`` on the wire; ``None`` if it had none.
        is_custom: it came as a call of a custom tool (rule 8).
        is_named_again: its name came again after its arguments were whole.
    """

    __slots__ = (
        "_arguments",
        "_end",
        "_extra",
        "_function_extra",
        "id",
        "index",
        "is_custom",
        "is_named_again",
        "name",
        "type",
    )

    def __init__(self, index: int | None = None) -> None:
        self.index = index
        self.id: str | None = None
        self.name: str | None = None
        self.type: str | None = None
        self.is_custom = False
        self.is_named_again = False
        self._arguments: list[str] = []
        self._end: _ArgumentsEnd | None = None
        self._extra: JsonObject = {}
        self._function_extra: JsonObject = {}

    @property
    def has_whole_arguments(self) -> bool:
        """Whether only white space can be added to the arguments; never true for free text."""
        if self.is_custom or not self._arguments:
            return False
        if self._end is None:
            self._end = _ArgumentsEnd()
        return self._end.is_behind(self._arguments)

    def identify(self, budget: Budget, **words: str | None) -> bool:
        """Keep ``id``, ``name`` and ``type`` if they are not known yet.

        Returns:
            Whether none of them differs from what is known (rule 6).
        """
        same = True
        for attribute, word in words.items():
            known = getattr(self, attribute)
            if known:
                same = same and word in {None, known}
            elif word and budget.reserve(len(word)):
                setattr(self, attribute, word)
        return same

    def feed(self, function: JsonObject, budget: Budget) -> None:
        """Fold the arguments and the unknown members of a ``function`` object."""
        arguments = function.get("arguments")
        if arguments is not None and arguments != "":
            text = arguments if isinstance(arguments, str) else compact_text(arguments)
            if budget.reserve_text(text):
                self._arguments.append(text)
        if not function.keys() <= _FUNCTION_MEMBERS:
            merge_members(
                self._function_extra,
                function,
                skip=_FUNCTION_MEMBERS,
                budget=budget,
                extend_lists=True,
            )

    def feed_extra(self, entry: JsonObject, budget: Budget, known: frozenset[str]) -> None:
        """Keep the unknown members of a ``tool_calls`` entry (Gemini's ``extra_content``)."""
        merge_members(self._extra, entry, skip=known, budget=budget, extend_lists=True)

    def look(self, key: Hashable) -> GrowingText:
        """Look at the arguments so far."""
        return GrowingText(key, TextKind.ARGUMENTS, self._arguments, self.name)

    def call(self) -> ToolCall:
        """Return the call as it stands."""
        return ToolCall(
            id=self.id,
            name=self.name,
            arguments=join_text(self._arguments),
            type=self.type or "function",
        )

    def function_body(self) -> JsonObject:
        """Return a call's function or tool (``docs/contract/spans.md#accumulated-object``)."""
        member = "input" if self.is_custom else "arguments"
        body: JsonObject = {"name": self.name, member: join_text(self._arguments)}
        known = {key: value for key, value in body.items() if value}
        return known | self._function_extra | known  # an unknown "input" hides no text

    def body(self, index: int) -> JsonObject:
        """Return the numbered call of ``docs/contract/spans.md#accumulated-object``."""
        member = "custom" if self.is_custom else "function"
        body: JsonObject = {"id": self.id, "type": self.type, member: self.function_body()}
        known = {key: value for key, value in body.items() if value}
        return {"index": index} | known | self._extra


class _ArgumentsEnd:
    """Finds out whether arguments are whole; it reads each of their pieces once."""

    __slots__ = ("_count", "_splitter")

    def __init__(self) -> None:
        # The content of the value is not needed.
        self._splitter = JsonSplitter(shorten=lambda piece: piece[:1])
        self._count = 0

    def is_behind(self, pieces: list[str]) -> bool:
        """Tell whether brackets and quotes are closed; `pieces` are all pieces so far."""
        splitter = self._splitter
        for piece in pieces[self._count :]:
            splitter.split(piece.encode("utf-8", "surrogatepass"))
        self._count = len(pieces)
        return splitter.is_closed if splitter.in_array else splitter.is_between_values


class ToolCallSlots:
    """The tool calls of one choice.

    Args:
        budget: the room for what they keep.
        note: gets the names of anomalies.
    """

    __slots__ = ("_budget", "_by_id", "_last", "_latest", "_note", "_slots")

    def __init__(self, budget: Budget, note: Callable[[str], object]) -> None:
        self._budget = budget
        self._note = note
        self._slots: list[CallSlot] = []  # in order of arrival
        self._latest: dict[int, CallSlot] = {}  # by index
        self._by_id: dict[tuple[int, str], CallSlot] = {}  # by index and id
        self._last: CallSlot | None = None

    def __bool__(self) -> bool:
        return bool(self._slots)

    def feed(self, entries: Any, *, are_whole: bool = False) -> None:
        """Fold the ``tool_calls`` of a delta, or of a message; other values count as none.

        Args:
            entries: the member's value.
            are_whole: the entries are those of a whole message (rule 5).
        """
        if not isinstance(entries, list):
            return
        unnumbered = 0
        for entry in entries:
            if not isinstance(entry, dict) or not entry:
                continue
            index = index_of(entry.get("index"))
            unnumbered += index is None
            beside_another = index is None and unnumbered > 1
            self._feed_entry(entry, index, stands_alone=are_whole or beside_another)

    def _feed_entry(self, entry: JsonObject, index: int | None, *, stands_alone: bool) -> None:
        function, is_custom = _function_of(entry)
        call_id = text_of(entry.get("id"))
        if call_id == "null":  # Mistral writes a missing id so
            call_id = None
        name = text_of(function.get("name"))
        says_more = not _is_blank(function.get("arguments"))
        if not (call_id or name):
            slot = self._last if index is None else self._latest.get(index)
            if slot is None and function.get("arguments") is not None:
                slot = self._last  # rule 4
            if slot is not None and slot.is_named_again and says_more:
                name, slot = slot.name, None  # rule 3
        elif stands_alone and (name or index is None):
            slot = None
        elif index is None:
            slot = self._continued(call_id, name, says_more=says_more)
        else:
            slot = self._continued_at(index, call_id, name, says_more=says_more)
        if slot is None and (slot := self._begin(index)) is None:
            return
        if not slot.identify(self._budget, id=call_id, name=name, type=text_of(entry.get("type"))):
            self._note("tool_identity_conflict")
        if name and not (call_id or says_more) and slot.has_whole_arguments:
            slot.is_named_again = True
        if index is not None and slot.id is not None:
            self._by_id.setdefault((index, slot.id), slot)
        slot.is_custom = slot.is_custom or is_custom
        slot.feed(function, self._budget)
        known = _CUSTOM_CALL_MEMBERS if is_custom else _CALL_MEMBERS
        if not entry.keys() <= known:
            slot.feed_extra(entry, self._budget, known)
        self._last = slot

    def _begin(self, index: int | None) -> CallSlot | None:
        """Begin a call; ``None`` if there is no room for one."""
        if not self._budget.reserve(_SLOT_BYTES):
            return None
        slot = CallSlot(index)
        self._slots.append(slot)
        if index is not None:
            if index in self._latest:
                self._note("tool_index_reused")
            self._latest[index] = slot
        return slot

    def _continued_at(
        self, index: int, call_id: str | None, name: str | None, *, says_more: bool
    ) -> CallSlot | None:
        """Return the call that an entry with an index continues (rule 1)."""
        latest = self._latest.get(index)
        if latest is None or (call_id and call_id == latest.id):
            return latest
        if call_id and (known := self._by_id.get((index, call_id))):
            return known
        if not name:
            return latest
        if call_id and latest.id:
            return None
        return None if _is_another(latest, name, says_more=says_more) else latest

    def _continued(
        self, call_id: str | None, name: str | None, *, says_more: bool
    ) -> CallSlot | None:
        """Return the call that an entry without index continues (rule 2)."""
        last = self._last
        if last is None or (call_id and call_id == last.id):
            return last
        if (last.id or last.name) and (call_id or name != last.name):
            return None
        return None if says_more and last.has_whole_arguments else last

    def look(self, choice: int) -> Iterator[GrowingText]:
        """Look at the arguments of all calls so far, in order of arrival."""
        for at, slot in enumerate(self._slots):
            yield slot.look((choice, at))

    def calls(self) -> tuple[ToolCall, ...]:
        """Return the calls: by index if all have one, else as they came."""
        return tuple([slot.call() for slot in self._ordered()]) if self._slots else ()

    def body(self) -> list[JsonObject]:
        """Return the ``tool_calls`` of ``docs/contract/spans.md#accumulated-object``.

        If a call came without an index, all are numbered as they came, so that no reader of the
        body takes one for the continuation of another.
        """
        slots = self._ordered()
        indices = [slot.index for slot in slots if slot.index is not None]
        if len(indices) < len(slots):
            indices = [*range(len(slots))]
        return [slot.body(index) for slot, index in zip(slots, indices, strict=True)]

    def _ordered(self) -> list[CallSlot]:
        numbered = [(slot.index, slot) for slot in self._slots if slot.index is not None]
        if len(numbered) < len(self._slots):
            return self._slots
        return [slot for _, slot in sorted(numbered, key=lambda pair: pair[0])]


def _is_another(slot: CallSlot, name: str, *, says_more: bool) -> bool:
    """Tell whether an entry with this name begins another call if ids do not decide (rule 3)."""
    if not slot.name:
        return False
    if name != slot.name:
        return not slot.id or slot.has_whole_arguments
    return says_more and slot.has_whole_arguments


def _is_blank(arguments: Any) -> bool:
    return not arguments.strip() if isinstance(arguments, str) else arguments is None


def _function_of(entry: JsonObject) -> tuple[JsonObject, bool]:
    """Return what is called and with what, and whether it is a custom tool (rule 8)."""
    function, custom = entry.get("function"), entry.get("custom")
    if isinstance(function, dict):
        return function, False
    if not isinstance(custom, dict):
        return {}, False
    return {"arguments" if name == "input" else name: custom[name] for name in custom}, True
