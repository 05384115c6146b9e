"""Joins the events of a streamed message to one message, incrementally and within bounds.

See ``docs/contract/apis.md#messages-stream``. A block is what it began with and what its deltas
add: text is joined, citations are collected, and the members of a delta of unknown type replace
those of the block. The arguments of a call are text until all of it came, and then a value. They
stay text if they are not JSON or hold too much (``bad_tool_arguments``).

The model that was named last counts, because a provider may continue with another one. If a stream
has several messages, the last one counts (``several_responses``). An event of unknown type is
counted as a chunk and otherwise ignored.

Beyond the budget nothing grows (``observer_limit``); how the message ended, its counts and errors
are still taken (R5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from codec.apis.messages.block_fold import COMPACTION, PIECES, BlockFold
from codec.apis.messages.blocks import CALLS, kind_of
from codec.apis.messages.counts import COMPLETION_COUNTS
from codec.apis.messages.said import make_answer
from codec.budget import MEMBER_BYTES, Budget, size_bytes
from codec.error_objects import find_error
from codec.members import object_of, text_of, without_empty
from codec.text.integers import count_of, index_of
from codec.text_fold import TextFold
from codec.usage import first_count
from codec.usage_fold import MAX_USAGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.apis.messages.said import MessageAnswer
    from codec.growing_text import GrowingText
    from codec.text.jsontext import JsonObject

__all__ = ("MessageFold",)

_SPOKEN: Final = ("text", "thinking", "data", "content", "input")
"""Members with which a block says something as it begins."""

_BLOCK_BYTES: Final = 1_024
"""The room of a block before it says anything."""

_WORDS: Final = ("stop_reason", "model")
_SAID_BEFORE_THE_END: Final = frozenset({*_WORDS, "id", "role", "type", "content", "usage"})
"""Members that the end of a message does not replace, or that are kept as short words."""

_PROMPT: Final = frozenset(
    {"input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"}
)
"""Counts that a zero does not replace if ``input_tokens`` is zero, too
(``docs/contract/apis.md#zero-counts``)."""


class MessageFold(TextFold):
    """Folds the events of one stream. Not safe for concurrent calls.

    Attributes:
        budget: of all that is kept.
        has_content: text, thinking or arguments were seen, or a block that came whole.
        is_complete: a reason to end was seen, or the event that ends a message.
    """

    __slots__ = (
        "_blocks",
        "_forced",
        "_has_begun",
        "_has_counts",
        "_has_stop",
        "_last",
        "_message",
        "_number",
        "_places",
        "_usage",
        "_usage_budget",
        "is_complete",
    )

    def __init__(self, budget: Budget) -> None:
        super().__init__(budget)
        self._message: JsonObject = {}
        self._number = 0  # of the message in the stream
        self._has_begun = False
        self._reset()

    def _reset(self) -> None:
        """Forget what was said: a message begins."""
        self._number += 1
        self.is_complete = False
        self._forced: JsonObject = {}  # members of the message that are kept without room
        self._blocks: list[BlockFold] = []  # in the order in which they began
        self._places: dict[int, int] = {}  # by index, the place in it of the block that began last
        self._last = -1  # the highest index of a block
        self._usage: JsonObject = {}
        self._usage_budget = Budget(MAX_USAGE_BYTES)
        self._has_counts = False  # the counts at the end
        self._has_stop = False

    def feed(self, event: Any, name: str | None = None) -> bool:
        """Fold one event, and tell whether it is a chunk; an error is not one.

        Args:
            event: its decoded JSON, of any type; the fold keeps and changes it.
            name: the event's own name, which counts if the JSON has no type.
        """
        self._close_text()
        members = object_of(event)
        kind = text_of(members.get("type")) or name or ""
        match kind:
            case "message_start":
                self._begin(object_of(members.get("message")))
            case "content_block_start":
                index = self._find(members, is_new=True)
                self._begin_block(index, object_of(members.get("content_block")))
            case "content_block_delta":
                self._feed_delta(self._find(members), object_of(members.get("delta")))
            case "message_delta":
                self._feed_end(members)
            case "message_stop":
                self.is_complete = self._has_stop = True
            case "content_block_stop":
                if (block := self._block_at(self._find(members))) is not None:
                    block.is_done = True
            case "ping":
                pass
            case _:
                if (error := find_error(event, name)) is not None:
                    self.note_error(error)
                    return False
                if not kind:
                    self.note("foreign_chunk")
        return True

    def _is_piece(self, kind: str) -> bool:
        return kind in PIECES

    def _find_pieces(self, kind: str, index: int, part: int) -> list[str] | None:  # noqa: ARG002
        block = self._block_at(index) or self._add(index, {"type": PIECES[kind][1]})
        if block is None:
            return None
        pieces = block.texts.get(kind)
        if pieces is None and self.budget.reserve(_BLOCK_BYTES):
            pieces = block.texts[kind] = []
        return pieces

    def _begin(self, message: JsonObject) -> None:
        usage = message.pop("usage", None)
        if self._has_begun:
            if not self._is_other(message):
                self._put(self._message, without_empty(message))
                counts = {n: it for n, it in object_of(usage).items() if n != "output_tokens"}
                self._feed_usage(counts)  # the answer's count at a beginning is a guess
                return
            self.note("several_responses")
            self._reset()
        self._has_begun = True
        held_bytes = size_bytes(self._message)
        if self.budget.reserve(size_bytes(message) - held_bytes):
            self._message = message
        else:
            self.budget.reserve(-held_bytes)
            self._message = {}
            self._force(message, "type", "id", "model", "role")
        self._feed_usage(usage)

    def _is_other(self, message: JsonObject) -> bool:
        """Tell whether the beginning of a message, after another beginning, is another message.

        It is the same one before its end, unless the id differs: gateways repeat the beginning,
        with counts that they do not know.
        """
        known, new = (self._message | self._forced).get("id"), text_of(message.get("id"))
        return self.is_complete or None is not new != known is not None

    def _find(self, event: JsonObject, *, is_new: bool = False) -> int:
        """The index of the block that an event is about; without one it is the last block."""
        index = index_of(event.get("index"))
        if index is not None:
            return index
        return self._last + 1 if is_new or self._last < 0 else self._last

    def _block_at(self, index: int) -> BlockFold | None:
        """The block that events with this index are about: the one that began last there.

        Anthropic's API begins a further block at a used index after a web search, and some gateways
        have one index for all blocks.
        """
        place = self._places.get(index)
        return None if place is None else self._blocks[place]

    def _begin_block(self, index: int, value: JsonObject) -> None:
        """Begin a block, or add a repeated beginning to the block under way."""
        block = self._block_at(index)
        if block is not None and block.is_begun_by(value):
            self._put(block.value, without_empty(value))
        else:
            self._add(index, value)

    def _add(self, index: int, value: JsonObject) -> BlockFold | None:
        if not self.budget.reserve(_BLOCK_BYTES + size_bytes(value)):
            return None
        block, before = BlockFold(value), self._block_at(index)
        if before is not None and before.is_empty:  # some gateways begin with an empty text block
            self._blocks[self._places[index]] = block
        else:
            self._places[index] = len(self._blocks)
            self._blocks.append(block)
        self._last = max(self._last, index)
        if kind_of(value) == "fallback":
            self._force(object_of(value.get("to")), "model")
        if kind_of(value) in CALLS or any(map(value.get, _SPOKEN)):
            self.has_content = True
        return block

    def _feed_delta(self, index: int, delta: JsonObject) -> None:
        kind = text_of(delta.get("type")) or ""
        if kind in PIECES:
            piece = delta.get(PIECES[kind][0])
            self.open_text(kind, index, 0, piece if isinstance(piece, str) else "")
            if kind != COMPACTION:
                return
        block = self._block_at(index) or self._add(index, {})
        if block is None:
            return
        skipped = {"type", "content"} if kind == COMPACTION else {"type"}
        members = {name: value for name, value in delta.items() if name not in skipped}
        if kind == "citations_delta":
            self._cite(block.value, members.get("citation"))
        else:
            self._put(block.value, members)

    def _cite(self, block: JsonObject, citation: Any) -> None:
        known = block.get("citations")
        if not self.budget.reserve(size_bytes(citation) + MEMBER_BYTES):
            return
        if isinstance(known, list):
            known.append(citation)
        else:
            block["citations"] = [citation]

    def _feed_end(self, event: JsonObject) -> None:
        """Fold the event that says how a message ended; it may come more than once."""
        delta = object_of(event.get("delta"))
        if "context_management" in event:
            delta = delta | {"context_management": event["context_management"]}
        self._force(delta, *_WORDS)
        if "stop_reason" in self._forced:
            self.is_complete = True
        self._put(self._message, {n: delta[n] for n in delta.keys() - _SAID_BEFORE_THE_END})
        usage = object_of(event.get("usage"))
        if first_count(usage, COMPLETION_COUNTS) is not None:
            self._has_counts = True
        self._feed_usage(usage)

    def _force(self, members: JsonObject, *names: str) -> None:
        """Keep short words even if there is no room.

        They are kept apart, so that the budget never gets back room that it did not give.
        """
        for name in names:
            value = text_of(members.get(name))
            if value is not None and len(value) <= _BLOCK_BYTES:
                self._forced[name] = value

    def _put(self, into: JsonObject, members: JsonObject) -> None:
        for name, value in members.items():
            known = into.get(name)
            if name in into and (value is None or value == known):
                continue
            growth = size_bytes(value) - size_bytes(known)
            if self.budget.reserve(growth + (0 if name in into else len(name) + MEMBER_BYTES)):
                into[name] = value

    def _feed_usage(self, usage: Any) -> None:
        """Fold counts: the last value of each that is not null is taken; values are never summed.

        Gateways report ``input_tokens`` of zero if they do not know it. A zero then replaces no
        positive count of the prompt.
        """
        new, known = object_of(usage), self._usage
        unknown = _PROMPT if new.get("input_tokens") == 0 else frozenset[str]()
        for name, value in new.items():
            is_known = name in known
            if is_known and value is None:
                continue
            if value == 0 and name in unknown and count_of(known.get(name)):
                continue
            growth = size_bytes(value) - size_bytes(known.get(name))
            if self._usage_budget.reserve(growth + (0 if is_known else len(name) + MEMBER_BYTES)):
                known[name] = value

    def look(self) -> Sequence[GrowingText]:
        """Look at the texts of all blocks, which may begin with some."""
        return [
            text
            for place, block in enumerate(self._blocks)
            for text in block.look((self._number, place))
        ]

    def _in_order(self) -> Sequence[BlockFold]:
        """The blocks in the order of their indexes, or as they began if some share an index."""
        if len(self._places) < len(self._blocks):
            return self._blocks
        return [self._blocks[place] for _, place in sorted(self._places.items())]

    def answer(self) -> MessageAnswer:
        """Return the answer as it stands, after the last event."""
        self._close_text()
        body = self._message | self._forced
        if self._blocks:
            body["content"] = [block.body(self.budget) for block in self._in_order()]
        if self._usage:
            body["usage"] = self._usage
        if self.budget.exceeded or self._usage_budget.exceeded:
            self.note("observer_limit")
        return make_answer(
            body,
            self._usage,
            error=self._error,
            anomalies=(*self._anomalies,),
            has_end=self._has_stop,
            is_cut=not self._has_counts,
        )
